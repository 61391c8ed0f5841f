// warpsmith compare: two result files side by side.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "report/results.hpp"

namespace ws::cli {
namespace {

std::string title_of(const report::Results& results) {
  std::vector<std::string> runs;
  for (const report::Ladder& ladder : results.ladders) {
    if (std::ranges::find(runs, ladder.run) == runs.end()) runs.push_back(ladder.run);
  }
  return fmt::format("{}: {}, {}", results.origin, results.device, fmt::join(runs, "; "));
}

// A figure, whatever a file says that it is.
std::string decimal(double value) {
  return value < 1e9 ? fmt::format("{:.1f}", value) : fmt::format("{:.3g}", value);
}
std::string ratio_text(double ratio) {
  return ratio < 1e6 ? fmt::format("{:.3f}", ratio) : fmt::format("{:.3g}", ratio);
}

// The problem, and what it is called in the other file where that is something else.
std::string heading_of(const report::Change& change) {
  const std::string& before = change.before_ladder->problem;
  const std::string& after = change.after_ladder->problem;
  return before == after ? before : fmt::format("{}; in B {}", before, after);
}

// Problems and contenders, of several runs of one problem once.
size_t figures_of(const report::Results& results) { return changes(results, results).size(); }

int run_compare(const std::string& before_path, const std::string& after_path, bool as_json) {
  const report::Results before = report::read_file(before_path);
  const report::Results after = report::read_file(after_path);
  const std::vector<report::Change> all = changes(before, after);
  const bool counted = before.counted();
  const auto figure = [&](const report::Contender& c) {
    return counted ? c.counts.cost : c.median_us;
  };
  const std::string_view unit = counted ? "clocks" : "us";
  const auto empty = [&] {
    return Table({{"rung"},
                  {fmt::format("A {}", unit), true},
                  {fmt::format("B {}", unit), true},
                  {counted ? "A useful" : "A ceiling", true},
                  {counted ? "B useful" : "B ceiling", true},
                  {"A/B", true}});
  };
  Json rows = Json::array();
  std::string text = fmt::format("A  {}\nB  {}\n", title_of(before), title_of(after));
  Table table = empty();
  for (size_t i = 0; i < all.size(); ++i) {
    const report::Change& change = all[i];
    const auto share = [&](const report::Ladder& ladder, const report::Contender& c) {
      return decimal(100 * (counted ? ladder.useful(c) : c.of_ceiling)) + " %";
    };
    table.add({change.before->name, decimal(figure(*change.before)), decimal(figure(*change.after)),
               share(*change.before_ladder, *change.before),
               share(*change.after_ladder, *change.after), ratio_text(change.ratio)});
    rows.push_back({{"problem", change.before_ladder->problem},
                    {"after_problem", change.after_ladder->problem},
                    {"name", change.before->name},
                    {fmt::format("before_{}", unit), figure(*change.before)},
                    {fmt::format("after_{}", unit), figure(*change.after)},
                    {"speedup", change.ratio}});
    if (i + 1 < all.size() && all[i + 1].before_ladder == change.before_ladder) continue;
    text += "\n" + heading_of(change) + "\n" + table.text();
    table = empty();
  }
  const size_t lost = figures_of(before) - all.size();
  const size_t gained = figures_of(after) - all.size();
  if (as_json) {
    print_json(Json{{"before", title_of(before)},
                    {"after", title_of(after)},
                    {"only_before", lost},
                    {"only_after", gained},
                    {"results", rows}});
  } else {
    print(text);
    print(fmt::format("\nA/B above 1: B is {}. Only in A: {}, only in B: {}\n",
                      counted ? "cheaper" : "faster", lost, gained));
  }
  return kOk;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "compare", "Two result files of `bench`, or of `ladder --json`, side by side");
  auto before = std::make_shared<std::string>();
  auto after = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  verb->add_option("A", *before, "Result file")->required();
  verb->add_option("B", *after, "Result file")->required();
  verb->add_flag("--json", *as_json, "As JSON");
  verb->callback([=, &exit_code] { exit_code = run_compare(*before, *after, *as_json); });
}

}  // namespace ws::cli
