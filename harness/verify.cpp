#include "harness/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>

namespace ws::harness {
namespace {

constexpr auto kFirstPoison = std::byte{0xFF};  // NaN in every float type
// The second run starts from other bytes: what neither run writes differs between them.
constexpr auto kSecondPoison = std::byte{0x00};

// "y[3, 17]"
std::string place(const Problem& problem, int tensor, int64_t index) {
  const Tensor& t = problem.tensor(tensor);
  std::string text;
  for (int d = t.rank - 1; d >= 0; --d) {
    const int64_t extent = t.shape[static_cast<size_t>(d)];
    text = std::to_string(index % extent) + (text.empty() ? "" : ", ") + text;
    index /= extent;
  }
  return fmt::format("{}[{}]", problem.operation->parameters[static_cast<size_t>(tensor)].name,
                     text);
}

// Offset in elements of a logical index.
int64_t offset_of(const Tensor& tensor, int64_t index) {
  int64_t offset = 0;
  for (int d = tensor.rank - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    offset += index % tensor.shape[i] * tensor.strides[i];
    index /= tensor.shape[i];
  }
  return offset;
}

bool is_float(DType dtype) {
  return dtype != DType::kI32 && dtype != DType::kI64 && dtype != DType::kBool;
}

// What a perfect kernel stores for `value`.
double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kF32: return static_cast<float>(value);
    case DType::kF16: return to_float(from_float<half>(static_cast<float>(value)));
    case DType::kBf16: return to_float(from_float<bf16>(static_cast<float>(value)));
    case DType::kE4m3: return to_float(from_float<e4m3>(static_cast<float>(value)));
    case DType::kE5m2: return to_float(from_float<e5m2>(static_cast<float>(value)));
    case DType::kI32:
    case DType::kI64:
    case DType::kBool: return value;
  }
  return value;
}

void fail(Verification& result, Defect defect, std::string reason) {
  if (result.verdict == Verdict::kFailed) return;
  result.verdict = Verdict::kFailed;
  result.defect = defect;
  result.reason = std::move(reason);
}

bool holds_poison(const Tensor& host, int64_t index) {
  const auto size = static_cast<int64_t>(size_of(host.dtype));
  const auto* bytes = host.as<const std::byte>() + offset_of(host, index) * size;
  return std::all_of(bytes, bytes + size, [](std::byte b) { return b == kFirstPoison; });
}

// |out - ref| in units of what the tolerance allows, to rank elements; infinite where only equality
// will do and does not hold.
double badness(const Tolerance& tolerance, double got, double expected) {
  const double distance = std::abs(got - expected);
  if (distance == 0) return 0;
  if (tolerance.worst == 0) return distance;
  return distance / (std::abs(expected) + tolerance.floor);
}

// Sums over the compared elements of one output.
struct Totals {
  double error = 0;
  double norm = 0;
};

// Compares one element; false where it is not finite as it should be.
bool compare_element(const Tolerance& tolerance, DType dtype, double got, double expected,
                     Totals& totals) {
  const double rounded = round_to(dtype, expected);
  if (!std::isfinite(rounded)) {
    if (std::isnan(rounded)) return std::isnan(got);
    // Too large for the dtype: infinity, or a finite value that is as near as the tolerance asks.
    return got == rounded || (std::isfinite(got) && std::isfinite(expected) &&
                              badness(tolerance, got, expected) <= tolerance.worst);
  }
  if (!std::isfinite(got)) {
    // Just below the largest finite value rounding may overflow.
    return std::isinf(got) && std::signbit(got) == std::signbit(expected) &&
           !std::isfinite(round_to(dtype, expected * (1 + 2 * tolerance.worst)));
  }
  totals.error += (got - expected) * (got - expected);
  totals.norm += expected * expected;
  return true;
}

