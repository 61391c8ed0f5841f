// What the operations are checked against: cases, inputs, double-precision references, tolerances.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/reduce/operations.hpp"

namespace ws::reduce {
namespace {

// ---- References -------------------------------------------------------------------------------

// f(x, r) for elements [first, last) behind an output whose first one is at `base`, in the order of
// the reduced loops.
template <class T, class F>
void for_elements(const Reduction& call, int input, int64_t base, int64_t first, int64_t last,
                  const F& f) {
  if (first >= last) return;
  const auto* data = call.input<T>(input) + base;
  const auto k = static_cast<size_t>(input);
  std::array<int64_t, kMaxRank> step{};  // of each loop
  int64_t rest = first;
  int64_t offset = 0;
  for (int d = call.reduced_loops - 1; d >= 0; --d) {
    const Loop& loop = call.reduced[static_cast<size_t>(d)];
    step[static_cast<size_t>(d)] = rest % loop.extent;
    offset += rest % loop.extent * loop.strides[k];
    rest /= loop.extent;
  }
  for (int64_t r = first; r < last; ++r) {
    f(static_cast<double>(widened(data[offset])), r);
    for (int d = call.reduced_loops - 1; d >= 0; --d) {
      const Loop& loop = call.reduced[static_cast<size_t>(d)];
      offset += loop.strides[k];
      if (++step[static_cast<size_t>(d)] < loop.extent) break;
      offset -= loop.extent * loop.strides[k];
      step[static_cast<size_t>(d)] = 0;
    }
  }
}

// A bool is a byte on the host too.
template <class T>
using StoredAs = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

// Totals of the slice's outputs. A Total has add(x, place), merge(other) and result(). Long rows go
// over all cores, in pieces that are merged in order.
template <class Total>
void reduce_slice(const Reduction& call, Slice slice, double* expected, const Total& none) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const int64_t pieces = std::max<int64_t>(1, (call.count + kPiece - 1) / kPiece);
  with_type<kEveryDType>(call.dtype, [&]<class T>() {
    for (int64_t output = slice.first; output < slice.last; ++output) {
      int64_t base = 0;
      int64_t rest = output;
      for (int d = call.kept_loops - 1; d >= 0; --d) {
        const Loop& loop = call.kept[static_cast<size_t>(d)];
        base += rest % loop.extent * loop.strides[0];
        rest /= loop.extent;
      }
      std::vector<Total> totals(static_cast<size_t>(pieces), none);
      parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
        for (int64_t p = first; p < last; ++p) {
          Total& total = totals[static_cast<size_t>(p)];
          for_elements<StoredAs<T>>(call, 0, base, p * kPiece,
                                    std::min(call.count, (p + 1) * kPiece),
                                    [&](double x, int64_t place) { total.add(x, place); });
        }
      });
      for (size_t p = 1; p < totals.size(); ++p) totals[0].merge(totals[p]);
      expected[output - slice.first] = totals[0].result();
    }
  });
}

