// warpsmith trace: one rung on one problem, event by event, for Perfetto.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "cli/command.hpp"
#include "harness/emulated_case.hpp"
#include "harness/trace.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

struct TraceArguments {
  std::string name;
  std::string output = "trace.json";
  ProblemOptions problems;
  TraceOptions options;
};

int run_trace(const TraceArguments& arguments) {
  require(runtime::kEmulated,
          "trace is the emulator's: this warpsmith is the CUDA build; build the preset "
          "`emulated`, or ask nsys about the launches here");
  const harness::Selection& selection = arguments.problems.selection;
  const auto [target, dtype, chosen] = chosen_run(arguments.name, selection, "trace");
  harness::Instance instance(*target.operation, chosen, dtype, selection.seed, {},
                             selection.limits);
  std::ofstream file(arguments.output);
  require(file.good(), "cannot write --output ", arguments.output);
  const harness::TracedRun run = harness::trace(*target.rung, instance, arguments.options);
  const Trace& trace = run.trace;
  Json about = {{"rung", target.name()}, {"problem", instance.problem().describe()}};
  harness::write_chrome_trace(file, trace, about);
  file.close();
  require(file.good(), "cannot write --output ", arguments.output);

  Table header({{"rung, in the emulator"}, {"problem"}});
  header.add({target.name(), instance.problem().describe()});
  print(header.text() + "\n");
  const auto count = [&](TraceEvent::Kind kind) {
    return std::ranges::count(trace.events, kind, &TraceEvent::kind);
  };
  using Kind = TraceEvent::Kind;
  print(fmt::format(
      "{} of {} blocks: {} waits, {} copies and {} groups of products in flight, {} phases of "
      "mbarriers\n",
      trace.blocks, trace.blocks_of_run, count(Kind::kWait), count(Kind::kCopy),
      count(Kind::kProducts), count(Kind::kPhase)));
  print(fmt::format("clock: {}\n", harness::kTraceClock));
  if (trace.left_out > 0) {
    print(
        fmt::format("the trace is not whole: {} events left out after the first {}; --events {}, "
                    "or a smaller --shape\n",
                    trace.left_out, trace.events.size(), trace.events.size() + trace.left_out));
  }
  print(fmt::format("{}: open it at https://ui.perfetto.dev\n", arguments.output));
  if (run.failure) std::rethrow_exception(run.failure);
  return kOk;
}

}  // namespace

void add_trace(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "trace", "A rung event by event, for Perfetto: waits, copies in flight; in the emulator");
  auto arguments = std::make_shared<TraceArguments>();
  verb->add_option("RUNG", arguments->name, "Such as gemm/warp_specialized, or a seed name")
      ->required();
  verb->add_option("--output,-o", arguments->output, "The file, in the Chrome trace event format")
      ->capture_default_str();
  arguments->problems.add_to(*verb);
  arguments->problems.add_limits_to(*verb);
  add_device(*verb);
  add_order(*verb);
  verb->add_option("--blocks", arguments->options.blocks,
                   "The first so many of each launch, instead of the first cluster")
      ->check(whole_number(1, 1000000000));
  verb->add_option("--events", arguments->options.events, "At most so many")
      ->capture_default_str()
      ->check(whole_number(1, 1000000000));
  verb->callback([=, &exit_code] { exit_code = run_trace(*arguments); });
}

}  // namespace ws::cli
