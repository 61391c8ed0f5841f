// warpsmith ladder: all rungs of an operation on one problem, from the lowest up.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "cli/figures.hpp"
#include "harness/verify.hpp"

namespace ws::cli {
namespace {

struct LadderArguments {
  std::string name;
  ProblemOptions problems;
  bool as_json = false;
};

// Of the family's verify list a plain problem that the emulator runs in a moment: the one that most
// rungs take, and of those the largest.
Case emulated_case(const Operation& operation, const std::vector<Target>& targets, DType dtype) {
  constexpr double kMaxFlops = 1e8;
  constexpr double kMaxBytes = 1.5e6;
  Case best = operation.smoke.front();
  std::pair<int64_t, double> best_rank{-1, 0};
  for (const Case& chosen : operation.verify) {
    if (chosen.offset != 0 || chosen.padding != 0) continue;
    const Problem problem = harness::make_problem(operation, chosen, dtype);
    const Cost cost = operation.cost(problem);
    if (cost.flops > kMaxFlops || cost.bytes > kMaxBytes) continue;
    const std::pair rank{
        std::ranges::count_if(targets,
                              [&](const Target& t) {
                                return supports(*t.rung, problem, device_capability()).empty();
                              }),
        cost.bytes};
    if (rank <= best_rank) continue;
    best = chosen;
    best_rank = rank;
  }
  return best;
}

std::string compact(double value) {
  if (value < 1e4) return fmt::format("{:.0f}", value);
  if (value < 1e7) return fmt::format("{:.0f}k", value * 1e-3);
  return fmt::format("{:.0f}M", value * 1e-6);
}

int emulated_ladder(const std::vector<Target>& targets, const LadderArguments& arguments) {
  const Operation& operation = *targets.front().operation;
  Json results = Json::array();
  bool failed = false;
  Progress progress;
  for (const DType dtype : arguments.problems.chosen(operation.dtypes)) {
    const Case standard = emulated_case(operation, targets, dtype);
    for (const Case& chosen : arguments.problems.cases(operation, {&standard, 1})) {
      harness::Instance instance(operation, chosen, dtype, arguments.problems.seed);
      const Cost cost = operation.cost(instance.problem());
      Table table({{"rung"},
                   {"error", true},
                   {"traffic", true},
                   {"warp ops", true},
                   {"barriers", true},
                   {"idea"}});
      std::vector<std::string> notes;
      for (const Target& target : targets) {
        if (!target.dtypes.has(dtype)) continue;
        progress.show(fmt::format("{} {}", target.name(), to_string(dtype)));
        harness::Verification r = harness::verify(*target.rung, instance);
        results.push_back(harness::to_json(r));
        results.back()["bytes"] = cost.bytes;
        if (r.verdict == harness::Verdict::kSkipped) {
          notes.push_back(fmt::format("skipped {}: {}", target.rung->name, r.reason));
          continue;
        }
        const bool good = r.verdict == harness::Verdict::kPassed;
        if (!good) notes.push_back(fmt::format("failed {}: {}", target.rung->name, r.reason));
        failed = failed || !good;
        const auto count = [&](const char* name) { return static_cast<double>(r.counts[name]); };
        const double moved =
            count("global_load_bytes") + count("global_store_bytes") + count("async_bytes");
        table.add({std::string(target.rung->name), good ? fmt::format("{:.1e}", r.error) : "FAILED",
                   fmt::format("{:.2f}", moved / std::max(cost.bytes, 1.0)),
                   compact(count("warp_instructions")), compact(count("barriers")),
                   std::string(target.rung->idea)});
      }
      progress.show("");
      if (arguments.as_json) continue;
      print(fmt::format("{} in the emulator\ntraffic 1: the {:.4g} KB that must move\n",
                        instance.problem().describe(), cost.bytes * 1e-3));
      print(table.text());
      for (const std::string& note : notes) print(note + "\n");
      print("\n");
    }
  }
  if (arguments.as_json) print_json(Json{{"device", "emulator"}, {"results", results}});
  return failed ? kFailed : kOk;
}

int run_ladder(LadderArguments& arguments) {
  require_device();
  const Address address = address_of(arguments.name);
  require(address.rung == nullptr, "ladder wants a family or an operation, not the rung ",
          arguments.name);
  const Operation& operation =
      address.operation != nullptr ? *address.operation : address.family->operations.front();
  std::vector<Target> targets;
  for (const Rung& rung : address.family->rungs) {
    targets.push_back({address.family, &operation, &rung, rung.dtypes & operation.dtypes});
  }
  // One dtype unless asked: f16 where the ladder is about it, since the top rungs are.
  if (arguments.problems.dtypes.empty()) {
    const DType usual = operation.dtypes.has(DType::kF16)
                            ? DType::kF16
                            : arguments.problems.chosen(operation.dtypes).front();
    arguments.problems.dtypes.emplace_back(to_string(usual));
  }
  if (address.operation == nullptr && !arguments.as_json) {
    std::vector<std::string_view> others;
    for (const Operation& other : address.family->operations) {
      if (&other != &operation) others.push_back(other.name);
    }
    print(fmt::format("this is {}, of {}; also {}\n", operation.name, address.family->name,
                      fmt::join(others, ", ")));
  }
  if (kEmulated) return emulated_ladder(targets, arguments);
  harness::BenchOptions options;
  options.seed = arguments.problems.seed;
  const std::vector<harness::BenchGroup> groups =
      measure(targets, arguments.problems, options, true, [&](const harness::BenchGroup& group) {
        if (!arguments.as_json) print(figures(group) + "\n");
      });
  if (arguments.as_json) print_json(harness::report(options, groups));
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