struct SumTotal {
  double sum = 0;
  void add(double x, int64_t /*place*/) { sum += x; }
  void merge(const SumTotal& other) { sum += other.sum; }
  double result() const { return sum; }
};
struct MeanTotal {
  double count = 0;
  SumTotal total = {};
  void add(double x, int64_t place) { total.add(x, place); }
  void merge(const MeanTotal& other) { total.merge(other.total); }
  double result() const { return total.sum / count; }
};
struct NormTotal {
  VectorNorm::Order order;
  double total = 0;
  void add(double x, int64_t /*place*/) {
    if (order == VectorNorm::Order::kTwo) {
      total += x * x;
    } else if (order == VectorNorm::Order::kOne) {
      total += std::abs(x);
    } else if (!(std::abs(x) <= total) && !std::isnan(total)) {
      total = std::abs(x);
    }
  }
  void merge(const NormTotal& other) {
    if (order != VectorNorm::Order::kInfinity) {
      total += other.total;
    } else {
      add(other.total, 0);
    }
  }
  double result() const { return order == VectorNorm::Order::kTwo ? std::sqrt(total) : total; }
};
struct ProductTotal {
  double product = 1;
  void add(double x, int64_t /*place*/) { product *= x; }
  void merge(const ProductTotal& other) { product *= other.product; }
  double result() const { return product; }
};
// The first largest, or smallest; a NaN before any number; 0 above -0.
struct ExtremumTotal {
  bool least = false;
  bool wants_place = false;
  double value = 0;
  int64_t place = -1;
  void add(double x, int64_t at) {
    const bool better = least ? x < value : x > value;
    const bool zero = x == 0 && value == 0 && std::signbit(x) == least && !wants_place;
    if (place < 0 || better || zero || (std::isnan(x) && !std::isnan(value))) {
      value = x;
      place = at;
    }
  }
  void merge(const ExtremumTotal& other) {
    if (other.place >= 0 && !std::isnan(value)) add(other.value, other.place);
  }
  double result() const { return wants_place ? static_cast<double>(place) : value; }
};
struct TestTotal {
  bool all = false;
  bool found = false;  // of any: other than 0; of all: 0
  void add(double x, int64_t /*place*/) { found = found || (x != 0) != all; }
  void merge(const TestTotal& other) { found = found || other.found; }
  double result() const { return found != all ? 1 : 0; }
};

// ---- Inputs -----------------------------------------------------------------------------------

uint64_t at(int64_t i) { return static_cast<uint64_t>(i); }

bool is_timed(int64_t elements);

// Numbers with equals among them; in some small calls NaN, in some infinities. Not where peers are
// timed, some of which leave NaN open.
void fill_extremes(const Problem& problem, int index, uint64_t seed) {
  const Tensor& x = problem.tensor(index);
  if (!is_float(x.dtype)) return fill_normal_input(problem, index, seed);
  const double rare = 2.0 / static_cast<double>(x.elements() + 1);
  const bool is_small = x.elements() < 60000 && !is_timed(x.elements());
  fill_with(x, [=](int64_t i) {
    const double value = std::round(random_normal(seed, at(i)) * 16) / 16;
    if (!is_small || random_uniform(seed + 1, at(i)) >= rare) return value;
    if (seed % 4 == 0) return static_cast<double>(NAN);
    return seed % 4 == 1 ? std::copysign(INFINITY, value) : value;
  });
}

// About one of the elements behind an output is `odd`, all others are 0, or anything but 0.
void fill_tests(const Problem& problem, int index, uint64_t seed, bool all) {
  const Tensor& x = problem.tensor(index);
  const Tensor& y = problem.tensor(1);
  const double rare =
      static_cast<double>(y.elements()) / static_cast<double>(std::max<int64_t>(x.elements(), 1));
  const bool is_number = is_float(x.dtype);
  fill_with(x, [=](int64_t i) {
    const bool odd = random_uniform(seed, at(i)) < rare;
    const double zero = is_number && i % 3 == 0 ? -0.0 : 0.0;
    const double other = is_number && i % 5 == 0 ? NAN : is_number ? -0.5 : 1;
    return odd != all ? other : zero;
  });
}

// ---- Cases ------------------------------------------------------------------------------------

// A case whose attributes the operation places.
struct Shape {
  std::array<int64_t, kMaxExtents> extents;
  bool all = true;  // dimensions
  Dims dim = {};
  bool keepdim = false;
  int offset = 0;
  int64_t padding = 0;
};

