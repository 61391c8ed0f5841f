// warpsmith show: one rung, and what changed from the one below.
#include <fmt/format.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/sources.hpp"
#include "harness/resources.hpp"

namespace ws::cli {
namespace {

struct Shown {
  const Family* family;
  const Operation* operation;
  const Rung* rung;
  const Rung* below;  // null: the lowest
};

Shown find_rung(const std::string& name) {
  const Address address = address_of(name);
  if (address.rung == nullptr) {
    std::string rungs;
    for (const Rung& rung : address.family->rungs) {
      rungs.append(rungs.empty() ? "" : ", ").append(rung.name);
    }
    throw InvalidArgument(fmt::format("show wants a rung, {} has: {}", name, rungs));
  }
  const Operation* operation =
      address.operation != nullptr ? address.operation : &address.family->operations.front();
  const Rung* first = address.family->rungs.data();
  return {address.family, operation, address.rung,
          address.rung == first ? nullptr : address.rung - 1};
}

std::string difference_to_below(const Shown& shown) {
  if (shown.below == nullptr) return {};
  const std::string_view mine = path_of(*shown.family, *shown.rung);
  const std::string_view other = path_of(*shown.family, *shown.below);
  if (mine == other) return {};
  return fmt::format("--- {}\n+++ {}\n{}", other, mine, differences(text_of(other), text_of(mine)));
}

// The launches on the first problem of the family's lists that the rung takes.
Json resources_on_some_case(const Shown& shown) {
  for (const std::span<const Case> cases : {shown.operation->bench, shown.operation->verify}) {
    for (const Case& chosen : cases) {
      for (const DType dtype : {DType::kF16, DType::kBf16, DType::kF32, DType::kI32}) {
        if (!shown.rung->dtypes.has(dtype) || !shown.operation->dtypes.has(dtype)) continue;
        const Problem problem = harness::make_problem(*shown.operation, chosen, dtype);
        try {
          Json launches = Json::array();
          for (const auto& r :
               harness::resources_of(*shown.rung, *shown.operation, chosen, dtype)) {
            launches.push_back(harness::to_json(r));
          }
          return {{"problem", problem.describe()}, {"launches", launches}};
        } catch (const Error&) {
          // Not this one; and none at all where the CUDA build finds no GPU.
        }
      }
    }
  }
  return nullptr;
}

std::string resources_text(const Json& resources) {
  if (resources.is_null()) return {};
  std::string text = fmt::format("launches for {}:\n", resources["problem"].get<std::string>());
  for (const Json& launch : resources["launches"]) {
    text +=
        fmt::format("  {} blocks of {} threads, {} bytes shared", launch["blocks"].get<int64_t>(),
                    launch["threads"].get<int>(), launch["shared_bytes"].get<size_t>());
    if (launch["cluster"] != 1)
      text += fmt::format(", clusters of {}", launch["cluster"].get<int>());
    if (launch["cooperative"] == true) text += ", cooperative";
    if (launch.contains("registers")) {
      text += fmt::format(", {} registers, {} bytes local, occupancy {:.0f} %",
                          launch["registers"].get<int>(), launch["local_bytes"].get<int>(),
                          100 * launch["occupancy"].get<double>());
    }
    text += "\n";
  }
  return text;
}

void run_show(const std::string& name, bool as_json, bool with_source) {
  const Shown shown = find_rung(name);
  const std::string_view path = path_of(*shown.family, *shown.rung);
  const std::string address = fmt::format("{}/{}", shown.operation->name, shown.rung->name);
  const std::string below =
      shown.below == nullptr ? "" : fmt::format("{}/{}", shown.operation->name, shown.below->name);
  const std::string difference = difference_to_below(shown);
  const Json resources = resources_on_some_case(shown);
  const std::vector<std::string> seeds = seeds_of(*shown.rung, *shown.operation);
  if (as_json) {
    print_json(Json{{"rung", address},
                    {"idea", shown.rung->idea},
                    {"file", path},
                    {"arch", to_string(shown.rung->arch)},
                    {"dtypes", dtype_names(shown.rung->dtypes)},
                    {"seeds", seeds},
                    {"header", header_comment(text_of(path))},
                    {"below", below.empty() ? Json(nullptr) : Json(below)},
                    {"diff", difference},
                    {"resources", resources},
                    {"source", text_of(path)}});
    return;
  }
  print(fmt::format("{}: {}\n", address, shown.rung->idea));
  print(fmt::format("{}, {}, from {}\n", path, fmt::join(dtype_names(shown.rung->dtypes), " "),
                    to_string(shown.rung->arch)));
  if (!seeds.empty()) print(fmt::format("also called {}\n", fmt::join(seeds, ", ")));
  print("\n" + header_comment(text_of(path)) + "\n" + resources_text(resources));
  if (with_source) {
    print(fmt::format("\n{}", text_of(path)));
  } else if (shown.below == nullptr) {
    print("\nthe lowest rung of its ladder; --source prints it\n");
  } else if (difference.empty()) {
    print(fmt::format("\nthe same template as {}; --source prints it\n", below));
  } else {
    print(fmt::format("\nfrom the rung below, {}:\n{}", below, difference));
  }
}

}  // namespace

void add_show(CLI::App& app, int&) {
  CLI::App* verb =
      app.add_subcommand("show", "A rung: its idea, its cost, what changed from below");
  auto name = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  auto with_source = std::make_shared<bool>(false);
  verb->add_option("RUNG", *name, "Such as softmax/warp_per_row, or a seed name")->required();
  verb->add_flag("--source", *with_source, "The whole source instead of the difference");
  verb->add_flag("--json", *as_json, "As JSON");
  verb->callback([=] { run_show(*name, *as_json, *with_source); });
}

}  // namespace ws::cli
