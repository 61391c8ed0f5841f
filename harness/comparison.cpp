#include "harness/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ranges>

#include "catalogue/fill.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::harness {
namespace {

const Parameter& parameter_of(const Problem& problem, int tensor) {
  return problem.operation->parameters[static_cast<size_t>(tensor)];
}

// "y[3, 17]"
std::string place(const Problem& problem, int tensor, int64_t index) {
  const Tensor& t = problem.tensor(tensor);
  std::string text;
  for (int d = t.rank - 1; d >= 0; --d) {
    text = std::to_string(index % t.extent(d)) + (text.empty() ? "" : ", ") + text;
    index /= t.extent(d);
  }
  return fmt::format("{}[{}]", parameter_of(problem, tensor).name, text);
}

// f(tensor) for each that is written and has elements.
template <class F>
void for_each_written(const Problem& problem, const F& f) {
  for (size_t i = 0; i < problem.operation->parameters.size(); ++i) {
    if (problem.operation->parameters[i].is_written() && problem.tensors[i].elements() > 0) {
      f(static_cast<int>(i));
    }
  }
}

std::span<const std::byte> bytes_of(const Tensor& layout, const HostBytes& host, int64_t index) {
  const size_t size = size_of(layout.dtype);
  return host.bytes().subspan(static_cast<size_t>(offset_of(layout, index)) * size, size);
}

bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [value](std::byte b) { return b == value; });
}

// |out - ref| in units of what the tolerance allows, to rank elements; infinite where only equality
// will do and does not hold.
double badness(const Tolerance& tolerance, double got, double expected) {
  const double distance = std::abs(got - expected);
  if (distance == 0) return 0;
  if (tolerance.worst == 0) return distance;
  return distance / (std::abs(expected) + tolerance.floor);
}

// Whether an element is NaN or infinite just where it should be.
bool finite_as_expected(const Tolerance& tolerance, DType dtype, double got, double expected) {
  const double rounded = round_to(dtype, expected);
  if (!std::isfinite(rounded)) {
    if (std::isnan(rounded)) return std::isnan(got);
    // Too large for the dtype: infinity, or a finite value that is as near as the tolerance asks.
    return got == rounded || (std::isfinite(got) && std::isfinite(expected) &&
                              badness(tolerance, got, expected) <= tolerance.worst);
  }
  if (std::isfinite(got)) return true;
  // Just below the largest finite value rounding may overflow.
  return std::isinf(got) && std::signbit(got) == std::signbit(expected) &&
         !std::isfinite(round_to(dtype, expected * (1 + 2 * tolerance.worst)));
}

// One output against the reference.
class Comparison {
 public:
  Comparison(const Problem& problem, int tensor, const Tolerance& tolerance,
             const HostBytes& written, const HostBytes* again)
      : problem_(problem),
        tensor_(tensor),
        layout_(problem.tensor(tensor)),
        written_(written),
        again_(parameter_of(problem, tensor).is_read() ? nullptr : again),
        may_hold_poison_(!parameter_of(problem, tensor).is_read()),
        tolerance_(tolerance),
        exact_(tolerance_.relative == 0 && tolerance_.worst == 0) {
    layout_.data = written.memory.get();
  }

  // That of the same output, of nothing yet.
  Comparison anew() const { return {problem_, tensor_, tolerance_, written_, again_}; }

  void add(int64_t index, double expected) {
    const Element here{tensor_, index, element(layout_, index), expected};
    ++checked_;
    if (is_unwritten(here)) {
      note(unwritten_, here);
    } else if (!finite_as_expected(tolerance_, layout_.dtype, here.got, expected)) {
      note(not_finite_, here);
    } else if (std::isfinite(here.got) && std::isfinite(expected)) {
      measure(here);
    }
  }

  // What `later` has seen, of elements behind these.
  void add(const Comparison& later) {
    add(unwritten_, later.unwritten_);
    add(not_finite_, later.not_finite_);
    checked_ += later.checked_;
    total_error_ += later.total_error_;
    total_norm_ += later.total_norm_;
    if (later.worst_badness_ > worst_badness_ || (later.beyond_ > 0 && beyond_ == 0)) {
      worst_badness_ = later.worst_badness_;
      worst_ = later.worst_;
    }
    beyond_ += later.beyond_;
  }

  int64_t checked() const { return checked_; }