// Whole tensors around the widths of accesses, warps and blocks; rows and columns; parts; subsets
// of four dimensions; transposed, strided and padded; nothing at all.
constexpr Shape kSmokeShapes[] = {
    {.extents = {37}},
    {.extents = {6, 48}, .all = false, .dim = {1}, .keepdim = true},
    {.extents = {20, 32}, .all = false, .dim = {0}},
    {.extents = {2, 3, 4, 5}, .all = false, .dim = {0, 2}},
    {.extents = {3, 2, 32}, .all = false, .dim = {0, 2}},
    {.extents = {3, 4, 5}, .all = false, .dim = {1}, .offset = 1},
};
constexpr Shape kVerifyShapes[] = {
    {.extents = {1}},
    {.extents = {256}},
    {.extents = {1003}, .offset = 1},
    {.extents = {34000}},
    {.extents = {5, 33}, .all = false, .dim = {1}},
    {.extents = {40, 256}, .all = false, .dim = {-1}, .padding = 1},
    {.extents = {3, 18000}, .all = false, .dim = {1}, .keepdim = true, .offset = 3},
    {.extents = {200, 96}, .all = false, .dim = {0}},
    {.extents = {65, 30}, .all = false, .dim = {0}, .keepdim = true},
    {.extents = {3, 30, 64}, .all = false, .dim = {1}},
    {.extents = {3, 4, 5, 6}, .all = false, .dim = {0, 2}},
    {.extents = {37, 5, 112}, .all = false, .dim = {0, 2}},
    {.extents = {3, 4, 5, 6}, .all = false, .dim = {-1, 1}, .keepdim = true},
    {.extents = {6, 40, 0, 0, 1}, .all = false, .dim = {0}},
    {.extents = {9000, 0, 0, 0, 0, 2}},
};
// What only the sum is verified on: the same code for all.
constexpr Shape kSumShapes[] = {
    {.extents = {}},
    {.extents = {7}, .offset = 3},
    {.extents = {32}},
    {.extents = {255}},
    {.extents = {300, 5}, .all = false, .dim = {1}},
    {.extents = {17, 1000}, .all = false, .dim = {1}, .offset = 1},
    {.extents = {70, 520}, .all = false, .dim = {0}},
    {.extents = {3, 4, 5, 6}, .all = false, .dim = {2, 3}},
    {.extents = {3, 4, 5, 6}, .all = false, .dim = {0, 1}, .keepdim = true},
    {.extents = {3, 4, 5, 6}, .all = false, .dim = {0, 3}},
    {.extents = {40, 64, 0, 0, 1}},
    {.extents = {5, 40, 0, 0, 1}, .all = false, .dim = {1}},
    {.extents = {12, 20, 0, 0, 0, 3}, .all = false, .dim = {1}, .padding = 5},
    {.extents = {1, 1, 8}, .all = false, .dim = {0, 1}},
    {.extents = {4, 8}, .all = false, .dim = {}},
};
constexpr Shape kEmptyShapes[] = {
    {.extents = {kEmpty}},
    {.extents = {4, kEmpty}, .all = false, .dim = {1}},
    {.extents = {kEmpty, 4}, .all = false, .dim = {1}, .keepdim = true},
};
constexpr int64_t kM = int64_t{1} << 20;
constexpr Shape kBenchShapes[] = {
    {.extents = {1024}},
    {.extents = {4096}},
    {.extents = {kM / 16}},
    {.extents = {kM}},
    {.extents = {16 * kM}},
    {.extents = {64 * kM}},
    {.extents = {256 * kM}},
    {.extents = {16384, 16384}, .all = false, .dim = {1}},
    {.extents = {16384, 16384}, .all = false, .dim = {0}},
    {.extents = {16384, 4096}, .all = false, .dim = {1}},
    {.extents = {262144, 256}, .all = false, .dim = {1}},
    {.extents = {32, 256, 3136}, .all = false, .dim = {0, 2}},
    {.extents = {64, 128, 1000}, .all = false, .dim = {0, 2}},
};

bool is_timed(int64_t elements) {
  return std::ranges::any_of(
      kBenchShapes, [&](const Shape& shape) { return shape.all && shape.extents[0] == elements; });
}

struct Wants {
  bool empty = true;  // has a value for no elements
  bool many = true;   // takes several dimensions
  bool thorough = false;
  size_t first = 0;  // place of `dim` among the attributes; keepdim follows
};

