// What the operations are checked against: cases, inputs, double-precision references, tolerances.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/scan/operations.hpp"

namespace ws::scan {
namespace {

// ---- References -------------------------------------------------------------------------------

// x as [outer, count, inner]: an item is what one step of `outer` leads to.
struct Dims3 {
  int dim = 0;
  int64_t outer = 1;
  int64_t count = 1;
  int64_t inner = 1;

  explicit Dims3(const Problem& problem) {
    const Tensor& x = problem.tensor(0);
    dim = static_cast<int>(problem.integer("dim"));
    if (dim < 0) dim += std::max(x.rank, 1);
    for (int d = 0; d < x.rank; ++d) (d < dim ? outer : d > dim ? inner : count) *= x.extent(d);
  }
};

// Offset of the index-th place of the dimensions [first, last), row-major.
int64_t offset_within(const Tensor& x, int first, int last, int64_t index) {
  int64_t offset = 0;
  for (int d = last - 1; d >= first; --d) {
    offset += index % x.extent(d) * x.stride(d);
    index /= x.extent(d);
  }
  return offset;
}

// A State is what is known of no elements at first, and has add(x) and result().
template <class State>
void scan_slice(const Problem& problem, Slice slice, double* expected, const State& none) {
  const Dims3 dims(problem);
  const Tensor& x = problem.tensor(0);
  const bool exclusive = problem.flag("exclusive");
  const bool reverse = problem.flag("reverse");
  const int64_t stride = dims.dim < x.rank ? x.stride(dims.dim) : 0;
  if (dims.count == 0 || dims.inner == 0) return;
  with_type<kFloats | kWhole>(x.dtype, [&]<class T>() {
    for (int64_t item = slice.first; item < slice.last; ++item) {
      const T* base = x.as<const T>() + offset_within(x, 0, std::min(dims.dim, x.rank), item);
      double* out = expected + (item - slice.first) * dims.count * dims.inner;
      parallel_for(dims.inner, 256, [&](int64_t first, int64_t last) {
        std::vector<State> states(static_cast<size_t>(last - first), none);
        std::vector<int64_t> offsets;
        for (int64_t j = first; j < last; ++j) {
          offsets.push_back(offset_within(x, dims.dim + 1, x.rank, j));
        }
        for (int64_t step = 0; step < dims.count; ++step) {
          const int64_t i = reverse ? dims.count - 1 - step : step;
          for (int64_t j = first; j < last; ++j) {
            State& state = states[static_cast<size_t>(j - first)];
            const T value = base[i * stride + offsets[static_cast<size_t>(j - first)]];
            double& to = out[i * dims.inner + j];
            if (exclusive) to = state.result();
            state.add(static_cast<double>(widened(value)));
            if (!exclusive) to = state.result();
          }
        }
      });
    }
  });
}

struct SumState {
  double sum = 0;
  void add(double x) { sum += x; }
  double result() const { return sum; }
};
struct ProductState {
  double product = 1;
  void add(double x) { product *= x; }
  double result() const { return product; }
};
struct LogSumState {
  double max = -INFINITY;
  double sum = 0;  // of exp(x - max)
  void add(double x) {
    if (x == -INFINITY) return;
    if (std::isnan(x)) {
      sum = max = x;
    } else if (x > max) {
      sum = (max == -INFINITY ? 0 : sum * std::exp(max - x)) + 1;
      max = x;
    } else {
      sum += x == max ? 1 : std::exp(x - max);
    }
  }
  double result() const { return sum == 0 ? -INFINITY : max + std::log(sum); }
};
struct ExtremumState {
  double value;
  bool least;
  void add(double x) {
    if (std::isnan(x) || (least ? x < value : x > value)) value = x;
  }
  double result() const { return value; }
};
double least_of(DType dtype, bool least) {
  if (is_float(dtype)) return least ? INFINITY : -INFINITY;
  const double edge = dtype == DType::kI32 ? 0x1p31 : 0x1p63;
  return least ? edge - 1 : -edge;  // of i64 2^63, which saturates
}

// ---- Cases ------------------------------------------------------------------------------------

constexpr size_t kDimAt = 0;
constexpr size_t kExclusiveAt = 1;
constexpr size_t kReverseAt = 2;
constexpr size_t kResultDTypeAt = 3;

Case with(Case one, int dim, bool exclusive = false, bool reverse = false) {
  one.attributes[kDimAt] = dim;
  one.attributes[kExclusiveAt] = exclusive;
  one.attributes[kReverseAt] = reverse;
  return one;
}
Case in_i32(Case one) {
  one.attributes[kResultDTypeAt] = Value::choice(0);
  return one;
}

constexpr int64_t kM = int64_t{1} << 20;

// Lines around the widths of accesses, warps, blocks and tiles; rows and columns; from both ends;
// transposed, strided and padded; nothing at all.
std::vector<Case> smoke_cases() {
  return {
      with({.extents = {37}}, -1),
      with({.extents = {600}, .offset = 1}, 0, true, true),
      with({.extents = {3, 200}}, 1, true),
      with({.extents = {40, 32}}, 0, false, true),
      with({.extents = {2, 3, 5}, .offset = 1}, 1),
      with({.extents = {3, 77}, .padding = 1}, 1),
      with({.extents = {3, 77}, .padding = 3}, 1, false, true),  // x in vectors, y not
      with({.extents = {150, 0, 0, 0, 2}}, 0, true, true),
      with({.extents = {150, 3}, .padding = 2}, 0, true),
  };
}
std::vector<Case> verify_cases() {
  return {
      with({.extents = {}}, -1),
      with({.extents = {1}}, -1, true),
      with({.extents = {256}}, -1),
      with({.extents = {1003}, .offset = 1}, 0),
      with({.extents = {16384}}, 0, true),
      with({.extents = {40001}, .offset = 3}, -1, false, true),
      with({.extents = {70000}}, -1, true, true),
      with({.extents = {5, 33}}, 1),
      with({.extents = {33, 260}, .padding = 1}, -1, true, true),
      with({.extents = {40, 256}}, -1, false, true),
      with({.extents = {3, 18000}, .offset = 3}, 1, true),
      with({.extents = {200, 96}}, 0),
      with({.extents = {301, 264}}, 0, true, true),
      with({.extents = {65, 30}}, 0, true),
      with({.extents = {1030, 72}}, 0, true, true),
      with({.extents = {2, 270, 136}, .padding = 8}, 1),
      with({.extents = {3, 90, 64}}, 1, false, true),
      with({.extents = {3, 4, 5}}, 0, true, true),
      with({.extents = {6, 40, 0, 1}}, 0),
      with({.extents = {900, 0, 0, 0, 2}}, 0, true),
      with({.extents = {40003, 0, 0, 0, 2}}, 0, true, true),
      with({.extents = {3, 18001}, .offset = 1, .padding = 1}, 1),
      with({.extents = {2, 18005}, .padding = 3}, 1, true, true),
      with({.extents = {6, 5003}, .padding = 2}, 1, false, true),
      with({.extents = {2, 3, 130, 1}, .padding = 1}, 1, true),
      with({.extents = {301, 37}}, 0, true, true),
      with({.extents = {700, 66}, .offset = 2}, 0),
      with({.extents = {2, 270, 33}, .padding = 3}, 1, true),
      with({.extents = {5000, 3}, .offset = 1}, 0, false, true),
      with({.extents = {kEmpty}}, 0),
      with({.extents = {4, kEmpty}}, 1, true),
      with({.extents = {kEmpty, 4}}, 1),
  };
}
std::vector<Case> bench_cases() {
  return {
      with({.extents = {4096}}, -1),        with({.extents = {kM / 16}}, -1),
      with({.extents = {kM}}, -1),          with({.extents = {16 * kM}}, -1),
      with({.extents = {64 * kM}}, -1),     with({.extents = {256 * kM}}, -1),
      with({.extents = {16384, 16384}}, 1), with({.extents = {16384, 4096}}, 1),
      with({.extents = {262144, 256}}, 1),  with({.extents = {16384, 16384}}, 0),
      with({.extents = {kM, 64}}, 0),
  };
}
bool is_timed(const Tensor& x) {
  return x.elements() >= 4096 && std::has_single_bit(static_cast<uint64_t>(x.elements()));
}

struct Lists {
  std::vector<Case> smoke = smoke_cases();
  std::vector<Case> verify = verify_cases();
  std::vector<Case> bench = bench_cases();