  // Into the result: the first defect, and the figures where this output is nearest to its limits.
  void tell(Verification& result) const {
    const double error = total_error_ == 0  ? 0
                         : total_norm_ == 0 ? INFINITY
                                            : std::sqrt(total_error_ / total_norm_);
    const bool far = tolerance_.relative > 0 && !(error <= tolerance_.relative);
    if (unwritten_.count > 0) {
      told(result, unwritten_.first, error);
      fail(result, Defect::kUnwritten,
           fmt::format("{} was never written ({} of {} elements compared still hold the poison)",
                       where(unwritten_.first), unwritten_.count, checked_));
    } else if (not_finite_.count > 0) {
      told(result, not_finite_.first, error);
      fail(result, Defect::kNotFinite,
           fmt::format("{} is {}, the reference has {:.6g} ({} of {} elements compared are not "
                       "finite where the reference is, or the other way round)",
                       where(not_finite_.first), not_finite_.first.got, not_finite_.first.expected,
                       not_finite_.count, checked_));
    } else if (beyond_ > 0 && exact_) {
      told(result, worst_, error);
      fail(result, Defect::kInaccurate,
           fmt::format("{} is {:.9g}, the reference has {:.9g}, and only equality will do ({} of "
                       "{} elements compared differ)",
                       where(worst_), worst_.got, worst_.expected, beyond_, checked_));
    } else if (beyond_ > 0) {
      told(result, worst_, error);
      fail(result, Defect::kInaccurate,
           fmt::format("{} is {:.6g}, the reference has {:.6g}: |out-ref|/(|ref|+{:.1g}) is "
                       "{:.2e}, at most {:.2e} ({} of {} elements compared are beyond it)",
                       where(worst_), worst_.got, worst_.expected, tolerance_.floor, worst_badness_,
                       tolerance_.worst, beyond_, checked_));
    } else if (far) {
      told(result, worst_, error);
      fail(result, Defect::kInaccurate,
           fmt::format("||out-ref||/||ref|| of {} is {:.2e}, at most {:.2e}; worst at {}: {:.6g}, "
                       "the reference has {:.6g}",
                       parameter_of(problem_, tensor_).name, error, tolerance_.relative,
                       where(worst_), worst_.got, worst_.expected));
    } else if (result.verdict != Verdict::kFailed &&
               (result.tolerance.relative == 0 ||
                error * result.tolerance.relative > result.error * tolerance_.relative)) {
      told(result, worst_, error);
    }
  }

 private:
  struct Found {
    int64_t count = 0;
    Element first;
  };

  static void note(Found& found, const Element& here) {
    if (found.count++ == 0) found.first = here;
  }
  static void add(Found& found, const Found& later) {
    if (found.count == 0) found.first = later.first;
    found.count += later.count;
  }

  bool is_unwritten(const Element& here) const {
    if (!may_hold_poison_ || !all_are(bytes_of(layout_, written_, here.index), kFirstPoison)) {
      return false;
    }
    if (again_ != nullptr) return all_are(bytes_of(layout_, *again_, here.index), kSecondPoison);
    return std::isnan(here.got) ? !std::isnan(here.expected) : here.got != here.expected;
  }

  void measure(const Element& here) {
    total_error_ += (here.got - here.expected) * (here.got - here.expected);
    total_norm_ += here.expected * here.expected;
    const double bad = badness(tolerance_, here.got, here.expected);
    const bool wrong = exact_ ? (bad != 0 || std::signbit(here.got) != std::signbit(here.expected))
                              : (tolerance_.worst > 0 && bad > tolerance_.worst);
    beyond_ += wrong ? 1 : 0;
    if (bad > worst_badness_ || (wrong && beyond_ == 1)) {
      worst_badness_ = bad;
      worst_ = here;
    }
  }

  void told(Verification& result, const Element& element, double error) const {
    if (result.verdict == Verdict::kFailed) return;
    result.tolerance = tolerance_;
    result.error = error;
    result.worst = element;
  }

  std::string where(const Element& e) const { return place(problem_, tensor_, e.index); }