void append(std::vector<Case>& cases, std::span<const Shape> shapes, const Wants& wants) {
  for (const Shape& shape : shapes) {
    if (!shape.all && !wants.many && shape.dim.count != 1) continue;
    Case one{.extents = shape.extents, .offset = shape.offset, .padding = shape.padding};
    if (!shape.all) one.attributes[wants.first] = shape.dim;
    one.attributes[wants.first + 1] = shape.keepdim;
    cases.push_back(one);
  }
}

struct Lists {
  explicit Lists(const Wants& wants) {
    append(smoke, kSmokeShapes, wants);
    append(verify, kVerifyShapes, wants);
    if (wants.thorough) append(verify, kSumShapes, wants);
    append(verify, std::span(kEmptyShapes).subspan(wants.empty ? 0 : 2), wants);
    append(bench, kBenchShapes, wants);
  }
  // Some cases once more with another value of an attribute.
  void repeat(size_t attribute, const Value& value, std::initializer_list<int64_t> lengths,
              bool also_smoke = true) {
    for (const int64_t length : lengths) {
      Case one{.extents = {length}};
      one.attributes[attribute] = value;
      verify.push_back(one);
      if (also_smoke && length < 3000) smoke.push_back(one);
    }
  }
  Cases cases() const { return {smoke, verify, bench}; }

  std::vector<Case> smoke;
  std::vector<Case> verify;
  std::vector<Case> bench;
};

// ---- Tolerances -------------------------------------------------------------------------------

// Of sums of `count` numbers of size 1: their own rounding, and that of f32 accumulators on the way
// of a sum whose terms cancel.
Tolerance of_sums(const Problem& problem, const Tensor& output, double scale) {
  if (!is_float(output.dtype)) return {};
  const Tensor& x = problem.tensor(0);
  const double count = static_cast<double>(x.elements()) /
                       static_cast<double>(std::max<int64_t>(1, output.elements()));
  double worst = 1e-5;
  if (output.dtype == DType::kF64) worst = 1e-13;
  if (output.dtype == DType::kF16) worst = 1e-3;
  if (output.dtype == DType::kBf16) worst = 8e-3;
  return {.worst = worst, .floor = scale * std::sqrt(std::max(count, 1.0))};
}
void allow_reduced_precision(const Problem& problem, Tolerance& tolerance) {
  if (!problem.flag("allow_reduced_precision")) return;
  if (problem.dtype() == DType::kBf16) tolerance.worst = std::max(tolerance.worst, 3e-2);
  if (size_of(problem.dtype()) <= 2 && problem.dtype() != DType::kBf16) {
    tolerance.worst = std::max(tolerance.worst, 1e-2);
  }
}

}  // namespace

// ---- Of all operations over dimensions --------------------------------------------------------

void OverDims::make(const Case& chosen, DType dtype, Problem& problem) {
  Tensor x{.dtype = dtype, .rank = 0};
  for (size_t d = 0; d < 4; ++d) {
    if (chosen.extents[d] == 0) continue;
    x.shape[static_cast<size_t>(x.rank++)] = std::max<int64_t>(chosen.extents[d], 0);
  }
  const bool swapped = chosen.extents[4] != 0 && x.rank >= 2;
  int64_t stride = std::max<int64_t>(chosen.extents[5], 1);
  for (int i = x.rank - 1; i >= 0; --i) {
    const int d = swapped && i >= x.rank - 2 ? 2 * x.rank - 3 - i : i;
    x.strides[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(x.extent(d), 1);
    if (i == x.rank - 1) stride += chosen.padding;
  }
  problem.tensor(0) = x;
  // One case stands for all dtypes: where `dtype` cannot be had, the call does without.
  for (size_t i = 0; i < problem.operation->attributes.size(); ++i) {
    if (problem.operation->attributes[i].name != "dtype" || problem.attributes[i].is_absent()) {
      continue;
    }
    const bool float_wanted = problem.attributes[i].as_choice() == 0;
    const bool holds = float_wanted ? is_float(dtype) && dtype != DType::kF64
                                    : kIntegers.has(dtype) && dtype != DType::kI64;
    if (!holds) problem.attributes[i] = Value::absent();
  }
}

Cost OverDims::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = static_cast<double>(problem.tensor(0).elements())};
}

