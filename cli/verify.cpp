// warpsmith verify: rungs against the reference.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "cli/command.hpp"
#include "harness/verify.hpp"

namespace ws::cli {
namespace {

using harness::Verdict;
using harness::Verification;

struct VerifyArguments {
  std::vector<std::string> names;
  ProblemOptions problems;
  std::string cases = "verify";
  bool verbose = false;
  bool as_json = false;
};

std::span<const Case> standard_cases(const Operation& operation, const std::string& list) {
  if (list == "smoke") return operation.smoke;
  if (list == "bench") return operation.bench;
  return operation.verify;
}

// All rungs of an operation on one instance after the other, so that inputs and reference are made
// once.
std::vector<Verification> verify_all(const std::vector<Target>& targets,
                                     const VerifyArguments& arguments) {
  std::vector<Verification> results;
  Progress progress;
  std::vector<const Operation*> operations;
  for (const Target& target : targets) {
    if (std::ranges::find(operations, target.operation) == operations.end()) {
      operations.push_back(target.operation);
    }
  }
  for (const Operation* operation : operations) {
    const std::vector<Case> cases =
        arguments.problems.cases(*operation, standard_cases(*operation, arguments.cases));
    for (const DType dtype : arguments.problems.chosen(operation->dtypes)) {
      for (size_t c = 0; c < cases.size(); ++c) {
        std::unique_ptr<harness::Instance> instance;
        for (const Target& target : targets) {
          if (target.operation != operation || !target.dtypes.has(dtype)) continue;
          progress.show(fmt::format("verify {} {}: case {} of {}", target.name(), to_string(dtype),
                                    c + 1, cases.size()));
          if (instance == nullptr) {
            instance = std::make_unique<harness::Instance>(*operation, cases[c], dtype,
                                                           arguments.problems.seed + c);
          }
          results.push_back(harness::verify(*target.rung, *instance));
          // A fault in a kernel takes the process's GPU context with it: the rest would only echo.
          if (results.back().defect == harness::Defect::kError && !harness::device_is_usable()) {
            results.back().reason += "\n  the GPU is lost to this process: the rest was not run";
            return results;
          }
        }
      }
    }
  }
  return results;
}

std::string scientific(double value) { return fmt::format("{:.1e}", value); }

void print_each(const std::vector<Verification>& results) {
  Table table({{"rung"}, {"verdict"}, {"error", true}, {"allowed", true}, {"problem"}});
  for (const Verification& r : results) {
    const bool skipped = r.verdict == Verdict::kSkipped;
    table.add({r.rung, std::string(to_string(r.verdict)), skipped ? "" : scientific(r.error),
               skipped ? "" : scientific(r.tolerance.relative), r.problem});
  }
  print(table.text());
}

void print_summary(const std::vector<Verification>& results) {
  struct Row {
    std::string rung;
    DType dtype;
    std::array<int, 3> verdicts{};
    double error = 0;
    double allowed = 0;
  };
  std::vector<Row> rows;
  for (const Verification& r : results) {
    auto at = std::ranges::find_if(
        rows, [&](const Row& row) { return row.rung == r.rung && row.dtype == r.dtype; });
    if (at == rows.end()) at = rows.insert(rows.end(), Row{r.rung, r.dtype});
    ++at->verdicts[static_cast<size_t>(r.verdict)];
    if (r.verdict == Verdict::kSkipped) continue;
    at->error = std::max(at->error, r.error);
    at->allowed = std::max(at->allowed, r.tolerance.relative);
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
               scientific(row.error), scientific(row.allowed)});
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
  require_device();
  const std::vector<Target> targets = targets_of(arguments.names);
  const std::vector<Verification> results = verify_all(targets, arguments);
  const auto failed = std::ranges::count(results, Verdict::kFailed, &Verification::verdict);
  const auto skipped = std::ranges::count(results, Verdict::kSkipped, &Verification::verdict);
  if (arguments.as_json) {
    Json json = {{"device", kEmulated ? "emulator" : "cuda"},
                 {"seed", arguments.problems.seed},
                 {"failed", failed},
                 {"skipped", skipped},
                 {"results", Json::array()}};
    for (const Verification& r : results) json["results"].push_back(harness::to_json(r));
    print_json(json);
  } else {
    if (arguments.verbose) {
      print_each(results);
      print_reasons(results, Verdict::kSkipped, results.size());
    } else {
      print_summary(results);
    }
    print_reasons(results, Verdict::kFailed, arguments.verbose ? results.size() : 10);
    print(fmt::format("{} passed, {} skipped, {} failed (seed {}{})\n",
                      static_cast<int64_t>(results.size()) - failed - skipped, skipped, failed,
                      arguments.problems.seed, kEmulated ? ", emulator" : ""));
  }
  require(!results.empty(), "nothing to verify: no rung named takes these dtypes");
  return failed == 0 ? kOk : kFailed;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("verify", "Compare rungs with the double-precision reference");
  auto arguments = std::make_shared<VerifyArguments>();
  verb->add_option("NAMES", arguments->names,
                   "Families, operations, rungs or seed names; all if none");
  arguments->problems.add_to(*verb);
  verb->add_option("--cases", arguments->cases, "The family's list of shapes")
      ->check(CLI::IsMember({"smoke", "verify", "bench"}))
      ->capture_default_str();
  add_device(*verb);
  add_order(*verb);
  verb->add_flag("--verbose,-v", arguments->verbose, "A line for each problem");
  verb->add_flag("--json", arguments->as_json, "Every result as JSON");
  verb->callback([=, &exit_code] { exit_code = run_verify(*arguments); });
}

}  // namespace ws::cli
