// warpsmith ladder: all rungs of an operation on one problem, from the lowest up.
#include <fmt/format.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/figures.hpp"
#include "cli/ladder_table.hpp"
#include "harness/emulated_case.hpp"
#include "harness/ladder.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

using harness::Target;

struct LadderArguments {
  std::string name;
  ProblemOptions problems;
  bool as_json = false;
};

int emulated_ladder(std::span<const Target> targets, const LadderArguments& arguments) {
  const Operation& operation = *targets.front().operation;
  const harness::Selection& selection = arguments.problems.selection;
  Json results = Json::array();
  bool failed = false;
  Progress progress;
  for (const DType dtype : selection.chosen(operation.dtypes)) {
    const Case standard = emulated_case(operation, targets, dtype);
    for (const Case& chosen : selection.of(operation, {&standard, 1})) {
      harness::Instance instance(operation, chosen, dtype, selection.seed);
      const Cost cost = operation.cost(instance.problem());
      std::vector<LadderRow> rows;
      std::vector<std::string> notes;
      for (const Target& target : targets) {
        if (!target.dtypes.has(dtype)) continue;
        progress.show(fmt::format("{} {}", target.name(), to_string(dtype)));
        const harness::CountedRung counted = harness::count(*target.rung, instance);
        const harness::Verification& r = counted.verification;
        results.push_back(harness::to_json(counted, cost, false));
        if (r.verdict == harness::Verdict::kSkipped) {
          notes.push_back(fmt::format("skipped {}: {}", target.rung->name, r.reason));
          continue;
        }
        const bool good = r.verdict == harness::Verdict::kPassed;
        if (!good) notes.push_back(fmt::format("failed {}: {}", target.rung->name, r.reason));
        failed = failed || !good;
        rows.push_back({.name = std::string(target.rung->name),
                        .error = good ? fmt::format("{:.1e}", r.error) : "FAILED",
                        .counts = r.counts,
                        .profile = counted.profile,
                        .idea = idea_of(*target.rung)});
      }
      progress.show("");
      if (arguments.as_json) continue;
      print(fmt::format(
          "{} in the emulator\ntraffic 1: the {}{:.4g} KB that must move; sectors a "
          "request (ideal); ways of bank conflicts\n",
          instance.problem().describe(), cost.at_most ? "at most " : "", cost.bytes * 1e-3));
      print(ladder_text(cost, rows));
      for (const std::string& note : notes) print(note + "\n");
      print("\n");
    }
  }
  if (arguments.as_json) print_json(Json{{"device", "emulator"}, {"results", results}});
  return failed ? kFailed : kOk;
}

int run_ladder(LadderArguments& arguments) {
  runtime::require_device();
  harness::Selection& selection = arguments.problems.selection;
  const Address address = harness::address_of(arguments.name);
  require(address.rung == nullptr, "ladder wants a family or an operation, not the rung ",
          arguments.name);
  const Operation& operation = harness::choose_ladder(arguments.name, selection);
  if (address.operation == nullptr && !arguments.as_json) {
    std::vector<std::string_view> others;
    for (const Operation& other : address.family->operations) {
      if (&other != &operation) others.push_back(other.name);
    }
    print(fmt::format("this is {}, of {}; also {}\n", operation.name, address.family->name,
                      fmt::join(others, ", ")));
  }
  if (runtime::kEmulated) return emulated_ladder(harness::targets_of(selection.names), arguments);
  selection.first_case = true;
  harness::BenchOptions options;
  options.seed = selection.seed;
  const std::vector<harness::BenchGroup> groups =
      harness::bench_all(selection, options, [&](const harness::BenchGroup& group) {
        if (!arguments.as_json) print(figures(group) + bars(group) + "\n");
      });
  if (arguments.as_json) print(harness::report_text(harness::report(options, groups)));
  return all_good(groups) ? kOk : kFailed;
}

}  // namespace

void add_ladder(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "ladder", "All rungs on one problem: measured on a GPU, counted in the emulator");
  auto arguments = std::make_shared<LadderArguments>();
  verb->add_option("NAME", arguments->name, "A family or an operation")->required();
  arguments->problems.add_to(*verb);
  add_device(*verb);
  add_order(*verb);
  verb->add_flag("--json", arguments->as_json, "As JSON");
  verb->callback([=, &exit_code] { exit_code = run_ladder(*arguments); });
}

}  // namespace ws::cli