int64_t OverDims::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(1).elements();
}

// ---- Each -------------------------------------------------------------------------------------

Cases Sum::cases() {
  static const Lists kLists = [] {
    Lists lists({.thorough = true});
    lists.repeat(2, Value::choice(0), {300, 5000});   // f32 of f16
    lists.repeat(2, Value::choice(1), {300, 40000});  // i32 of i8
    lists.repeat(3, true, {1, 300, 4096, 20000});
    return lists;
  }();
  return kLists.cases();
}
Tolerance Sum::tolerance(const Problem& problem, const Parameter& /*output*/) {
  Tolerance tolerance = of_sums(problem, problem.tensor(1), 1);
  allow_reduced_precision(problem, tolerance);
  return tolerance;
}
void Sum::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  reduce_slice(call(problem), slice, expected[1], SumTotal{});
}

Cases Mean::cases() {
  static const Lists kLists{Wants{}};
  return kLists.cases();
}
Tolerance Mean::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const double count = static_cast<double>(problem.tensor(0).elements()) /
                       static_cast<double>(std::max<int64_t>(1, problem.tensor(1).elements()));
  return of_sums(problem, problem.tensor(1), 1 / std::max(count, 1.0));
}
void Mean::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Call mean = call(problem);
  reduce_slice(mean, slice, expected[1], MeanTotal{static_cast<double>(mean.count)});
}

Cases Prod::cases() {
  static const Lists kLists{Wants{.many = false}};
  return kLists.cases();
}
Tolerance Prod::tolerance(const Problem& problem, const Parameter& /*output*/) {
  Tolerance tolerance = of_sums(problem, problem.tensor(1), 1);
  if (tolerance.worst != 0) tolerance.floor = 1e-3;
  return tolerance;
}
void Prod::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  reduce_slice(call(problem), slice, expected[1], ProductTotal{});
}
// About a dozen elements behind an output are other than 1 and -1, so that products stay numbers.
void Prod::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& x = problem.tensor(index);
  const double rare = 12 * static_cast<double>(problem.tensor(1).elements()) /
                      static_cast<double>(std::max<int64_t>(x.elements(), 1));
  const bool is_number = is_float(x.dtype);
  const bool is_unsigned = x.dtype == DType::kU8 || x.dtype == DType::kBool;
  fill_with(x, [=](int64_t i) {
    const double sign = !is_unsigned && random_uniform(seed, at(i)) < 0.5 ? -1 : 1;
    if (random_uniform(seed + 1, at(i)) >= rare) return sign;
    return sign * (is_number ? 0.5 + random_uniform(seed + 2, at(i)) : 2);
  });
}

Cases Extremum::cases() {
  static const Lists kLists{Wants{.empty = false}};
  return kLists.cases();
}
Tolerance Extremum::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}
void Extremum::fill(const Problem& problem, int index, uint64_t seed) {
  fill_extremes(problem, index, seed);
}
void Amax::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  reduce_slice(call(problem), slice, expected[1], ExtremumTotal{});
}
void Amin::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  reduce_slice(call(problem), slice, expected[1], ExtremumTotal{.least = true});
}

Cases ArgExtremum::cases() {
  static const Lists kLists{Wants{.empty = false, .many = false}};
  return kLists.cases();
}
Tolerance ArgExtremum::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}
void ArgExtremum::fill(const Problem& problem, int index, uint64_t seed) {
  fill_extremes(problem, index, seed);
}
void Argmax::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  reduce_slice(call(problem), slice, expected[1], ExtremumTotal{.wants_place = true});
}
void Argmin::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  reduce_slice(call(problem), slice, expected[1],
               ExtremumTotal{.least = true, .wants_place = true});
}

