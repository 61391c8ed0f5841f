#include "harness/verify.hpp"

#include <fmt/format.h>

#include <chrono>

#include "catalogue/overlap.hpp"
#include "harness/comparison.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::harness {
namespace {

// Runs the call from outputs that hold `poison`; returns what it wrote.
Written run_once(const Rung& rung, DeviceInstance& device, const Context& context, std::byte poison,
                 std::string_view order) {
  const runtime::ThreadOrderScope scope(order);
  run_on(poison, rung, device.call(), device, context);
  return download_written(device);
}

// A call whose first output is exactly an input, and which one; none where no two fit.
struct InPlace {
  Problem problem;
  int output = -1;
  int input = -1;
};
InPlace in_place_of(const Problem& problem) {
  const std::span<const Parameter> parameters = problem.operation->parameters;
  const auto index_of = [&](const Parameter& p) {
    return static_cast<int>(&p - parameters.data());
  };
  for (const Parameter& out : parameters) {
    if (out.role != Parameter::Role::kOut) continue;
    for (const Parameter& in : parameters) {
      const Tensor& given = problem[in.name];
      Tensor moved = problem[out.name];
      moved.data = given.data;
      if (in.role != Parameter::Role::kIn || moved.elements() == 0) continue;
      if (in.rows == Parameter::Rows::kShared) continue;  // other rows still read it
      if (!given.exists() || !coincide(moved, given)) continue;
      InPlace found{problem, index_of(out), index_of(in)};
      found.problem[out.name] = moved;
      return found;
    }
  }
  return {};
}

// The same bits must come out where an output is the input's own memory.
void check_in_place(const Rung& rung, DeviceInstance& device, const Instance& instance,
                    const Context& context, const Written& written, Verification& result) {
  const InPlace place = in_place_of(device.problem());
  if (place.output < 0) return;
  const AnyCall call(place.problem);
  if (!takes(rung, call, runtime::capability())) return;
  run_on(kFirstPoison, rung, call, device, context);
  Written again = download_written(device);
  HostBytes& moved = again[static_cast<size_t>(place.output)];
  device.buffer(place.input).download(moved.bytes());
  compare_bits(device.problem(), written, again, Defect::kInPlace, "apart and in place, results",
               result);
  device.buffer(place.input).upload(instance.before(place.input)->bytes());
}

void verify_on(const Rung& rung, DeviceInstance& device, Instance& instance,
               const std::vector<std::string_view>& orders, Verification& result) {
  const Context context{nullptr, device.workspace(workspace_of(rung, device.call()))};
  runtime::reset_counts();
  const Written first = run_once(rung, device, context, kFirstPoison, orders.front());
  for (const auto& [name, count] : runtime::counts()) result.counts[std::string(name)] = count;
  check_surroundings(device, instance, first, kFirstPoison, result);
  if (result.verdict == Verdict::kFailed) return;
  const Written second = run_once(rung, device, context, kSecondPoison, orders[1 % orders.size()]);
  check_surroundings(device, instance, second, kSecondPoison, result);
  compare_with_reference(&rung, device.problem(), instance, first, &second, result);
  if (result.verdict == Verdict::kFailed) return;
  const auto compare_with_first = [&](const Written& other) {
    if (rung.deterministic) {
      compare_bits(device.problem(), first, other, Defect::kNondeterministic,
                   "two runs on the same input", result);
    } else {
      const int64_t checked = result.checked;
      compare_with_reference(&rung, device.problem(), instance, other, nullptr, result);
      result.checked = checked;
    }
  };
  compare_with_first(second);
  for (size_t i = 2; i < orders.size() && result.verdict != Verdict::kFailed; ++i) {
    compare_with_first(run_once(rung, device, context, kFirstPoison, orders[i]));
  }
  if (rung.deterministic && instance.operation().in_place) {
    check_in_place(rung, device, instance, context, first, result);
  }
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed: return "passed";
    case Verdict::kSkipped: return "skipped";
    case Verdict::kFailed: return "failed";
  }
  return "?";
}

std::string_view to_string(Defect defect) {
  switch (defect) {
    case Defect::kNone: return "none";
    case Defect::kError: return "error";
    case Defect::kOutOfBounds: return "out of bounds";
    case Defect::kInputChanged: return "input changed";
    case Defect::kWorkspaceDirty: return "workspace dirty";
    case Defect::kUnwritten: return "unwritten";
    case Defect::kNotFinite: return "not finite";
    case Defect::kInaccurate: return "inaccurate";
    case Defect::kNondeterministic: return "nondeterministic";
    case Defect::kInPlace: return "wrong in place";
  }
  return "?";
}

Verification verify(const Rung& rung, Instance& instance, std::vector<std::string_view> orders) {
  if (orders.empty()) orders = runtime::orders_to_check();
  const auto start = std::chrono::steady_clock::now();
  Verification result;
  result.rung = fmt::format("{}/{}", instance.operation().name, rung.name);
  result.problem = instance.problem().describe();
  if (instance.chosen().offset != 0) {
    result.problem += fmt::format(" offset={}", instance.chosen().offset);
  }
  result.dtype = instance.dtype();
  for (size_t i = 0; i < instance.operation().parameters.size(); ++i) {
    if (!instance.operation().parameters[i].is_written()) continue;
    result.elements += instance.problem().tensors[i].elements();
  }
  try {
    DeviceInstance device(instance);
    result.reason = why_not(rung, device.call(), runtime::capability());
    if (result.reason.empty()) {
      verify_on(rung, device, instance, orders, result);
    } else {
      result.verdict = Verdict::kSkipped;
    }
  } catch (const Error& error) {
    fail(result, Defect::kError, error.what());
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace ws::harness