  Cases cases() const { return {smoke, verify, bench}; }
};
// The rungs are templates of the operator: beside sums, each meets every other of the shapes.
Cases common_cases() {
  static const Lists kLists = [] {
    Lists lists;
    size_t shape = 0;
    std::erase_if(lists.verify, [&](const Case&) { return shape++ % 2 == 1; });
    return lists;
  }();
  return kLists.cases();
}
// Every shape, and i32 that stays so.
Cases cases_of_sums() {
  static const Lists kLists = [] {
    Lists lists;
    lists.smoke.push_back(in_i32(with({.extents = {300}}, -1)));
    lists.smoke.push_back(in_i32(with({.extents = {70, 8}}, 0)));
    lists.verify.push_back(in_i32(with({.extents = {33, 264}}, 0, true)));
    lists.verify.push_back(in_i32(with({.extents = {40000}, .offset = 1}, 0, false, true)));
    return lists;
  }();
  return kLists.cases();
}

// ---- Tolerances -------------------------------------------------------------------------------

// The rounding of results of a dtype, and that of the f32 sums behind them.
Tolerance of_floats(const Problem& problem, double floor) {
  const DType dtype = problem.tensor(1).dtype;
  if (!is_float(dtype)) return {};
  double worst = 1e-5;
  if (dtype == DType::kF16) worst = 1e-3;
  if (dtype == DType::kBf16) worst = 8e-3;
  // What a chain of additions loses grows as the root of its length.
  const double chain = 1e-7 * std::sqrt(static_cast<double>(Dims3(problem).count));
  return {.worst = std::max(worst, chain), .floor = floor};
}

}  // namespace

// ---- Of all operations ------------------------------------------------------------------------

void OverDim::make(const Case& chosen, DType dtype, Problem& problem) {
  Tensor x{.dtype = dtype, .rank = 0};
  for (size_t d = 0; d < 3; ++d) {
    if (chosen.extents[d] == 0) continue;
    x.shape[static_cast<size_t>(x.rank++)] = std::max<int64_t>(chosen.extents[d], 0);
  }
  const bool swapped = chosen.extents[3] != 0 && x.rank >= 2;
  int64_t stride = std::max<int64_t>(chosen.extents[4], 1);
  for (int i = x.rank - 1; i >= 0; --i) {
    const int d = swapped && i >= x.rank - 2 ? 2 * x.rank - 3 - i : i;
    x.strides[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(x.extent(d), 1);
    if (i == x.rank - 1) stride += chosen.padding;
  }
  problem.tensor(0) = x;
  // One case stands for all dtypes: where results of i32 cannot be had, the call does without.
  for (size_t i = 0; i < problem.operation->attributes.size(); ++i) {
    if (problem.operation->attributes[i].name == "dtype" && dtype != DType::kI32) {
      problem.attributes[i] = Value::absent();
    }
  }
}

Cost OverDim::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = static_cast<double>(problem.tensor(0).elements())};
}

