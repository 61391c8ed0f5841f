// warpsmith list: families, operations, rungs, seeds.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.hpp"
#include "cli/sources.hpp"

namespace ws::cli {
namespace {

Json to_json(const Attribute& attribute) {
  constexpr std::array<std::string_view, 4> kKinds = {"float", "int", "bool", "choice"};
  Json json = {{"name", attribute.name},
               {"kind", kKinds[static_cast<size_t>(attribute.kind)]},
               {"default", describe_value(attribute, attribute.standard)},
               {"doc", attribute.doc}};
  if (!attribute.choices.empty()) {
    json["choices"] = std::vector(attribute.choices.begin(), attribute.choices.end());
  }
  return json;
}

Json to_json(const Operation& operation) {
  Json json = {
      {"name", operation.name},
      {"summary", operation.summary},
      {"formula", operation.formula},
      {"source", operation.source},
      {"dtypes", dtype_names(operation.dtypes)},
      {"extents", std::vector(operation.extent_names.begin(), operation.extent_names.end())},
      {"parameters", Json::array()},
      {"attributes", Json::array()},
      {"peers", Json::array()},
      {"torch", operation.torch}};
  for (const Parameter& p : operation.parameters) {
    json["parameters"].push_back({{"name", p.name}, {"output", p.output}, {"doc", p.doc}});
  }
  for (const Attribute& a : operation.attributes) json["attributes"].push_back(to_json(a));
  for (const Peer& peer : operation.peers) json["peers"].push_back(peer.name);
  return json;
}

Json to_json(const Family& family) {
  Json json = {{"name", family.name},
               {"summary", family.summary},
               {"operations", Json::array()},
               {"rungs", Json::array()},
               {"seeds", Json::array()}};
  for (const Operation& operation : family.operations) {
    json["operations"].push_back(to_json(operation));
  }
  for (const Rung& rung : family.rungs) {
    json["rungs"].push_back({{"name", rung.name},
                             {"idea", rung.idea},
                             {"dtypes", dtype_names(rung.dtypes)},
                             {"arch", to_string(rung.arch)},
                             {"file", rung.file},
                             {"may_spill", rung.may_spill}});
  }
  for (const SeedRow& row : seed_rows()) {
    if (row.family != family.name) continue;
    json["seeds"].push_back({{"name", row.name},
                             {"dtypes", row.dtypes},
                             {"rung", row.rung.empty() ? Json(nullptr) : Json(row.rung)}});
  }
  return json;
}

std::string joined(const std::vector<std::string_view>& names) {
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
    Json json = Json::array();
    for (const Family* family : chosen) json.push_back(to_json(*family));
    print_json(Json{{"families", json}});
    return;
  }
  for (const Family* family : chosen) {
    print(fmt::format("{}: {}\n", family->name, family->summary));
    std::vector<std::string_view> operations;
    for (const Operation& operation : family->operations) operations.push_back(operation.name);
    print(Table({{"  operations:"}, {fmt::format("{}", fmt::join(operations, ", "))}}).text());
    Table table({{"  rung"}, {"dtypes"}, {"arch"}, {"idea"}});
    for (const Rung& rung : family->rungs) {
      table.add({fmt::format("  {}", rung.name), joined(dtype_names(rung.dtypes)),
                 std::string(to_string(rung.arch)), std::string(rung.idea)});
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