  const Problem& problem_;
  int tensor_;
  Tensor layout_;
  const HostBytes& written_;
  const HostBytes* again_;
  bool may_hold_poison_;  // an in-out tensor never held it
  Tolerance tolerance_;
  bool exact_;
  int64_t checked_ = 0;
  Found unwritten_;
  Found not_finite_;
  int64_t beyond_ = 0;
  double worst_badness_ = -1;
  Element worst_;
  double total_error_ = 0;
  double total_norm_ = 0;
};

// Elements from `first` on: on all cores where there are many, with the same result on any number.
void compare(Comparison& comparison, int64_t first, std::span<const double> expected) {
  constexpr int64_t kAtOnce = 1 << 16;
  const auto count = static_cast<int64_t>(expected.size());
  std::vector<Comparison> parts(static_cast<size_t>(divide_up(count, kAtOnce)), comparison.anew());
  parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) {
      for (int64_t e = part * kAtOnce; e < std::min(count, (part + 1) * kAtOnce); ++e) {
        parts[static_cast<size_t>(part)].add(first + e, expected[static_cast<size_t>(e)]);
      }
    }
  });
  for (const Comparison& part : parts) comparison.add(part);
}

// Gaps between the rows of what is written belong to somebody else.
void check_gaps(const Problem& problem, int tensor, std::span<const std::byte> after,
                std::span<const std::byte> before, std::byte poison, Verification& result) {
  const Tensor& t = problem.tensor(tensor);
  if (t.contiguous()) return;
  const size_t size = size_of(t.dtype);
  std::vector<bool> owned(after.size() / size, false);
  for (int64_t i = 0; i < t.elements(); ++i) owned[static_cast<size_t>(offset_of(t, i))] = true;
  for (size_t e = 0; e < owned.size(); ++e) {
    if (owned[e]) continue;
    const auto gap = after.subspan(e * size, size);
    const bool whole = before.empty() ? all_are(gap, poison)
                                      : std::ranges::equal(gap, before.subspan(e * size, size));
    if (whole) continue;
    fail(result, Defect::kOutOfBounds,
         fmt::format("wrote between the rows of output '{}': element {} from its start",
                     parameter_of(problem, tensor).name, e));
    return;
  }
}

void check_guards(DeviceInstance& device, Verification& result) {
  const auto report = [&](std::string_view what, const DeviceBuffer& buffer) {
    const std::optional<int64_t> at = buffer.damage();
    if (!at) return;
    fail(result, Defect::kOutOfBounds,
         *at < 0 ? fmt::format("wrote {} bytes before the start of {}", -*at, what)
                 : fmt::format("wrote past the end of {}: byte {} behind its {} bytes", what, *at,
                               buffer.bytes()));
  };
  const Problem& problem = device.problem();
  for (size_t i = 0; i < problem.operation->parameters.size(); ++i) {
    if (!device.has_buffer(static_cast<int>(i))) continue;
    const Parameter& p = problem.operation->parameters[i];
    report(fmt::format("{} '{}'", p.is_written() ? "output" : "input", p.name),
           device.buffer(static_cast<int>(i)));
  }
  if (const DeviceBuffer* workspace = device.workspace_buffer()) {
    report("the workspace", *workspace);
  }
}

void check_inputs(DeviceInstance& device, const Instance& instance, Verification& result) {
  for (size_t i = 0; i < instance.operation().parameters.size(); ++i) {
    const Parameter& parameter = instance.operation().parameters[i];
    const HostTensor* host = instance.before(static_cast<int>(i));
    if (parameter.is_written() || host == nullptr) continue;
    const std::span<const std::byte> before = host->bytes();
    std::vector<std::byte> after(before.size());
    device.buffer(static_cast<int>(i)).download(after);
    const auto at = std::ranges::mismatch(after, before).in1;
    if (at == after.end()) continue;
    fail(result, Defect::kInputChanged,
         fmt::format(
             "input '{}' was modified, first at element {} from its start", parameter.name,
             (at - after.begin()) / static_cast<std::ptrdiff_t>(size_of(host->tensor().dtype))));
  }
}

void check_zeroes(DeviceInstance& device, Verification& result) {
  if (device.workspace_zeroed() == 0) return;
  std::vector<std::byte> prefix(device.workspace_zeroed());
  device.workspace_buffer()->download(prefix);
  const auto at = std::ranges::find_if(prefix, [](std::byte b) { return b != std::byte{0}; });
  if (at == prefix.end()) return;
  fail(result, Defect::kWorkspaceDirty,
       fmt::format("left byte {} of the {} that begin the workspace at {}, not 0",
                   at - prefix.begin(), prefix.size(), std::to_integer<int>(*at)));
}

}  // namespace

