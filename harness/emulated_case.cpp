#include "harness/emulated_case.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "warpsmith/runtime.hpp"

namespace ws::harness {

Case emulated_case(const Operation& operation, std::span<const Target> targets, DType dtype,
                   const CaseLimits& limits) {
  const Cases cases = operation.cases();
  return emulated_case(operation, cases.verify, cases.smoke.front(), targets, dtype, limits);
}

Case emulated_case(const Operation& operation, std::span<const Case> cases, const Case& otherwise,
                   std::span<const Target> targets, DType dtype, const CaseLimits& limits) {
  Case best = otherwise;
  std::pair<int64_t, double> best_rank{-1, 0};
  for (const Case& chosen : cases) {
    if (chosen.offset != 0 || chosen.padding != 0) continue;
    const AnyCall call(make_problem(operation, chosen, dtype));
    const Cost cost = operation.cost(call.problem());
    if (cost.flops > limits.flops || cost.bytes > limits.bytes) continue;
    const std::pair rank{
        std::ranges::count_if(
            targets, [&](const Target& t) { return takes(*t.rung, call, runtime::capability()); }),
        cost.bytes};
    if (rank <= best_rank) continue;
    best = chosen;
    best_rank = rank;
  }
  return best;
}

Case square_case(const Target& target, DType dtype) {
  constexpr CaseLimits kSmall{.flops = 5e6, .bytes = 2e5};
  // 128 of five or six extents may be days, of four half a minute or a gigabyte.
  constexpr double kMostFlops = 1e8;
  constexpr double kMostBytes = 1e8;
  const Operation& operation = *target.operation;
  const Case listed = emulated_case(operation, {&target, 1}, dtype, kSmall);
  const size_t wanted =
      operation.extent_names.size() - static_cast<size_t>(operation.optional_extents);
  Case square{.attributes = listed.attributes};
  std::fill_n(square.extents.begin(), wanted, wanted == 1 ? 128 * 128 : 128);
  try {
    const AnyCall call(make_problem(operation, square, dtype));
    const Cost cost = operation.cost(call.problem());
    const bool fits = cost.flops <= kMostFlops && cost.bytes <= kMostBytes;
    return fits && takes(*target.rung, call, runtime::capability()) ? square : listed;
  } catch (const InvalidArgument&) {
    return listed;  // its attributes want another shape
  }
}

DType usual_dtype(DTypes dtypes, const Selection& selection) {
  return dtypes.has(DType::kF16) ? DType::kF16 : selection.chosen(dtypes).front();
}

ChosenRun chosen_run(const std::string& rung, const Selection& selection, std::string_view verb) {
  const std::vector<Target> targets = targets_of(std::array{rung});
  const Address address = address_of(rung);
  require(address.rung != nullptr, verb, " wants a rung such as softmax/online, not ", rung);
  // Of the operations that the rung computes the first, unless one is named.
  const Target& target = targets.front();
  const Operation& operation = *target.operation;
  const std::vector<DType> asked = selection.chosen(target.dtypes);
  require(!asked.empty(), "nothing to ", verb, ": ", target.name(), " takes none of these dtypes");
  const DType dtype =
      selection.dtypes.empty() ? usual_dtype(target.dtypes, selection) : asked.front();

  // The ladder's own problem, if the rung takes it.
  const std::vector<Target> ladder = targets_of(std::array{std::string(target.family->name)});
  std::vector<Target> siblings;
  std::ranges::copy_if(ladder, std::back_inserter(siblings), [&](const Target& other) {
    return other.operation == &operation && other.dtypes.has(dtype);
  });
  Case standard = emulated_case(operation, siblings, dtype);
  if (!takes(*target.rung, AnyCall(make_problem(operation, standard, dtype)),
             runtime::capability())) {
    standard = emulated_case(operation, {&target, 1}, dtype);
  }
  constexpr double kRuns = 2;
  const Case chosen = selection.of(operation, {&standard, 1}).front();
  const AnyCall checked(make_problem(operation, chosen, dtype));
  check_memory(checked.problem(), chosen.offset, selection.limits);
  check_time(concatenate(target.name(), " on ", checked.problem().describe()),
             estimated_seconds(checked.problem(), kRuns), selection.limits);
  return {target, dtype, chosen};
}

}  // namespace ws::harness