// Gaps between the rows of an output belong to somebody else.
void check_gaps(const Problem& problem, int tensor, std::span<const std::byte> bytes,
                Verification& result) {
  const Tensor& t = problem.tensor(tensor);
  if (t.contiguous()) return;
  const size_t size = size_of(t.dtype);
  std::vector<bool> owned(bytes.size() / size, false);
  for (int64_t i = 0; i < t.elements(); ++i) owned[static_cast<size_t>(offset_of(t, i))] = true;
  for (size_t e = 0; e < owned.size(); ++e) {
    if (owned[e]) continue;
    const auto gap = bytes.subspan(e * size, size);
    if (std::ranges::all_of(gap, [](std::byte b) { return b == kFirstPoison; })) continue;
    fail(result, Defect::kOutOfBounds,
         fmt::format("wrote between the rows of output '{}': element {} from its start",
                     problem.operation->parameters[static_cast<size_t>(tensor)].name, e));
    return;
  }
}

void check_guards(DeviceInstance& device, Verification& result) {
  const Problem& problem = device.problem();
  const auto report = [&](std::string_view what, const DeviceBuffer& buffer) {
    const std::optional<int64_t> at = buffer.damage();
    if (!at) return;
    fail(result, Defect::kOutOfBounds,
         *at < 0 ? fmt::format("wrote {} bytes before the start of {}", -*at, what)
                 : fmt::format("wrote past the end of {}: byte {} behind its {} bytes", what, *at,
                               buffer.bytes()));
  };
  for (int i = 0; i < problem.tensor_count; ++i) {
    const Parameter& p = problem.operation->parameters[static_cast<size_t>(i)];
    report(fmt::format("{} '{}'", p.output ? "output" : "input", p.name), device.buffer(i));
  }
  if (const DeviceBuffer* workspace = device.workspace_buffer())
    report("the workspace", *workspace);
}

void check_inputs(DeviceInstance& device, const Instance& instance, Verification& result) {
  for (size_t i = 0; i < instance.inputs().size(); ++i) {
    const std::span<const std::byte> before = instance.inputs()[i].bytes();
    std::vector<std::byte> after(before.size());
    device.buffer(static_cast<int>(i)).download(after);
    const auto at = std::ranges::mismatch(after, before).in1;
    if (at == after.end()) continue;
    const Tensor& tensor = instance.problem().tensor(static_cast<int>(i));
    fail(result, Defect::kInputChanged,
         fmt::format("input '{}' was modified, first at element {} from its start",
                     instance.operation().parameters[i].name,
                     (at - after.begin()) / static_cast<std::ptrdiff_t>(size_of(tensor.dtype))));
  }
}

// An output's bytes on the host. Pages that nobody touches are never there.
struct HostBytes {
  explicit HostBytes(size_t bytes)
      : memory(std::make_unique_for_overwrite<std::byte[]>(bytes)), size(bytes) {}
  std::span<std::byte> bytes() const { return {memory.get(), size}; }

  std::unique_ptr<std::byte[]> memory;
  size_t size;
};

std::vector<HostBytes> download_outputs(DeviceInstance& device) {
  std::vector<HostBytes> all;
  const Problem& problem = device.problem();
  for (int i = problem.input_count(); i < problem.tensor_count; ++i) {
    device.buffer(i).download(all.emplace_back(device.buffer(i).bytes()).bytes());
  }
  return all;
}

// Of large outputs only what will be compared: a gigabyte takes long to come over.
std::vector<HostBytes> download_sample(DeviceInstance& device, Instance& instance) {
  std::vector<HostBytes> all;
  const Problem& problem = device.problem();
  for (int i = problem.input_count(); i < problem.tensor_count; ++i) {
    const DeviceBuffer& buffer = device.buffer(i);
    const std::span<std::byte> bytes = all.emplace_back(buffer.bytes()).bytes();
    if (!problem.tensor(i).contiguous()) {
      buffer.download(bytes);
      continue;
    }
    const size_t per_item =
        static_cast<size_t>(instance.elements_per_item(i - problem.input_count())) *
        size_of(problem.tensor(i).dtype);
    for (const Instance::Expected& piece : instance.expected()) {
      const size_t first = static_cast<size_t>(piece.slice.first) * per_item;
      const size_t count = static_cast<size_t>(piece.slice.last - piece.slice.first) * per_item;
      buffer.download(bytes.subspan(first, count), first);
    }
  }
  return all;
}

