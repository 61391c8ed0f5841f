// warpsmith verify: rungs against the reference.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "cli/command.hpp"
#include "harness/verify.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

using harness::Verdict;
using harness::Verification;

struct VerifyArguments {
  ProblemOptions problems;
  bool verbose = false;
  bool as_json = false;
};

std::string scientific(double value) { return fmt::format("{:.1e}", value); }

// What an error may be: of the whole, else of each element.
std::string allowed(const Tolerance& tolerance) {
  if (tolerance.relative > 0) return scientific(tolerance.relative);
  return tolerance.worst > 0 ? "by element" : "none";
}

void print_each(const std::vector<Verification>& results) {
  Table table({{"rung"}, {"verdict"}, {"error", true}, {"allowed", true}, {"problem"}});
  for (const Verification& r : results) {
    const bool skipped = r.verdict == Verdict::kSkipped;
    table.add({r.rung, std::string(to_string(r.verdict)), skipped ? "" : scientific(r.error),
               skipped ? "" : allowed(r.tolerance), r.problem});
  }
  print(table.text());
}

void print_summary(const std::vector<Verification>& results) {
  struct Row {
    std::string rung;
    DType dtype;
    std::array<int, 3> verdicts{};
    double error = 0;
    Tolerance tolerance{};
  };
  std::vector<Row> rows;
  for (const Verification& r : results) {
    auto at = std::ranges::find_if(
        rows, [&](const Row& row) { return row.rung == r.rung && row.dtype == r.dtype; });
    if (at == rows.end()) at = rows.insert(rows.end(), Row{r.rung, r.dtype});
    ++at->verdicts[static_cast<size_t>(r.verdict)];
    if (r.verdict == Verdict::kSkipped) continue;
    at->error = std::max(at->error, r.error);
    if (r.tolerance.relative >= at->tolerance.relative) at->tolerance = r.tolerance;
  }
  Table table({{"rung"},
               {"dtype"},
               {"passed", true},
               {"skipped", true},
               {"failed", true},
               {"error", true},
               {"allowed", true}});
  int none = 0;
  for (const Row& row : rows) {
    if (row.verdicts[0] + row.verdicts[2] == 0) {
      ++none;
      continue;
    }
    table.add({row.rung, std::string(to_string(row.dtype)), std::to_string(row.verdicts[0]),
               std::to_string(row.verdicts[1]), std::to_string(row.verdicts[2]),
               scientific(row.error), allowed(row.tolerance)});
  }
  print(table.text());
  if (none > 0) {
    print(fmt::format("{} more rungs and dtypes take none of these problems; --verbose says why\n",
                      none));
  }
}

// The reasons of the first `limit` results with that verdict.
void print_reasons(const std::vector<Verification>& results, Verdict verdict, size_t limit) {
  size_t count = 0;
  for (const Verification& r : results) {
    if (r.verdict != verdict || ++count > limit) continue;
    print(fmt::format("{} {}: {}\n  {}\n", to_string(verdict), r.rung, r.problem, r.reason));
  }
  if (count > limit) {
    print(fmt::format("... and {} more {}; --verbose shows all\n", count - limit,
                      to_string(verdict)));
  }
}

int run_verify(const VerifyArguments& arguments) {
  runtime::require_device();
  const harness::Selection& selection = arguments.problems.selection;
  const std::vector<Verification> results = [&] {
    Progress progress;
    return harness::verify_all(selection, progress.announce());
  }();
  const auto failed = std::ranges::count(results, Verdict::kFailed, &Verification::verdict);
  const auto skipped = std::ranges::count(results, Verdict::kSkipped, &Verification::verdict);
  if (arguments.as_json) {
    print_json(harness::to_json(selection, results));
    return failed == 0 ? kOk : kFailed;
  }
  if (arguments.verbose) {
    print_each(results);
    print_reasons(results, Verdict::kSkipped, results.size());
  } else {
    print_summary(results);
  }
  print_reasons(results, Verdict::kFailed, arguments.verbose ? results.size() : 10);
  print(fmt::format("{} passed, {} skipped, {} failed (seed {}{})\n",
                    static_cast<int64_t>(results.size()) - failed - skipped, skipped, failed,
                    selection.seed, runtime::kEmulated ? ", emulator" : ""));
  return failed == 0 ? kOk : kFailed;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("verify", "Compare rungs with the double-precision reference");
  auto arguments = std::make_shared<VerifyArguments>();
  arguments->problems.add_names_to(*verb);
  arguments->problems.add_to(*verb);
  arguments->problems.add_problems_to(*verb);
  arguments->problems.add_limits_to(*verb);
  verb->add_option("--cases", arguments->problems.selection.cases,
                   "The family's list of shapes: smoke, verify (if left out) or bench")
      ->check(CLI::IsMember({"smoke", "verify", "bench"}));
  verb->add_option("--random", arguments->problems.selection.random,
                   "So many problems of each dtype that are not in the list but between its, or "
                   "between those of --shape; by --seed")
      ->check(whole_number(1, 1000000));
  add_device(*verb);
  add_order(*verb);
  verb->add_flag("--verbose,-v", arguments->verbose, "A line for each problem");
  verb->add_flag("--json", arguments->as_json, "Every result as JSON");
  verb->callback([=, &exit_code] { exit_code = run_verify(*arguments); });
}

}  // namespace ws::cli
