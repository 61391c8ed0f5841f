// warpsmith resources: registers, shared memory, spills, occupancy of each rung's launches.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "harness/resources.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

struct ResourceArguments {
  ProblemOptions problems;
  bool as_json = false;
};

std::string or_dash(int value) { return value < 0 ? "-" : std::to_string(value); }

int run_resources(const ResourceArguments& arguments) {
  runtime::require_device();
  Table table({{"rung"},
               {"dtype"},
               {"blocks", true},
               {"threads", true},
               {"cluster", true},
               {"shared", true},
               {"regs", true},
               {"local", true},
               {"occ.", true}});
  Json results = Json::array();
  std::vector<std::string> skipped;
  bool spills = false;
  const harness::Selection& selection = arguments.problems.selection;
  for (const harness::Target& target : harness::targets_of(selection.names)) {
    const std::vector<Case> cases =
        selection.of(*target.operation, target.operation->cases().bench.first(1));
    for (const DType dtype : selection.chosen(target.dtypes)) {
      for (const Case& chosen : cases) {
        const std::string problem = make_problem(*target.operation, chosen, dtype).describe();
        std::vector<harness::KernelResources> launches;
        try {
          launches = harness::resources_of(*target.rung, *target.operation, chosen, dtype);
        } catch (const InvalidArgument& error) {
          skipped.push_back(error.message());
          continue;
        }
        Json entry = {{"rung", target.name()},
                      {"dtype", to_string(dtype)},
                      {"problem", problem},
                      {"may_spill", target.rung->may_spill},
                      {"launches", Json::array()}};
        for (const harness::KernelResources& r : launches) {
          entry["launches"].push_back(harness::to_json(r));
          spills = spills || (r.local_bytes > 0 && !target.rung->may_spill);
          table.add({target.name(), std::string(to_string(dtype)), std::to_string(r.grid.blocks),
                     std::to_string(r.grid.threads), std::to_string(r.grid.cluster),
                     std::to_string(r.shared_bytes), or_dash(r.registers), or_dash(r.local_bytes),
                     r.occupancy < 0 ? "-" : fmt::format("{:.0f} %", 100 * r.occupancy)});
        }
        results.push_back(std::move(entry));
      }
    }
  }
  if (arguments.as_json) {
    print_json(Json{{"device", runtime::kName}, {"results", results}});
  } else {
    print(table.text());
    constexpr size_t kShown = 5;
    for (size_t i = 0; i < std::min(kShown, skipped.size()); ++i) {
      print(fmt::format("skipped: {}\n", skipped[i]));
    }
    if (skipped.size() > kShown) print(fmt::format("... and {} more\n", skipped.size() - kShown));
    if (runtime::kEmulated) {
      print("registers, local memory and occupancy are known to the CUDA build only\n");
    }
    if (spills) print("failed: a rung uses local memory that its row does not allow (may_spill)\n");
  }
  return spills ? kFailed : kOk;
}

}  // namespace

void add_resources(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("resources", "Registers, shared memory, spills and occupancy of launches");
  auto arguments = std::make_shared<ResourceArguments>();
  arguments->problems.add_names_to(*verb);
  arguments->problems.add_to(*verb);
  add_device(*verb);
  verb->add_flag("--json", arguments->as_json, "As JSON");
  verb->callback([=, &exit_code] { exit_code = run_resources(*arguments); });
}

}  // namespace ws::cli
