// warpsmith ladder: all rungs of an operation on one problem, from the lowest up.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <span>

#include "cli/command.hpp"
#include "cli/figures.hpp"
#include "cli/ladder_table.hpp"
#include "cli/terminal.hpp"
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

// What a table cannot say: rungs that do not take the problem, or are wrong on it.
std::string note_on(const Target& target, const harness::Verification& result) {
  if (result.verdict == harness::Verdict::kPassed) return {};
  return fmt::format("{} {}: {}", to_string(result.verdict), target.rung->name, result.reason);
}

LadderRow row_of(const Target& target, const harness::CountedRung& counted) {
  const harness::Verification& result = counted.verification;
  const bool is_right = result.verdict == harness::Verdict::kPassed;
  return {.name = std::string(target.rung->name),
          .error = is_right ? fmt::format("{:.1e}", result.error) : "FAILED",
          .counts = result.counts,
          .profile = counted.profile,
          .idea = idea_of(*target.rung)};
}

int emulated_ladder(const Operation& operation, std::span<const harness::LadderProblem> problems,
                    const LadderArguments& arguments) {
  const harness::Selection& selection = arguments.problems.selection;
  const double all = seconds_of(problems);
  double done = 0;
  Json results = Json::array();
  bool failed = false;
  Progress progress;
  for (const harness::LadderProblem& problem : problems) {
    harness::Instance instance(operation, problem.chosen, problem.dtype, selection.seed, {},
                               selection.limits);
    const Cost cost = operation.cost(instance.problem());
    std::vector<LadderRow> rows;
    std::string notes;
    for (const Target& target : problem.targets) {
      progress.show(fmt::format("{} {}", target.name(), to_string(problem.dtype)), done / all);
      done += problem.seconds / static_cast<double>(problem.targets.size());
      const harness::CountedRung counted = harness::count(*target.rung, instance);
      const harness::Verification& result = counted.verification;
      results.push_back(harness::to_json(counted, cost, false));
      failed = failed || result.verdict == harness::Verdict::kFailed;
      if (result.verdict != harness::Verdict::kSkipped) rows.push_back(row_of(target, counted));
      const std::string note = note_on(target, result);
      if (!note.empty()) notes += note + "\n";
    }
    progress.clear();
    if (arguments.as_json) continue;
    print(fmt::format(
        "{} in the emulator\ntraffic 1: the {}{:.4g} KB that must move; sectors a "
        "request (ideal); ways of bank conflicts\n",
        instance.problem().describe(), cost.at_most ? "at most " : "", cost.bytes * 1e-3));
    print(ladder_text(cost, rows) + notes + "\n");
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
  std::vector<harness::LadderProblem> problems;  // refused before a word is printed
  if (runtime::kEmulated) problems = ladder_problems(operation, selection);
  if (address.operation == nullptr && !arguments.as_json) {
    std::vector<std::string_view> others;
    for (const Operation& other : address.family->operations) {
      if (&other != &operation) others.push_back(other.name);
    }
    const std::string text = fmt::format("this is {}, of {}; also {}", operation.name,
                                         address.family->name, fmt::join(others, ", "));
    print(fmt::format("{}\n", fmt::join(wrap(text, width_of(STDOUT_FILENO)), "\n")));
  }
  if (runtime::kEmulated) return emulated_ladder(operation, problems, arguments);
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
  arguments->problems.add_limits_to(*verb);
  add_device(*verb);
  add_order(*verb);
  verb->add_flag("--json", arguments->as_json, "As JSON");
  verb->callback([=, &exit_code] { exit_code = run_ladder(*arguments); });
}

}  // namespace ws::cli