void compare_bytes(DeviceInstance& device, Instance& instance,
                   const std::vector<HostBytes>& outputs, Verification& result) {
  const Problem& problem = device.problem();
  const int first_output = problem.input_count();
  const Tolerance& tolerance = result.tolerance;
  const bool exact = tolerance.relative == 0 && tolerance.worst == 0;
  std::vector<Totals> totals(outputs.size());
  double worst = -1;
  int64_t unwritten = 0;
  int64_t beyond = 0;
  Element not_finite;
  Element poisoned;
  int64_t not_finite_count = 0;
  for (const Instance::Expected& piece : instance.expected()) {
    for (size_t k = 0; k < outputs.size(); ++k) {
      Tensor host = problem.tensor(first_output + static_cast<int>(k));
      host.data = outputs[k].memory.get();
      const int64_t first = piece.slice.first * instance.elements_per_item(static_cast<int>(k));
      const std::vector<double>& expected = piece.outputs[k];
      for (size_t e = 0; e < expected.size(); ++e) {
        const int64_t index = first + static_cast<int64_t>(e);
        const Element here{static_cast<int>(k), index, element(host, index), expected[e]};
        ++result.checked;
        if (!compare_element(tolerance, host.dtype, here.got, here.expected, totals[k])) {
          if (holds_poison(host, index)) {
            if (unwritten++ == 0) poisoned = here;
          } else if (not_finite_count++ == 0) {
            not_finite = here;
          }
          continue;
        }
        if (!std::isfinite(here.got) || !std::isfinite(here.expected)) continue;
        // An integer's poison is a number.
        if (!is_float(host.dtype) && here.got != here.expected && holds_poison(host, index)) {
          if (unwritten++ == 0) poisoned = here;
          continue;
        }
        const double bad = badness(tolerance, here.got, here.expected);
        const bool wrong = exact
                               ? (bad != 0 || std::signbit(here.got) != std::signbit(here.expected))
                               : (tolerance.worst > 0 && bad > tolerance.worst);
        beyond += wrong ? 1 : 0;
        if (bad > worst) {
          worst = bad;
          result.worst = here;
        }
      }
    }
  }
  for (const Totals& t : totals) {
    const double error = t.error == 0 ? 0 : t.norm == 0 ? INFINITY : std::sqrt(t.error / t.norm);
    result.error = std::max(result.error, error);
  }

  const auto where = [&](const Element& e) {
    return place(problem, first_output + e.output, e.index);
  };
  if (unwritten > 0) {
    fail(result, Defect::kUnwritten,
         fmt::format("{} was never written ({} of {} elements compared still hold the poison)",
                     where(poisoned), unwritten, result.checked));
    result.worst = poisoned;
  } else if (not_finite_count > 0) {
    fail(
        result, Defect::kNotFinite,
        fmt::format("{} is {}, the reference has {:.6g} ({} of {} elements compared are not finite "
                    "where the reference is, or the other way round)",
                    where(not_finite), not_finite.got, not_finite.expected, not_finite_count,
                    result.checked));
    result.worst = not_finite;
  } else if (beyond > 0 && exact) {
    fail(result, Defect::kInaccurate,
         fmt::format("{} is {:.9g}, the reference has {:.9g}, and only equality will do ({} of {} "
                     "elements compared differ)",
                     where(result.worst), result.worst.got, result.worst.expected, beyond,
                     result.checked));
  } else if (beyond > 0) {
    fail(result, Defect::kInaccurate,
         fmt::format(
             "{} is {:.6g}, the reference has {:.6g}: |out-ref|/(|ref|+{:.1g}) is {:.2e}, at "
             "most {:.2e} ({} of {} elements compared are beyond it)",
             where(result.worst), result.worst.got, result.worst.expected, tolerance.floor, worst,
             tolerance.worst, beyond, result.checked));
  } else if (tolerance.relative > 0 && !(result.error <= tolerance.relative)) {
    fail(result, Defect::kInaccurate,
         fmt::format("||out-ref||/||ref|| is {:.2e}, at most {:.2e}; worst at {}: {:.6g}, the "
                     "reference has {:.6g}",
                     result.error, tolerance.relative, where(result.worst), result.worst.got,
                     result.worst.expected));
  }
}

