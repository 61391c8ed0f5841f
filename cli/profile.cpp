// warpsmith profile: one rung on one problem, by line of its source.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include "cli/command.hpp"
#include "cli/line_text.hpp"
#include "harness/emulated_case.hpp"
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

std::string compact(double value) {
  if (value < 1e4) return fmt::format("{:.0f}", value);
  if (value < 1e7) return fmt::format("{:.0f}k", value * 1e-3);
  return fmt::format("{:.0f}M", value * 1e-6);
}

std::string bytes_text(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value < 1e4) return fmt::format("{} B", bytes);
  if (value < 1e7) return fmt::format("{:.1f} KB", value * 1e-3);
  return fmt::format("{:.1f} MB", value * 1e-6);
}

std::string ratio(uint64_t a, uint64_t b) {
  return b == 0 ? "" : fmt::format("{:.1f}", static_cast<double>(a) / static_cast<double>(b));
}

// Registers as a CUDA build's `resources --json` knows them, by the order of the rung's launches.
void add_registers(const std::string& file, const std::string& rung, DType dtype,
                   std::vector<KernelResources>& launches) {
  std::ifstream stream(file);
  require(stream.good(), "--resources: cannot read ", file);
  try {
    const Json resources = Json::parse(stream);
    for (const Json& result : resources.at("results")) {
      if (result.at("rung") != rung || result.at("dtype") != to_string(dtype)) continue;
      const Json& known = result.at("launches");
      for (size_t i = 0; i < std::min(launches.size(), known.size()); ++i) {
        launches[i].registers = known[i].value("registers", -1);
      }
      return;
    }
  } catch (const Json::exception& error) {
    throw InvalidArgument(
        fmt::format("--resources: {} is not what `warpsmith resources --json` "
                    "of a CUDA build writes: {}",
                    file, error.what()));
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

// A row of numbers for each line, and below it the source and what there is to say.
std::string lines_text(const Profile& profile, std::string_view family, size_t most) {
  constexpr size_t kWidth = 100;
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
               line.by_one_thread ? "1.0" : ratio(line.active_lanes, line.warp_instructions),
               moves ? ratio(line.sectors, line.requests) : "",
               moves ? ratio(line.ideal_sectors, line.requests) : "",
               moves ? bytes_text(line.asked_bytes) : "",
               moves ? bytes_text(32 * line.sectors) : "",
               ratio(line.wavefronts, line.ideal_wavefronts)});
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
      text += ("      " + remark).substr(0, kWidth) + "\n";
    }
  }
  if (shown < profile.lines.size()) {
    text += fmt::format("... and {} more: --lines {}\n", profile.lines.size() - shown,
                        profile.lines.size());
  }
  return text;
}

int run_profile(ProfileArguments& arguments) {
  require(runtime::kEmulated,
          "profile is the emulator's: this warpsmith is the CUDA build; build the preset "
          "`emulated`, or ask ncu about the kernels here");
  const harness::Selection& selection = arguments.problems.selection;
  const auto [target, dtype, chosen] = chosen_run(arguments.name, selection, "profile");
  const Operation& operation = *target.operation;
  harness::Instance instance(operation, chosen, dtype, selection.seed);
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
  add_device(*verb);
  add_order(*verb);
  verb->add_option("--lines", arguments->lines, "So many, the dearest first")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  verb->add_option("--resources", arguments->resources,
                   "What `resources RUNG --json` of a CUDA build wrote: for the registers");
  verb->add_flag("--json", arguments->as_json, "As JSON, all lines");
  verb->callback([=, &exit_code] { exit_code = run_profile(*arguments); });
}

}  // namespace ws::cli
