// warpsmith profile: one rung on one problem, by line of its source.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "cli/ladder_table.hpp"
#include "cli/line_text.hpp"
#include "harness/emulated_case.hpp"
#include "harness/fields.hpp"
#include "harness/profile.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

using harness::KernelResources;

struct ProfileArguments {
  std::string name;
  std::string resources;  // a file
  ProblemOptions problems;
  int lines = 12;
  bool as_json = false;
};

// Registers as a CUDA build's `resources --json` knows them, by the order of the rung's launches.
void add_registers(const std::string& file, const std::string& rung, DType dtype,
                   std::vector<KernelResources>& launches) {
  const Json json = harness::read_json_file(file);
  const harness::Fields resources(
      json, fmt::format("--resources: {} is not what `warpsmith resources --json` of a CUDA build "
                        "writes",
                        file));
  for (const harness::Fields& result : resources.objects("results")) {
    if (result.get<std::string>("rung") != rung) continue;
    if (result.get<std::string>("dtype") != to_string(dtype)) continue;
    const std::vector<harness::Fields> known = result.objects("launches");
    for (size_t i = 0; i < std::min(launches.size(), known.size()); ++i) {
      launches[i].registers = known[i].get<int>("registers", -1);
    }
    return;
  }
}

std::string launch_text(const KernelResources& launch) {
  const harness::OccupancyLimits limits = occupancy_limits(launch);
  std::string text = fmt::format("launch: {} blocks of {} threads, {} bytes shared",
                                 launch.grid.blocks, launch.grid.threads, launch.shared_bytes);
  if (launch.grid.cluster > 1) text += fmt::format(", clusters of {}", launch.grid.cluster);
  if (launch.grid.cooperative) text += ", cooperative";
  text += fmt::format("\n  an SM of Hopper holds {} by threads, {} by shared memory, {} at most",
                      limits.by_threads, limits.by_shared, limits.by_blocks);
  if (limits.by_registers >= 0) text += fmt::format(", {} by registers", limits.by_registers);
  return text + fmt::format(": {:.0f} %{}\n", 100 * limits.occupancy,
                            launch.registers < 0 ? " (registers unknown)" : "");
}

int run_profile(ProfileArguments& arguments) {
  require(runtime::kEmulated,
          "profile is the emulator's: this warpsmith is the CUDA build; build the preset "
          "`emulated`, or ask ncu about the kernels here");
  const harness::Selection& selection = arguments.problems.selection;
  const auto [target, dtype, chosen] = chosen_run(arguments.name, selection, "profile");
  const Operation& operation = *target.operation;
  harness::Instance instance(operation, chosen, dtype, selection.seed, {}, selection.limits);
  std::vector<KernelResources> launches =
      harness::resources_of(*target.rung, operation, chosen, dtype);
  if (!arguments.resources.empty()) {
    add_registers(arguments.resources, target.name(), dtype, launches);
  }
  const Profile profile = harness::profile(*target.rung, instance);
  if (arguments.as_json) {
    Json json = {{"rung", target.name()},
                 {"problem", instance.problem().describe()},
                 {"dtype", to_string(dtype)},
                 {"launches", Json::array()}};
    for (const KernelResources& launch : launches) {
      json["launches"].push_back(harness::to_json(launch));
      json["launches"].back()["limits"] = harness::to_json(occupancy_limits(launch));
    }
    json.update(harness::to_json(profile));
    print_json(json);
    return kOk;
  }
  Table header({{"rung, in the emulator"}, {"problem"}});
  header.add({target.name(), instance.problem().describe()});
  print(header.text() + "\n");
  for (size_t i = 0; i < launches.size(); ++i) {
    constexpr size_t kShown = 4;
    if (i == kShown) print(fmt::format("... and {} launches more\n", launches.size() - kShown));
    if (i < kShown) print(launch_text(launches[i]));
  }
  print(totals_text(profile) + "\n");
  print(lines_text(profile, target.family->name, static_cast<size_t>(arguments.lines)));
  return kOk;
}

}  // namespace

void add_profile(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "profile", "A rung line by line: sectors, bank conflicts, lanes; in the emulator");
  auto arguments = std::make_shared<ProfileArguments>();
  verb->add_option("RUNG", arguments->name, "Such as softmax/warp_per_row, or a seed name")
      ->required();
  arguments->problems.add_to(*verb);
  arguments->problems.add_limits_to(*verb);
  add_device(*verb);
  add_order(*verb);
  verb->add_option("--lines", arguments->lines, "So many, the dearest first")
      ->capture_default_str()
      ->check(whole_number(1, 1000000));
  verb->add_option("--resources", arguments->resources,
                   "What `resources RUNG --json` of a CUDA build wrote: for the registers");
  verb->add_flag("--json", arguments->as_json, "As JSON, all lines");
  verb->callback([=, &exit_code] { exit_code = run_profile(*arguments); });
}

}  // namespace ws::cli