Cases Test::cases() {
  static const Lists kLists{Wants{}};
  return kLists.cases();
}
Tolerance Test::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) { return {}; }
void Any::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  reduce_slice(call(problem), slice, expected[1], TestTotal{});
}
void Any::fill(const Problem& problem, int index, uint64_t seed) {
  fill_tests(problem, index, seed, false);
}
void All::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  reduce_slice(call(problem), slice, expected[1], TestTotal{.all = true});
}
void All::fill(const Problem& problem, int index, uint64_t seed) {
  fill_tests(problem, index, seed, true);
}

Cases VectorNorm::cases() {
  static const Lists kLists = [] {
    Lists lists({.empty = false, .first = 1});
    lists.repeat(0, 1.0, {300, 40000});
    lists.repeat(0, static_cast<double>(INFINITY), {300, 40000});
    return lists;
  }();
  return kLists.cases();
}
Tolerance VectorNorm::tolerance(const Problem& problem, const Parameter& /*output*/) {
  if (problem.number("ord") == INFINITY) return {};
  Tolerance tolerance = of_sums(problem, problem.tensor(1), 1);
  tolerance.floor = 1e-3;
  return tolerance;
}
void VectorNorm::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Call norm = call(problem);
  reduce_slice(norm, slice, expected[1], NormTotal{.order = norm.order});
}

// ---- The dot product --------------------------------------------------------------------------

void Dot::make(const Case& chosen, DType dtype, Problem& problem) {
  const int64_t step = std::max<int64_t>(chosen.extents[1], 1);
  for (int i = 0; i < 2; ++i) {
    Tensor& vector = problem.tensor(i);
    vector = Tensor{.dtype = dtype, .rank = 1};
    vector.shape[0] = chosen.extents[0];
    vector.strides[0] = i == 0 ? step : 1;
  }
}
Cases Dot::cases() {
  constexpr size_t kReduced = 0;
  static const auto kWith = [](Case one) {
    one.attributes[kReduced] = true;
    return one;
  };
  static const std::vector<Case> kSmoke = {
      {.extents = {37}}, {.extents = {600}}, {.extents = {300, 2}}, kWith({.extents = {600}})};
  static const std::vector<Case> kVerify = {{.extents = {0}},
                                            {.extents = {1}},
                                            {.extents = {8}},
                                            {.extents = {255}},
                                            {.extents = {1003}, .offset = 1},
                                            {.extents = {5000}},
                                            {.extents = {40001}},
                                            {.extents = {9000, 3}},
                                            kWith({.extents = {1}}),
                                            kWith({.extents = {2048}}),
                                            kWith({.extents = {20001}, .offset = 1})};
  static const std::vector<Case> kBench = {
      {.extents = {1024}}, {.extents = {kM}}, {.extents = {16 * kM}}, {.extents = {128 * kM}}};
  return {kSmoke, kVerify, kBench};
}
Cost Dot::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 2 * static_cast<double>(problem.tensor(0).elements())};
}
Tolerance Dot::tolerance(const Problem& problem, const Parameter& /*output*/) {
  Tolerance tolerance = of_sums(problem, problem.tensor(2), 1);
  allow_reduced_precision(problem, tolerance);
  return tolerance;
}
int64_t Dot::items(const Problem& /*problem*/, const Parameter& /*output*/) { return 1; }
void Dot::reference(const Problem& problem, Slice /*slice*/, std::span<double* const> expected) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const Call dot = call(problem);
  std::vector<double> sums(static_cast<size_t>((dot.count + kPiece - 1) / kPiece));
  with_type<kDTypes>(dot.dtype, [&]<class T>() {
    const auto [a_stride, b_stride] = dot.reduced[0].strides;
    parallel_for(static_cast<int64_t>(sums.size()), 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        for (int64_t i = p * kPiece; i < std::min(dot.count, (p + 1) * kPiece); ++i) {
          sums[static_cast<size_t>(p)] +=
              static_cast<double>(widened(dot.input<T>(0)[i * a_stride])) *
              static_cast<double>(widened(dot.input<T>(1)[i * b_stride]));
        }
      }
    });
  });
  *expected[2] = 0;
  for (const double sum : sums) *expected[2] += sum;
}

}  // namespace ws::reduce