int64_t OverDim::items(const Problem& problem, const Parameter& /*output*/) {
  return Dims3(problem).outer;
}

// ---- Each -------------------------------------------------------------------------------------

Cases Cumsum::cases() { return cases_of_sums(); }
Tolerance Cumsum::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return of_floats(problem, std::sqrt(static_cast<double>(Dims3(problem).count)));
}
void Cumsum::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  scan_slice(problem, slice, expected[1], SumState{});
}

Cases Cumprod::cases() { return cases_of_sums(); }
Tolerance Cumprod::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return of_floats(problem, 1e-3);
}
void Cumprod::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  scan_slice(problem, slice, expected[1], ProductState{});
}
// About a dozen elements of a line are other than 1 and -1, so that products stay numbers.
void Cumprod::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& x = problem.tensor(index);
  const double rare = 12.0 / static_cast<double>(std::max<int64_t>(Dims3(problem).count, 1));
  fill_with(x, [=, is_number = is_float(x.dtype)](int64_t i) {
    const auto at = static_cast<uint64_t>(i);
    const double sign = random_uniform(seed, at) < 0.5 ? -1 : 1;
    if (random_uniform(seed + 1, at) >= rare) return sign;
    return sign * (is_number ? 0.5 + random_uniform(seed + 2, at) : 2);
  });
}

Cases Logcumsumexp::cases() { return common_cases(); }
Tolerance Logcumsumexp::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return of_floats(problem, 1);
}
void Logcumsumexp::reference(const Problem& problem, Slice slice,
                             std::span<double* const> expected) {
  scan_slice(problem, slice, expected[1], LogSumState{});
}

Cases Extremum::cases() { return common_cases(); }
Tolerance Extremum::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}
// In some small calls NaN, in some infinities. Not where peers are timed.
void Extremum::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& x = problem.tensor(index);
  if (!is_float(x.dtype) || is_timed(x)) return fill_normal_input(problem, index, seed);
  const double rare = 1.0 / static_cast<double>(x.elements() + 1);
  fill_with(x, [=](int64_t i) {
    const auto at = static_cast<uint64_t>(i);
    const double value = random_normal(seed, at);
    if (random_uniform(seed + 1, at) >= rare) return value;
    if (seed % 4 == 0) return static_cast<double>(NAN);
    return seed % 4 == 1 ? std::copysign(INFINITY, value) : value;
  });
}
void ScanMax::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  scan_slice(problem, slice, expected[1],
             ExtremumState{.value = least_of(problem.dtype(), false), .least = false});
}
void ScanMin::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  scan_slice(problem, slice, expected[1],
             ExtremumState{.value = least_of(problem.dtype(), true), .least = true});
}

}  // namespace ws::scan
