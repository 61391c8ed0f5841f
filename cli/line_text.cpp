#include "cli/line_text.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "cli/drawing.hpp"
#include "cli/ladder_table.hpp"
#include "cli/terminal.hpp"
#include "harness/emulated_case.hpp"

namespace ws::cli {
namespace {

std::string bytes_text(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value < 1e4) return fmt::format("{} B", bytes);
  if (value < 1e7) return fmt::format("{:.1f} KB", value * 1e-3);
  return fmt::format("{:.1f} MB", value * 1e-6);
}

std::string per(uint64_t a, uint64_t b) {
  return b == 0 ? "" : fmt::format("{:.1f}", static_cast<double>(a) / static_cast<double>(b));
}

}  // namespace

std::string totals_text(const Profile& profile) {
  std::string text;
  if (profile.requests() > 0) {
    text += fmt::format(
        "global: {} requests, {} sectors ({} would do); each once: {} read, {} "
        "written\n",
        compact(static_cast<double>(profile.requests())),
        compact(static_cast<double>(profile.sectors())),
        compact(static_cast<double>(profile.ideal_sectors())),
        bytes_text(32 * profile.unique_read_sectors),
        bytes_text(32 * profile.unique_written_sectors));
  }
  if (profile.wavefronts() > 0) {
    text += fmt::format("shared: {} wavefronts ({} without bank conflicts), {:.2f} ways\n",
                        compact(static_cast<double>(profile.wavefronts())),
                        compact(static_cast<double>(profile.ideal_wavefronts())), profile.ways());
  }
  return text;
}

std::string lines_text(const Profile& profile, std::string_view family, size_t most) {
  const size_t width = width_of(STDOUT_FILENO);
  Table table({{"cost", true},
               {"instruction"},
               {"warp ops", true},
               {"lanes", true},
               {"sectors", true},
               {"ideal", true},
               {"asked", true},
               {"moved", true},
               {"ways", true}});
  const double all = std::max(profile.cost(), 1.0);
  const size_t shown = std::min(most, profile.lines.size());
  for (size_t i = 0; i < shown; ++i) {
    const ProfileLine& line = profile.lines[i];
    // The names of copies are long, and say nothing more.
    std::string operation = line.place.operation;
    if (operation.starts_with("cp.async.bulk.")) operation.erase(0, 9);
    const bool moves = line.requests > 0;
    table.add({fmt::format("{:.0f} %", 100 * line.cost() / all), operation.substr(0, 18),
               compact(static_cast<double>(line.warp_instructions)),
               line.by_one_thread ? "1.0" : per(line.active_lanes, line.warp_instructions),
               moves ? per(line.sectors, line.requests) : "",
               moves ? per(line.ideal_sectors, line.requests) : "",
               moves ? bytes_text(line.asked_bytes) : "",
               moves ? bytes_text(32 * line.sectors) : "",
               per(line.wavefronts, line.ideal_wavefronts)});
  }
  std::istringstream rows(table.text());
  std::string text;
  std::string row;
  std::getline(rows, row);
  text += row + "\n";
  for (size_t i = 0; i < shown && std::getline(rows, row); ++i) {
    text += row + "\n";
    std::vector<std::string> below = remarks_on(profile.lines[i]);
    const ProfilePlace& place = profile.lines[i].place;
    below.insert(below.begin(), short_place(place, family) + "  " + source_of(place));
    for (const std::string& remark : below) {
      text += ("      " + remark).substr(0, width) + "\n";
    }
  }
  if (shown < profile.lines.size()) {
    text += fmt::format("... and {} more: --lines {}\n", profile.lines.size() - shown,
                        profile.lines.size());
  }
  return text;
}

Worst worst_lines(const harness::Target& target, DType dtype) {
  constexpr size_t kLines = 3;
  const Case chosen = harness::square_case(target, dtype);
  try {
    harness::Instance instance(*target.operation, chosen, dtype, 1);
    Profile profile = harness::profile(*target.rung, instance);
    Worst worst{instance.problem().describe(), profile.cost(), std::move(profile.lines)};
    worst.lines.resize(std::min(worst.lines.size(), kLines));
    return worst;
  } catch (const Error&) {
    return {};  // `verify` tells what is wrong
  }
}

Json to_json(const Worst& worst) {
  if (worst.lines.empty()) return nullptr;
  Json json = {{"problem", worst.problem}, {"lines", Json::array()}};
  for (const ProfileLine& line : worst.lines) {
    json["lines"].push_back({{"file", line.place.file},
                             {"line", line.place.line},
                             {"operation", line.place.operation},
                             {"of_cost", line.cost() / std::max(worst.cost, 1.0)},
                             {"remarks", remarks_on(line)}});
  }
  return json;
}

namespace {

std::string share_of(const Worst& worst, const ProfileLine& line) {
  return fmt::format("{:.0f} % of the cost, {}", 100 * line.cost() / std::max(worst.cost, 1.0),
                     line.place.operation);
}

}  // namespace

std::string text_of(const Worst& worst) {
  if (worst.lines.empty()) return {};
  std::string text = fmt::format("the dearest lines for {}:\n", worst.problem);
  for (size_t i = 0; i < worst.lines.size(); ++i) {
    const ProfileLine& line = worst.lines[i];
    text += fmt::format("  {}. {}: {}\n", i + 1, short_place(line.place), share_of(worst, line));
    for (const std::string& remark : remarks_on(line)) {
      text += ("     " + remark).substr(0, width_of(STDOUT_FILENO)) + "\n";
    }
  }
  return text;
}

std::string pictures_of(const Worst& worst, size_t most) {
  std::string text;
  std::vector<std::string> drawn;
  for (size_t i = 0; i < worst.lines.size() && drawn.size() < most; ++i) {
    const ProfileLine& line = worst.lines[i];
    const std::string picture = cli::picture(line.access);
    if (picture.empty()) continue;
    const std::string title =
        fmt::format("  {}. {}: {}", i + 1, line.place.operation, in_words(line.access));
    const auto same = std::ranges::find(drawn, picture);
    text += same == drawn.end() ? fmt::format("{}\n{}", title, picture)
                                : fmt::format("{}, as above\n", title);
    drawn.push_back(picture);
  }
  return text;
}

std::string marked(const std::string& text, std::string_view file, const Worst& worst) {
  const bool differs = text.starts_with("---");
  std::string result;
  std::istringstream stream(text);
  int number = 0;
  for (std::string row; std::getline(stream, row);) {
    result += row + "\n";
    const bool is_hunk = differs && row.starts_with("@@");
    if (is_hunk) number = std::stoi(row.substr(row.find('+') + 1)) - 1;
    if (is_hunk || (differs && (row.starts_with("-") || row.starts_with("+++")))) continue;
    ++number;
    for (size_t i = 0; i < worst.lines.size(); ++i) {
      const ProfilePlace& place = worst.lines[i].place;
      if (place.file != file || place.line != number) continue;
      result += fmt::format("^ {}. {}\n", i + 1, share_of(worst, worst.lines[i]));
    }
  }
  return result;
}

}  // namespace ws::cli