void fail(Verification& result, Defect defect, std::string reason) {
  if (result.verdict == Verdict::kFailed) return;
  result.verdict = Verdict::kFailed;
  result.defect = defect;
  result.reason = std::move(reason);
}

Written download_written(DeviceInstance& device) {
  Written all(device.problem().operation->parameters.size());
  for_each_written(device.problem(), [&](int i) {
    HostBytes& host = all[static_cast<size_t>(i)] = HostBytes(device.buffer(i).bytes());
    device.buffer(i).download(host.bytes());
  });
  return all;
}

Written download_sample(DeviceInstance& device, Instance& instance) {
  const Problem& problem = device.problem();
  Written all(problem.operation->parameters.size());
  for_each_written(problem, [&](int i) {
    const auto at = static_cast<size_t>(i);
    const DeviceBuffer& buffer = device.buffer(i);
    const std::span<std::byte> bytes = (all[at] = HostBytes(buffer.bytes())).bytes();
    if (!problem.tensor(i).contiguous()) return buffer.download(bytes);
    const size_t per_item =
        static_cast<size_t>(instance.elements_per_item(i)) * size_of(problem.tensor(i).dtype);
    for (const Instance::Expected& piece : instance.expected()) {
      if (piece.tensors[at].empty()) continue;
      const size_t first = static_cast<size_t>(piece.slice.first) * per_item;
      const size_t count = static_cast<size_t>(piece.slice.last - piece.slice.first) * per_item;
      buffer.download(bytes.subspan(first, count), first);
    }
  });
  return all;
}

void check_surroundings(DeviceInstance& device, const Instance& instance, const Written& written,
                        std::byte poison, Verification& result) {
  check_guards(device, result);
  for_each_written(device.problem(), [&](int i) {
    const HostTensor* before = instance.before(i);
    check_gaps(device.problem(), i, written[static_cast<size_t>(i)].bytes(),
               before == nullptr ? std::span<const std::byte>() : before->bytes(), poison, result);
  });
  check_inputs(device, instance, result);
  check_zeroes(device, result);
}

void compare_with_reference(const Rung* rung, const Problem& problem, Instance& instance,
                            const Written& written, const Written* again, Verification& result) {
  for_each_written(problem, [&](int i) {
    const auto at = static_cast<size_t>(i);
    const Parameter& output = parameter_of(problem, i);
    const Tolerance tolerance = rung == nullptr ? problem.operation->tolerance(problem, output)
                                                : tolerance_of(*rung, problem, output);
    Comparison comparison(problem, i, tolerance, written[at],
                          again == nullptr ? nullptr : &(*again)[at]);
    for (const Instance::Expected& piece : instance.expected()) {
      compare(comparison, piece.slice.first * instance.elements_per_item(i), piece.tensors[at]);
    }
    result.checked += comparison.checked();
    comparison.tell(result);
  });
}

void compare_bits(const Problem& problem, const Written& one, const Written& two, Defect defect,
                  std::string_view what, Verification& result) {
  for_each_written(problem, [&](int i) {
    const HostBytes& first = one[static_cast<size_t>(i)];
    const HostBytes& second = two[static_cast<size_t>(i)];
    Tensor a = problem.tensor(i);
    Tensor b = a;
    if (a.contiguous() && std::ranges::equal(first.bytes(), second.bytes())) return;
    a.data = first.memory.get();
    b.data = second.memory.get();
    const auto elements = std::views::iota(int64_t{0}, a.elements());
    const auto e = std::ranges::find_if(elements, [&](int64_t at) {
      return !std::ranges::equal(bytes_of(a, first, at), bytes_of(b, second, at));
    });
    if (e == elements.end()) return;  // only bytes between elements differ
    fail(result, defect,
         fmt::format("{} differ at {}: {:.9g} and {:.9g}", what, place(problem, i, *e),
                     element(a, *e), element(b, *e)));
  });
}

void compare_outputs(const Rung* rung, DeviceInstance& device, Instance& instance,
                     Verification& result) {
  compare_with_reference(rung, device.problem(), instance, download_sample(device, instance),
                         nullptr, result);
}

}  // namespace ws::harness
