#include "harness/ladder.hpp"

#include <algorithm>
#include <iterator>

#include "harness/emulated_case.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::harness {
namespace {

Json counted_ladder(const Operation& operation, const Selection& selection, bool with_lines,
                    const Announce& announce) {
  const std::vector<LadderProblem> problems = ladder_problems(operation, selection);
  const double all = seconds_of(problems);
  double done = 0;
  Json results = Json::array();
  for (const LadderProblem& problem : problems) {
    Instance instance(operation, problem.chosen, problem.dtype, selection.seed, {},
                      selection.limits);
    const Cost cost = operation.cost(instance.problem());
    for (const Target& target : problem.targets) {
      if (announce) {
        announce(concatenate(target.name(), " ", to_string(problem.dtype)), done / all);
      }
      results.push_back(to_json(count(*target.rung, instance), cost, with_lines));
      done += problem.seconds / static_cast<double>(problem.targets.size());
    }
  }
  return {{"device", runtime::kName}, {"results", results}};
}

// The usual one; of an operation without it the first that most rungs take.
DType ladder_dtype(const Family& family, const Operation& operation, const Selection& selection) {
  DType best = usual_dtype(operation.dtypes, selection);
  if (best == DType::kF16) return best;
  const auto takers = [&](DType dtype) {
    return std::ranges::count_if(
        family.rungs, [&](const Rung* rung) { return dtypes_of(*rung, operation).has(dtype); });
  };
  for (const DType dtype : selection.chosen(operation.dtypes)) {
    if (takers(dtype) > takers(best)) best = dtype;
  }
  return best;
}

}  // namespace

const Operation& choose_ladder(const std::string& name, Selection& selection) {
  const Address address = address_of(name);
  require(address.rung == nullptr, "a ladder is a family's or an operation's, not the rung ", name);
  const Operation& operation =
      address.operation != nullptr ? *address.operation : address.family->operations.front();
  if (selection.dtypes.empty()) {
    selection.dtypes.emplace_back(to_string(ladder_dtype(*address.family, operation, selection)));
  }
  // By its rungs: an operation's name may be its family's too.
  for (const Rung* rung : address.family->rungs) {
    if (dtypes_of(*rung, operation).empty()) continue;
    selection.names.push_back(concatenate(operation.name, "/", rung->name));
  }
  return operation;
}

std::vector<LadderProblem> ladder_problems(const Operation& operation, const Selection& selection) {
  constexpr double kRuns = 6;  // verified in three orders of threads and in place, then counted
  const std::vector<Target> targets = targets_of(selection.names);
  std::vector<LadderProblem> problems;
  for (const DType dtype : selection.chosen(operation.dtypes)) {
    std::vector<Target> takers;
    std::ranges::copy_if(targets, std::back_inserter(takers),
                         [dtype](const Target& target) { return target.dtypes.has(dtype); });
    if (takers.empty()) continue;
    const Case standard = emulated_case(operation, targets, dtype);
    for (const Case& chosen : selection.of(operation, {&standard, 1})) {
      const AnyCall checked(make_problem(operation, chosen, dtype));
      check_memory(checked.problem(), chosen.offset, selection.limits);
      const double seconds =
          estimated_seconds(checked.problem(), kRuns * static_cast<double>(takers.size()));
      problems.push_back({chosen, dtype, takers, std::max(seconds, 1e-9)});
    }
  }
  require(!problems.empty(), "no rung of ", operation.name, " takes these dtypes: there are ",
          to_string(operation.dtypes));
  check_time(concatenate("the ladder of ", operation.name), seconds_of(problems), selection.limits);
  return problems;
}

double seconds_of(std::span<const LadderProblem> problems) {
  double all = 0;
  for (const LadderProblem& problem : problems) all += problem.seconds;
  return all;
}

CountedRung count(const Rung& rung, Instance& instance) {
  CountedRung counted{verify(rung, instance), std::nullopt};
  if (counted.verification.verdict == Verdict::kPassed) counted.profile = profile(rung, instance);
  return counted;
}

Json to_json(const CountedRung& rung, const Cost& cost, bool with_lines) {
  Json json = to_json(rung.verification);
  json["bytes"] = cost.bytes;
  json["flops"] = cost.flops;
  if (rung.profile) {
    json["profile"] = to_json(*rung.profile);
    if (!with_lines) json["profile"].erase("lines");
  }
  return json;
}

Json ladder(const Operation& operation, Selection selection, const LadderOptions& options,
            const Announce& announce) {
  runtime::require_device();
  if (runtime::kEmulated) {
    return counted_ladder(operation, selection, options.lines, announce);
  }
  selection.first_case = true;
  BenchOptions bench;
  bench.seed = selection.seed;
  return report(bench, bench_all(selection, bench, {}, announce));
}

Json counted_rung(const std::string& rung, const Selection& selection) {
  require(runtime::kEmulated, "the emulator counts; this is the CUDA build");
  const auto [target, dtype, chosen] = chosen_run(rung, selection, "profile");
  Instance instance(*target.operation, chosen, dtype, selection.seed, {}, selection.limits);
  const Cost cost = target.operation->cost(instance.problem());
  const Json entry = to_json(count(*target.rung, instance), cost, true);
  return {{"device", runtime::kName}, {"results", Json::array({entry})}};
}

}  // namespace ws::harness
