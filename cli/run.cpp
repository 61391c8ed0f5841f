// warpsmith run: an ordinary CUDA file, built with the host compiler and run in the emulator.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "cli/line_text.hpp"
#include "cuda_file/cuda_file.hpp"
#include "cuda_file/nvcc.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

struct RunArguments {
  std::string file;
  std::vector<std::string> rest;
  std::string order = "forward";
  uint64_t seed = 0;
  double seconds = 60;
  double gigabytes = 4;
  std::string keep;
  std::vector<std::string> includes;
  std::vector<std::string> definitions;
  std::vector<std::string> libraries;
  bool cuda = false;
  bool profile = false;
  bool show = false;
  bool as_json = false;
  int lines = 12;
};

std::string shared_text(const cuda_file::LaunchReport& launch) {
  return fmt::format("{} + {}", launch.static_shared, launch.dynamic_shared);
}

std::string extent_text(const cuda_file::Extent3& extent) {
  if (extent[2] > 1) return fmt::format("{}x{}x{}", extent[0], extent[1], extent[2]);
  if (extent[1] > 1) return fmt::format("{}x{}", extent[0], extent[1]);
  return fmt::format("{}", extent[0]);
}

std::string launches_text(const cuda_file::Outcome& outcome) {
  Table table({{"launches", true},
               {"blocks", true},
               {"threads", true},
               {"shared bytes", true},
               {"barriers", true},
               {"kernel"}});
  for (const cuda_file::LaunchReport& launch : outcome.launches) {
    const auto barriers = launch.counts.find("barriers");
    table.add({fmt::format("{}", launch.launches), extent_text(launch.grid),
               extent_text(launch.block), shared_text(launch),
               fmt::format("{}", barriers != launch.counts.end() ? barriers->second : 0),
               fmt::format("{} at {}:{}", launch.kernel, launch.file, launch.line)});
  }
  return table.text();
}

// What it has to say beside the program's own output; the exit code.
int tell(const cuda_file::Outcome& outcome, const RunArguments& arguments) {
  for (const auto& fault : outcome.faults) fmt::print(stderr, "{}\n", fault.text());
  if (outcome.profile && outcome.faults.empty()) {
    print(launches_text(outcome) + totals_text(*outcome.profile) + "\n" +
          lines_text(*outcome.profile, {}, static_cast<size_t>(arguments.lines)));
  }
  if (outcome.times_asked) {
    fmt::print(
        stderr,
        "warpsmith: the program measures time; in the emulator that tells nothing of a GPU\n");
  }
  return outcome.faults.empty() ? outcome.exit_code : kFailed;
}

int run_run(const RunArguments& arguments) {
  if (arguments.show) {
    print(cuda_file::rewritten(arguments.file));
    return kOk;
  }
  const bool on_gpu = arguments.cuda || !runtime::kEmulated;
  require(!on_gpu || (!arguments.profile && arguments.order == "forward"),
          "--profile and --order are the emulator's: it counts, and has an order of threads");
  cuda_file::BuildOptions options{.include_folders = arguments.includes,
                                  .definitions = arguments.definitions,
                                  .folder = arguments.keep,
                                  .with_nvcc = on_gpu,
                                  .libraries = arguments.libraries};
  const auto memory_bytes = static_cast<uint64_t>(arguments.gigabytes * 1e9);
  // Who gives a program more gives its compiler more; who gives it less must still compile it.
  options.seconds = std::max(options.seconds, arguments.seconds);
  options.memory_bytes = std::max(options.memory_bytes, memory_bytes);
  const cuda_file::Built built = cuda_file::build(arguments.file, options);
  Json json = cuda_file::to_json(built);
  if (built.ok() && arguments.cuda && runtime::kEmulated && cuda_file::capability_here().empty()) {
    fmt::print(stderr, "warpsmith: nvidia-smi finds no GPU here; the program wants one\n");
  }
  if (!built.ok()) {
    if (arguments.as_json) print_json(json);
    for (const auto& d : built.diagnostics) fmt::print(stderr, "{}\n", to_string(d));
    return kUsage;
  }
  std::vector<std::string> orders{arguments.order};
  if (arguments.order == "all") orders = {"forward", "reverse", "random"};
  json["runs"] = Json::array();
  int code = kOk;
  for (const std::string& order : orders) {
    const cuda_file::Outcome outcome = cuda_file::run(built, {.arguments = arguments.rest,
                                                              .order = order,
                                                              .seed = arguments.seed,
                                                              .profile = arguments.profile,
                                                              .capture = arguments.as_json,
                                                              .seconds = arguments.seconds,
                                                              .memory_bytes = memory_bytes});
    if (arguments.as_json) {
      json["runs"].push_back(cuda_file::to_json(outcome));
      json["runs"].back()["order"] = order;
      json["runs"].back()["output"] = outcome.output;
      code = outcome.faults.empty() ? outcome.exit_code : kFailed;
    } else {
      code = tell(outcome, arguments);
    }
    if (code != kOk) break;
  }
  if (arguments.as_json) print_json(json);
  return code;
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("run", "An ordinary CUDA file, unchanged, in the emulator");
  auto arguments = std::make_shared<RunArguments>();
  command->add_option("FILE", arguments->file, "my.cu")->required();
  command->add_option("ARGUMENTS", arguments->rest, "the program's, behind --");
  command->add_option("--order", arguments->order, "of threads: forward, reverse, random or all")
      ->check(CLI::IsMember({"forward", "reverse", "random", "all"}));
  command->add_option("--seed", arguments->seed, "of the random order")
      ->check(whole_number(0, UINT64_MAX));
  command->add_option("--time", arguments->seconds, "seconds until it is stopped")
      ->check(positive_number());
  command->add_option("--memory", arguments->gigabytes, "GB, the device's counted, until it is")
      ->check(positive_number());
  command->add_flag("--profile", arguments->profile, "cost by line, as `warpsmith profile`");
  command->add_option("--lines", arguments->lines, "of the profile")
      ->check(whole_number(1, 1000000));
  command->add_flag("--json", arguments->as_json, "all of it for machines");
  command->add_option("--keep", arguments->keep, "a folder for what is made of the file");
  command->add_flag("--show", arguments->show, "print the file as the compiler gets it");
  command->add_option("-I", arguments->includes, "folders of headers");
  command->add_option("-D", arguments->definitions, "definitions: N=1024");
  command->add_flag("--cuda", arguments->cuda, "by nvcc, on the GPU");
  command->add_option("-l", arguments->libraries, "libraries to link, with --cuda: cublas");
  command->callback([arguments, &exit_code] { exit_code = run_run(*arguments); });
}

}  // namespace ws::cli
