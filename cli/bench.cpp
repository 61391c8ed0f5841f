// warpsmith bench: rungs beside their peers and a copy, timed in one run. The ladder's table too.
#include "harness/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "cli/command.hpp"
#include "cli/figures.hpp"

namespace ws::cli {

std::string rate_text(const harness::BenchGroup& group, double rate) {
  return group.memory_bound ? fmt::format("{:.0f}", rate * 1e-9)
                            : fmt::format("{:.1f}", rate * 1e-12);
}

std::string figures(const harness::BenchGroup& group) {
  using harness::Role;
  using harness::Verdict;
  const harness::Measurement* peer = group.fastest(Role::kPeer);
  std::string text = fmt::format(
      "{}: {:.4g} MB, {:.4g} GFLOP, {} bound; ceiling {} {} ({})\n", group.problem,
      group.cost.bytes * 1e-6, group.cost.flops * 1e-9, group.memory_bound ? "memory" : "compute",
      rate_text(group, group.ceiling), group.memory_bound ? "GB/s" : "TFLOP/s", group.ceiling_name);
  Table table({{""},
               {"error", true},
               {"us", true},
               {"min", true},
               {"max", true},
               {group.memory_bound ? "GB/s" : "TFLOP/s", true},
               {"ceiling", true},
               {"x below", true},
               {"x peer", true}});
  const harness::Measurement* below = nullptr;
  for (const harness::Measurement& m : group.measurements) {
    if (m.runs == 0) continue;
    const bool is_rung = m.role == Role::kRung;
    const bool good = m.verdict == Verdict::kPassed;
    table.add({m.name + (good ? "" : " FAILED"), m.error < 0 ? "" : fmt::format("{:.1e}", m.error),
               fmt::format("{:.1f}", m.median), fmt::format("{:.1f}", m.min),
               fmt::format("{:.1f}", m.max), rate_text(group, m.rate),
               fmt::format("{:.1f} %", 100 * m.of_ceiling),
               is_rung && below != nullptr ? fmt::format("{:.2f}", below->median / m.median) : "",
               is_rung && peer != nullptr ? fmt::format("{:.2f}", peer->median / m.median) : ""});
    if (is_rung && good) below = &m;
  }
  text += table.text();
  for (const harness::Measurement& m : group.measurements) {
    if (m.verdict == Verdict::kPassed) continue;
    text += fmt::format("{} {}: {}\n", to_string(m.verdict), m.name, m.reason);
  }
  return text;
}

bool all_good(const std::vector<harness::BenchGroup>& groups) {
  return std::ranges::all_of(groups, [](const harness::BenchGroup& group) {
    return std::ranges::none_of(group.measurements, [](const harness::Measurement& m) {
      return m.verdict == harness::Verdict::kFailed;
    });
  });
}

std::vector<harness::BenchGroup> measure(
    const std::vector<Target>& targets, const ProblemOptions& problems,
    const harness::BenchOptions& options, bool first_case_only,
    const std::function<void(const harness::BenchGroup&)>& done) {
  std::vector<harness::BenchGroup> groups;
  std::vector<const Operation*> operations;
  for (const Target& target : targets) {
    if (std::ranges::find(operations, target.operation) == operations.end()) {
      operations.push_back(target.operation);
    }
  }
  Progress progress;
  for (const Operation* operation : operations) {
    std::vector<Case> cases =
        problems.cases(*operation, first_case_only ? operation->bench.first(1) : operation->bench);
    for (const Case& chosen : cases) {
      for (const DType dtype : problems.chosen(operation->dtypes)) {
        std::vector<const Rung*> rungs;
        for (const Target& target : targets) {
          if (target.operation == operation && target.dtypes.has(dtype)) {
            rungs.push_back(target.rung);
          }
        }
        if (rungs.empty()) continue;
        progress.show(
            fmt::format("bench {} {}: {} rungs", operation->name, to_string(dtype), rungs.size()));
        groups.push_back(harness::bench(*operation, rungs, chosen, dtype, options));
        progress.show("");
        done(groups.back());
      }
    }
  }
  require(!groups.empty(), "nothing to time: no rung named takes these dtypes");
  return groups;
}

namespace {

struct BenchArguments {
  std::vector<std::string> names;
  ProblemOptions problems;
  harness::BenchOptions options;
  bool no_peers = false;
  bool as_json = false;
  std::string output;
};

int run_bench(BenchArguments& arguments) {
  require_device();
  arguments.options.seed = arguments.problems.seed;
  arguments.options.peers = !arguments.no_peers;
  const auto write = [&](std::span<const harness::BenchGroup> groups) {
    if (arguments.output.empty()) return;
    // Again after each problem: a run that is cut short has left what it measured.
    std::ofstream file(arguments.output);
    file << harness::report(arguments.options, groups).dump(1) << "\n";
    require(file.good(), "cannot write --output ", arguments.output);
  };
  std::vector<harness::BenchGroup> so_far;
  const std::vector<harness::BenchGroup> groups =
      measure(targets_of(arguments.names), arguments.problems, arguments.options, false,
              [&](const harness::BenchGroup& group) {
                if (!arguments.as_json) print(figures(group) + "\n");
                if (!arguments.output.empty()) {
                  so_far.push_back(group);
                  write(so_far);
                }
              });
  if (arguments.as_json) print_json(harness::report(arguments.options, groups));
  return all_good(groups) ? kOk : kFailed;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("bench", "Time rungs beside their peers and a copy (GPU only)");
  auto arguments = std::make_shared<BenchArguments>();
  verb->add_option("NAMES", arguments->names,
                   "Families, operations, rungs or seed names; all if none");
  arguments->problems.add_to(*verb);
  verb->add_option("--runs", arguments->options.min_runs, "Timed runs of each, or ...")
      ->capture_default_str();
  verb->add_option("--milliseconds", arguments->options.min_milliseconds,
                   "... so much timed time, whichever is first")
      ->capture_default_str();
  verb->add_flag("--no-peers", arguments->no_peers, "Rungs and copies only");
  verb->add_option("--output,-o", arguments->output, "Write the results to this JSON file");
  add_device(*verb);
  verb->add_flag("--json", arguments->as_json, "The results as JSON on stdout");
  verb->callback([=, &exit_code] { exit_code = run_bench(*arguments); });
}

}  // namespace ws::cli
