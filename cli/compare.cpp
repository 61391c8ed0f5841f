// warpsmith compare: two result files side by side.
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <memory>

#include "cli/command.hpp"

namespace ws::cli {
namespace {

struct Figure {
  double median = 0;
  double of_ceiling = 0;
};
// By problem, then contender; `order` as they stand in the file.
struct Results {
  std::string title;
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, Figure> figures;
};

Results read(const std::string& path) {
  std::ifstream file(path);
  require(file.good(), "cannot read ", path);
  Results results;
  try {
    const Json json = Json::parse(file);
    results.title = fmt::format("{}: {}", path, json.at("device").at("name").get<std::string>());
    for (const Json& run : json.at("runs")) {
      results.title += fmt::format(", {} of {}", run.at("revision").get<std::string>(),
                                   run.at("date").get<std::string>());
    }
    for (const Json& group : json.at("results")) {
      for (const Json& m : group.at("measurements")) {
        if (!m.contains("median_us")) continue;
        const std::pair key{group.at("problem").get<std::string>(),
                            m.at("name").get<std::string>()};
        const Json& share = m.at("of_ceiling");
        const Figure figure{m.at("median_us").get<double>(),
                            share.is_null() ? 0 : share.get<double>()};
        // Of several runs of one problem the first counts.
        if (results.figures.emplace(key, figure).second) results.order.push_back(key);
      }
    }
  } catch (const Json::exception& error) {
    throw InvalidArgument(fmt::format("{} is no result file of `bench`: {}", path, error.what()));
  }
  return results;
}

int run_compare(const std::string& before_path, const std::string& after_path, bool as_json) {
  const Results before = read(before_path);
  const Results after = read(after_path);
  Json rows = Json::array();
  std::string text = fmt::format("A  {}\nB  {}\n", before.title, after.title);
  std::string problem;
  Table table({{"rung"},
               {"A us", true},
               {"B us", true},
               {"A ceiling", true},
               {"B ceiling", true},
               {"A/B", true}});
  const auto flush = [&] {
    if (!problem.empty()) text += "\n" + problem + "\n" + table.text();
    table = Table({{"rung"},
                   {"A us", true},
                   {"B us", true},
                   {"A ceiling", true},
                   {"B ceiling", true},
                   {"A/B", true}});
  };
  for (const auto& key : before.order) {
    const auto at = after.figures.find(key);
    if (at == after.figures.end()) continue;
    const Figure& a = before.figures.at(key);
    const Figure& b = at->second;
    if (key.first != problem) {
      flush();
      problem = key.first;
    }
    table.add({key.second, fmt::format("{:.1f}", a.median), fmt::format("{:.1f}", b.median),
               fmt::format("{:.1f} %", 100 * a.of_ceiling),
               fmt::format("{:.1f} %", 100 * b.of_ceiling),
               fmt::format("{:.3f}", a.median / b.median)});
    rows.push_back({{"problem", key.first},
                    {"name", key.second},
                    {"before_us", a.median},
                    {"after_us", b.median},
                    {"speedup", a.median / b.median}});
  }
  flush();
  const auto lost = before.figures.size() - rows.size();
  const auto gained = after.figures.size() - rows.size();
  if (as_json) {
    print_json(Json{{"before", before.title},
                    {"after", after.title},
                    {"only_before", lost},
                    {"only_after", gained},
                    {"results", rows}});
  } else {
    print(text);
    print(fmt::format("\nA/B above 1: B is faster. Only in A: {}, only in B: {}\n", lost, gained));
  }
  return kOk;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("compare", "Two result files of `bench`, side by side");
  auto before = std::make_shared<std::string>();
  auto after = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  verb->add_option("A", *before, "Result file")->required();
  verb->add_option("B", *after, "Result file")->required();
  verb->add_flag("--json", *as_json, "As JSON");
  verb->callback([=, &exit_code] { exit_code = run_compare(*before, *after, *as_json); });
}

}  // namespace ws::cli
