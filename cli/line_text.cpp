#include "cli/line_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/drawing.hpp"
#include "harness/emulated_case.hpp"

namespace ws::cli {

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
