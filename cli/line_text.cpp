#include "cli/line_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/drawing.hpp"
#include "cli/emulated_case.hpp"
#include "cli/sources.hpp"
#include "harness/embedded.hpp"

namespace ws::cli {

std::string short_place(const ProfilePlace& place, std::string_view family) {
  std::string_view file = place.file;
  for (const std::string_view folder : {"kernels/", "include/warpsmith/"}) {
    if (file.starts_with(folder)) file.remove_prefix(folder.size());
  }
  if (!family.empty() && file.starts_with(family)) file.remove_prefix(family.size() + 1);
  return fmt::format("{}:{}", file, place.line);
}

std::string source_of(const ProfilePlace& place) {
  const auto files = embedded_files();
  const auto at = std::ranges::find(files, place.file, &EmbeddedFile::path);
  if (at == files.end()) return {};
  std::istringstream stream{std::string(at->text)};
  std::string line;
  for (int i = 0; i < place.line; ++i) std::getline(stream, line);
  const size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? std::string() : line.substr(first);
}

std::vector<std::string> remarks_on(const ProfileLine& line) {
  std::vector<std::string> remarks;
  if (line.sectors > line.ideal_sectors && line.requests > 0) {
    const auto requests = static_cast<double>(line.requests);
    std::string text = fmt::format("{:.1f} sectors a request where {:.1f} would do",
                                   static_cast<double>(line.sectors) / requests,
                                   static_cast<double>(line.ideal_sectors) / requests);
    if (line.strided * 2 > line.requests) {
      text += fmt::format(": lanes are {} bytes apart", std::abs(line.stride));
    }
    remarks.push_back(text);
  }
  if (line.wavefronts > line.ideal_wavefronts) {
    remarks.push_back(fmt::format(
        "bank conflicts: {:.1f} ways",
        static_cast<double>(line.wavefronts) / static_cast<double>(line.ideal_wavefronts)));
  }
  if (line.swizzle > 0) remarks.push_back(fmt::format("swizzle of {} bytes", line.swizzle));
  if (line.swizzle == 0) remarks.emplace_back("no swizzle");
  if (line.most_on_one_address > 1) {
    remarks.push_back(fmt::format("{} times on one address", line.most_on_one_address));
  }
  const double divergent = 100 * static_cast<double>(line.divergent) /
                           std::max(static_cast<double>(line.warp_instructions), 1.0);
  if (divergent >= 1 && !line.by_one_thread) {
    remarks.push_back(fmt::format("{:.0f} % of them without some lanes of the warp", divergent));
  }
  if (!line.waits_for.empty()) {
    std::vector<std::string> places;
    for (const ProfilePlace& place : line.waits_for) {
      const std::string text = fmt::format("{} {}", place.operation, short_place(place));
      if (places.size() < 3) places.push_back(text);
    }
    const size_t more = line.waits_for.size() - places.size();
    remarks.push_back(fmt::format("waits for {}{}", fmt::join(places, ", "),
                                  more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  return remarks;
}

Worst worst_lines(const harness::Target& target, DType dtype) {
  constexpr size_t kLines = 3;
  const Case chosen = square_case(target, dtype);
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
      text += ("     " + remark).substr(0, 100) + "\n";
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
