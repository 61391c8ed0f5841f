// warpsmith list: families, operations, rungs, seeds.
#include <fmt/format.h>

#include <algorithm>

#include "catalogue/catalogue_json.hpp"
#include "cli/command.hpp"
#include "harness/seeds.hpp"

namespace ws::cli {
namespace {

// What the public collections have of the family, reached or not.
Json seeds_of_collections(const Family& family) {
  Json seeds = Json::array();
  for (const harness::SeedRow& row : harness::seed_rows()) {
    if (row.family != family.name) continue;
    seeds.push_back({{"name", row.name},
                     {"dtypes", row.dtypes},
                     {"rung", row.rung.empty() ? Json(nullptr) : Json(row.rung)}});
  }
  return seeds;
}

// That the rung takes of any operation.
DTypes dtypes_of(const Rung& rung, const Family& family) {
  DTypes all;
  for (const Operation& operation : family.operations) all = all | ws::dtypes_of(rung, operation);
  return all;
}

// Short enough to leave the ideas their room; --json has every name.
std::string joined(const std::vector<std::string_view>& names) {
  constexpr size_t kMost = 4;
  if (names.size() > kMost) {
    return fmt::format("{},... ({})", fmt::join(names.begin(), names.begin() + 2, ","),
                       names.size());
  }
  return fmt::format("{}", fmt::join(names, ","));
}

void run_list(const std::vector<std::string>& names, bool as_json) {
  std::vector<const Family*> chosen;
  for (const Family* family : families()) {
    const bool named = std::ranges::any_of(
        names, [&](const std::string& name) { return resolve(name).family == family; });
    if (names.empty() || named) chosen.push_back(family);
  }
  if (as_json) {
    Json json = catalogue_json();
    json["families"] = Json::array();
    for (const Json& all : catalogue_json()["families"]) {
      const auto family = std::ranges::find(chosen, all["name"].get<std::string>(), &Family::name);
      if (family == chosen.end()) continue;
      json["families"].push_back(all);
      json["families"].back()["seeds"] = seeds_of_collections(**family);
    }
    print_json(json);
    return;
  }
  for (const Family* family : chosen) {
    print(fmt::format("{}: {}\n", family->name, family->summary));
    std::vector<std::string_view> operations;
    for (const Operation& operation : family->operations) operations.push_back(operation.name);
    print(Table({{"  operations:"}, {fmt::format("{}", fmt::join(operations, ", "))}}).text());
    Table table({{"  rung"}, {"dtypes"}, {"arch"}, {"idea"}});
    for (const Rung* rung : family->rungs) {
      table.add({fmt::format("  {}", rung->name), joined(dtype_names(dtypes_of(*rung, *family))),
                 std::string(to_string(rung->arch)), idea_of(*rung)});
    }
    print(table.text() + "\n");
  }
}

}  // namespace

void add_list(CLI::App& app, int&) {
  CLI::App* verb = app.add_subcommand("list", "Families, their operations and rungs");
  auto names = std::make_shared<std::vector<std::string>>();
  auto as_json = std::make_shared<bool>(false);
  verb->add_option("NAMES", *names, "Only these families");
  verb->add_flag("--json", *as_json, "All there is to know, as JSON");
  verb->callback([=] { run_list(*names, *as_json); });
}

}  // namespace ws::cli
