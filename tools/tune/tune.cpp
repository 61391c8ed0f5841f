// Measures the alternatives of rungs' policies against each other, the rung as it stands and a
// copy, on the GPU at hand. For choosing constants; `warpsmith bench` is what claims are made with.
//
//   make build/cuda TARGET=tune
//   build/cuda/tune                                          # what there is
//   build/cuda/tune gemm/warp_specialized --shape 4096x4096x4096 --set layout=nt --peers
//
// To the harness each candidate is a rung, which it verifies too.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "cli/command.hpp"
#include "cli/figures.hpp"
#include "harness/bench.hpp"
#include "tools/tune/candidates.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::tune {
namespace {

using harness::BenchGroup;

struct Arguments {
  std::string name;
  cli::ProblemOptions problems;
  harness::BenchOptions options{.peers = false};
  std::string output;
};

void list_groups() {
  for (const Group& group : groups()) {
    fmt::print("{}\n", group.rung);
    for (const Rung& candidate : group.candidates) fmt::print("  {}\n", candidate.name);
  }
}

// The group's candidates on each case and dtype of each operation that they compute.
std::vector<BenchGroup> measure(const Group& group, const Arguments& arguments) {
  const Address address = resolve(group.rung);
  const harness::Selection& selection = arguments.problems.selection;
  std::vector<BenchGroup> results;
  for (const Operation& operation : address.family->operations) {
    const std::vector<Case> cases = selection.of(operation, operation.cases().bench);
    for (const DType dtype : selection.chosen(operation.dtypes)) {
      std::vector<const Rung*> rungs;
      for (const Rung& candidate : group.candidates) {
        if (dtypes_of(candidate, operation).has(dtype)) rungs.push_back(&candidate);
      }
      if (rungs.empty()) continue;
      rungs.insert(rungs.begin(), address.rung);
      for (const Case& chosen : cases) {
        results.push_back(harness::bench(operation, rungs, chosen, dtype, arguments.options));
        results.back().family = address.family->name;
        cli::print(cli::figures(results.back()) + "\n");
        std::fflush(stdout);
      }
    }
  }
  return results;
}

int run(Arguments& arguments) {
  if (arguments.name.empty()) {
    list_groups();
    return cli::kOk;
  }
  runtime::require_device();
  arguments.options.seed = arguments.problems.selection.seed;
  std::vector<BenchGroup> results;
  for (const Group& group : groups()) {
    const bool named = group.rung == arguments.name || group.rung.starts_with(arguments.name + "/");
    if (!named) continue;
    std::ranges::move(measure(group, arguments), std::back_inserter(results));
  }
  require(!results.empty(), "nothing to tune is called '", arguments.name,
          "' in these dtypes; `tune` alone lists what there is");
  if (!arguments.output.empty()) {
    std::ofstream file(arguments.output);
    file << harness::report_text(harness::report(arguments.options, results));
    require(file.good(), "cannot write --output ", arguments.output);
  }
  return cli::all_good(results) ? cli::kOk : cli::kFailed;
}

}  // namespace
}  // namespace ws::tune

int main(int argc, char** argv) {
  CLI::App app{"Measures the alternatives of rungs' policies", "tune"};
  ws::tune::Arguments arguments;
  app.add_option("NAME", arguments.name, "A rung or a family; none lists them");
  arguments.problems.add_to(app);
  app.add_flag("--peers", arguments.options.peers, "The operation's peers too");
  app.add_option("--runs", arguments.options.min_runs, "Timed runs of each, or ...");
  app.add_option("--milliseconds", arguments.options.min_milliseconds,
                 "... so much timed time, whichever is first");
  app.add_option("--output,-o", arguments.output, "Write the results to this JSON file");
  try {
    app.parse(argc, argv);
    return ws::tune::run(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? ws::cli::kOk : ws::cli::kUsage;
  } catch (const ws::InvalidArgument& error) {
    fmt::print(stderr, "tune: {}\n", error.what());
    return ws::cli::kUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tune: {}\n", error.what());
    return ws::cli::kFailed;
  }
}
