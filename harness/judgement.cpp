#include "harness/judgement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "warpsmith/runtime.hpp"

namespace ws::harness {

BenchGroup group_of(const Machine& machine, const Instance& instance) {
  const Operation& operation = instance.operation();
  const Problem& problem = instance.problem();
  BenchGroup group;
  group.operation = operation.name;
  group.problem = problem.describe();
  group.dtype = instance.dtype();
  const auto extents = static_cast<std::ptrdiff_t>(operation.extent_names.size());
  group.extents.assign(instance.chosen().extents.begin(),
                       instance.chosen().extents.begin() + extents);
  group.cost =
      operation.cost_of_data != nullptr ? operation.cost_of_data(problem) : operation.cost(problem);
  group.memory_bound =
      group.cost.bytes / machine.memory_rate > group.cost.flops / peak_flops(machine, group.dtype);
  group.floor = group.cost.at_most ? 0 : floor_microseconds(machine, problem, group.cost);
  return group;
}

void compare_after(Contender& contender, TensorSets& sets, Instance& instance, Stream stream) {
  DeviceInstance& device = sets[sets.count() - 1];
  Verification result;
  try {
    device.reset(std::byte{0xFF});
    contender.run(sets.count() - 1);
    runtime::synchronize(stream);
    compare_outputs(contender.rung, device, instance, result);
  } catch (const Error& error) {
    contender.fail(error.what());
    if (!runtime::is_usable()) throw;
    return;
  }
  contender.error = result.error;
  if (result.verdict == Verdict::kFailed) contender.fail("after timing: " + result.reason);
}

Measurement judged(const Contender& contender, const BenchGroup& group, double work) {
  Measurement m;
  m.name = contender.name;
  m.role = contender.role;
  m.verdict = contender.verdict;
  m.reason = contender.reason;
  m.error = contender.error;
  if (!contender.variants.empty()) {
    m.variant = static_cast<int>(contender.variant) + 1;
    m.variants = static_cast<int>(contender.variants.size());
  }
  if (contender.rung != nullptr) {
    m.deterministic = contender.rung->deterministic;
    if (!contender.rung->from.empty()) {
      m.from = concatenate(group.operation, "/", contender.rung->from);
    }
  }
  m.runs = static_cast<int>(contender.times.size());
  if (m.runs == 0) return m;
  m.calls = contender.calls;
  m.median = contender.median();
  m.min = *std::ranges::min_element(contender.times);
  m.max = *std::ranges::max_element(contender.times);
  m.rate = work / (m.median * 1e-6);
  if (m.role != Role::kCopy && m.median < group.floor && m.verdict == Verdict::kPassed) {
    m.verdict = Verdict::kFailed;
    m.reason = fmt::format(
        "a median of {:.3f} us is below the physical floor of {:.3f} us: it cannot have done the "
        "work",
        m.median, group.floor);
  }
  return m;
}

void find_ceiling(const Machine& machine, BenchGroup& group) {
  if (group.memory_bound) {
    for (const Measurement& m : group.measurements) {
      if (m.role != Role::kCopy || m.rate <= group.ceiling) continue;
      group.ceiling = m.rate;
      group.ceiling_name = m.name;
    }
  } else {
    group.ceiling = peak_flops(machine, group.dtype);
    group.ceiling_name = "data sheet";
    // Faster than the CUDA cores: f32 was multiplied as TF32, at half the rate of f16.
    const auto beyond = [&](const Measurement& m) { return m.rate > group.ceiling; };
    if (group.dtype == DType::kF32 && std::ranges::any_of(group.measurements, beyond)) {
      group.ceiling = peak_flops(machine, DType::kF16) / 2;
      group.ceiling_name = "data sheet, TF32";
    }
  }
  for (Measurement& m : group.measurements) {
    if (m.runs > 0 && group.ceiling > 0) m.of_ceiling = m.rate / group.ceiling;
  }
}

}  // namespace ws::harness