// Both runs, bit by bit.
void compare_runs(const Problem& problem, const std::vector<HostBytes>& one,
                  const std::vector<HostBytes>& two, Verification& result) {
  for (size_t k = 0; k < one.size(); ++k) {
    const int tensor = problem.input_count() + static_cast<int>(k);
    Tensor a = problem.tensor(tensor);
    Tensor b = a;
    if (a.contiguous() && std::ranges::equal(one[k].bytes(), two[k].bytes())) continue;
    a.data = one[k].memory.get();
    b.data = two[k].memory.get();
    const size_t size = size_of(a.dtype);
    for (int64_t i = 0; i < a.elements(); ++i) {
      const size_t at = static_cast<size_t>(offset_of(a, i)) * size;
      if (std::memcmp(&one[k].memory[at], &two[k].memory[at], size) == 0) continue;
      fail(result, Defect::kNondeterministic,
           fmt::format("two runs on the same input differ at {}: {:.9g} and {:.9g}",
                       place(problem, tensor, i), element(a, i), element(b, i)));
      return;
    }
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
    case Defect::kUnwritten: return "unwritten";
    case Defect::kNotFinite: return "not finite";
    case Defect::kInaccurate: return "inaccurate";
    case Defect::kNondeterministic: return "nondeterministic";
  }
  return "?";
}

void compare_outputs(DeviceInstance& device, Instance& instance, Verification& result) {
  const std::vector<HostBytes> outputs = download_sample(device, instance);
  compare_bytes(device, instance, outputs, result);
}

Verification verify(const Rung& rung, Instance& instance) {
  const auto start = std::chrono::steady_clock::now();
  Verification result;
  result.rung = fmt::format("{}/{}", instance.operation().name, rung.name);
  result.problem = instance.problem().describe();
  if (instance.chosen().offset != 0) {
    result.problem += fmt::format(" offset={}", instance.chosen().offset);
  }
  result.dtype = instance.dtype();
  result.tolerance = instance.operation().tolerance(instance.problem());
  for (const Tensor& output : instance.problem().outputs()) result.elements += output.elements();

  const auto finish = [&]() -> Verification& {
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  };
  try {
    DeviceInstance device(instance);
    result.reason = supports(rung, device.problem(), device_capability());
    if (!result.reason.empty()) {
      result.verdict = Verdict::kSkipped;
      return finish();
    }
    const Context context{nullptr, device.workspace(rung.workspace(device.problem()))};
    device.poison_outputs(kFirstPoison);
#ifdef WS_EMULATED
    emulator::reset_counts();
#endif
    run(rung, device.problem(), context);
    synchronize(context.stream);
#ifdef WS_EMULATED
    const emulator::Counts counts = emulator::counts();
    for (size_t i = 0; i < counts.size(); ++i) {
      result.counts[emulator::to_string(static_cast<emulator::Count>(i))] = counts[i];
    }
#endif
    const std::vector<HostBytes> outputs = download_outputs(device);
    check_guards(device, result);
    for (size_t k = 0; k < outputs.size(); ++k) {
      check_gaps(device.problem(), device.problem().input_count() + static_cast<int>(k),
                 outputs[k].bytes(), result);
    }
    check_inputs(device, instance, result);
    compare_bytes(device, instance, outputs, result);
    if (result.verdict == Verdict::kFailed) return finish();

    device.poison_outputs(kSecondPoison);
    run(rung, device.problem(), context);
    synchronize(context.stream);
    const std::vector<HostBytes> again = download_outputs(device);
    check_guards(device, result);
    compare_runs(device.problem(), outputs, again, result);
  } catch (const Error& error) {
    fail(result, Defect::kError, error.what());
  }
  return finish();
}

}  // namespace ws::harness
