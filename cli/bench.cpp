// warpsmith bench: rungs beside their peers and a copy, timed in one run. The ladder's table too.
#include "harness/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "cli/command.hpp"
#include "cli/drawing.hpp"
#include "cli/figures.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {

std::string rate_text(const harness::BenchGroup& group, double rate) {
  return group.memory_bound ? fmt::format("{:.0f}", rate * 1e-9)
                            : fmt::format("{:.1f}", rate * 1e-12);
}

std::string figures(const harness::BenchGroup& group) {
  using harness::Role;
  using harness::Verdict;
  const harness::Measurement* peer = group.fastest(Role::kPeer);
  const std::string how = group.mode == harness::Mode::kBurst
                              ? ""
                              : fmt::format("; sustained, over {} sets of tensors, {:.4g} MB",
                                            group.sets, group.rotated * 1e-6);
  std::string text = fmt::format(
      "{}: {}{:.4g} MB, {:.4g} GFLOP, {} bound; ceiling {} {} ({}){}\n", group.problem,
      group.cost.at_most ? "at most " : "", group.cost.bytes * 1e-6, group.cost.flops * 1e-9,
      group.memory_bound ? "memory" : "compute", rate_text(group, group.ceiling),
      group.memory_bound ? "GB/s" : "TFLOP/s", group.ceiling_name, how);
  Table table({{""},
               {"error", true},
               {"us", true},
               {"min", true},
               {"max", true},
               {group.memory_bound ? "GB/s" : "TFLOP/s", true},
               {"ceiling", true},
               {"x from", true},
               {"x peer", true}});
  std::string changing;
  for (const harness::Measurement& m : group.measurements) {
    if (m.runs == 0) continue;
    const bool is_rung = m.role == Role::kRung;
    const double from = is_rung ? group.over_from(m) : 0;
    table.add({m.title() + (m.verdict == Verdict::kPassed ? "" : " FAILED") +
                   (m.deterministic ? "" : " *"),
               m.error < 0 ? "" : fmt::format("{:.1e}", m.error), fmt::format("{:.1f}", m.median),
               fmt::format("{:.1f}", m.min), fmt::format("{:.1f}", m.max), rate_text(group, m.rate),
               fmt::format("{:.1f} %", 100 * m.of_ceiling),
               from > 0 ? fmt::format("{:.2f}", from) : "",
               is_rung && peer != nullptr ? fmt::format("{:.2f}", peer->median / m.median) : ""});
    if (!m.deterministic) changing = "* not deterministic: two runs may differ\n";
  }
  text += table.text() + changing;
  for (const harness::Measurement& m : group.measurements) {
    if (m.verdict == Verdict::kPassed) continue;
    text += fmt::format("{} {}: {}\n", to_string(m.verdict), m.name, m.reason);
  }
  return text;
}

std::string bars(const harness::BenchGroup& group) {
  std::vector<Bar> rows;
  for (const harness::Measurement& m : group.measurements) {
    if (m.runs == 0 || m.verdict != harness::Verdict::kPassed) continue;
    rows.push_back({m.name, m.rate, m.rate, fmt::format("{:.1f} us", m.median),
                    m.role != harness::Role::kRung});
  }
  std::vector<Mark> marks = {{group.ceiling, "ceiling"}};
  if (const harness::Measurement* peer = group.fastest(harness::Role::kPeer)) {
    marks.insert(marks.begin(), {peer->rate, peer->name});
  }
  const std::string drawn = chart(rows, marks);
  return drawn.empty() ? drawn : fmt::format("\nhow fast, the longer the better\n{}", drawn);
}

bool all_good(const std::vector<harness::BenchGroup>& groups) {
  return std::ranges::all_of(groups, [](const harness::BenchGroup& group) {
    return std::ranges::none_of(group.measurements, [](const harness::Measurement& m) {
      return m.verdict == harness::Verdict::kFailed;
    });
  });
}

namespace {

struct BenchArguments {
  ProblemOptions problems;
  harness::BenchOptions options;
  bool no_peers = false;
  bool sustained = false;
  bool as_json = false;
  std::string output;
};

int run_bench(BenchArguments& arguments) {
  runtime::require_device();
  const harness::Selection& selection = arguments.problems.selection;
  arguments.options.seed = selection.seed;
  arguments.options.peers = !arguments.no_peers;
  if (arguments.sustained) arguments.options.mode = harness::Mode::kSustained;
  Progress progress;
  std::vector<harness::BenchGroup> so_far;
  const auto done = [&](const harness::BenchGroup& group) {
    progress.clear();
    if (!arguments.as_json) print(figures(group) + "\n");
    if (arguments.output.empty()) return;
    // Again after each problem: a run that is cut short has left what it measured.
    so_far.push_back(group);
    std::ofstream file(arguments.output);
    file << harness::report_text(harness::report(arguments.options, so_far));
    require(file.good(), "cannot write --output ", arguments.output);
  };
  const std::vector<harness::BenchGroup> groups =
      harness::bench_all(selection, arguments.options, done, progress.announce());
  if (arguments.as_json) print(harness::report_text(harness::report(arguments.options, groups)));
  return all_good(groups) ? kOk : kFailed;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("bench", "Time rungs beside their peers and a copy (GPU only)");
  auto arguments = std::make_shared<BenchArguments>();
  arguments->problems.add_names_to(*verb);
  arguments->problems.add_to(*verb);
  arguments->problems.add_problems_to(*verb);
  arguments->problems.add_limits_to(*verb);
  verb->add_option("--runs", arguments->options.min_runs, "Timed runs of each, or ...")
      ->capture_default_str()
      ->check(whole_number(1, 1000000));
  verb->add_option("--milliseconds", arguments->options.min_milliseconds,
                   "... so much timed time, whichever is first")
      ->capture_default_str()
      ->check(positive_number());
  CLI::Option* sustained = verb->add_flag("--sustained", arguments->sustained,
                                          "Calls back to back, in windows of a second, instead of "
                                          "single ones: power and clocks settle");
  verb->add_option("--windows", arguments->options.windows, "Windows of each, of --sustained")
      ->capture_default_str()
      ->check(whole_number(1, 1000000))
      ->needs(sustained);
  verb->add_flag("--best", arguments->options.only_best,
                 "Of the rungs only the one that a call gets that names none");
  verb->add_flag("--no-peers", arguments->no_peers, "Rungs and copies only");
  verb->add_option("--output,-o", arguments->output, "Write the results to this JSON file");
  add_device(*verb);
  verb->add_flag("--json", arguments->as_json, "The results as JSON on stdout");
  verb->callback([=, &exit_code] { exit_code = run_bench(*arguments); });
}

}  // namespace ws::cli
