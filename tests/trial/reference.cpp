// The trial family's cases, and what must come out, in double precision.
#include <algorithm>
#include <cmath>
#include <limits>

#include "catalogue/fill.hpp"
#include "tests/trial/operations.hpp"

namespace ws::trial {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// All dimensions but the last; of a scalar none.
Tensor without_last(const Tensor& x, DType dtype) {
  require(x.rank >= 1, "x is ", x, ": it has no rows");
  return Tensor::dense(dtype, x.extents().first(static_cast<size_t>(x.rank - 1)));
}

template <class F>
void each(Slice slice, double* expected, const F& f) {
  if (expected == nullptr) return;
  for (int64_t i = slice.first; i < slice.last; ++i) *expected++ = f(i);
}

int64_t columns_of(const Tensor& x) { return x.extent(x.rank - 1); }

// The extents of a reduced tensor's dimension.
bool is_reduced(const Problem& problem, int dim) {
  const Value& value = problem.attribute("dim");
  if (value.is_absent()) return true;
  const int rank = problem.tensor(0).rank;
  const Dims dims = value.as_dims();
  if (std::ranges::empty(dims)) return true;  // as torch's sum
  return std::ranges::any_of(dims, [&](int d) { return (d < 0 ? d + rank : d) == dim; });
}

constexpr Case kCases[] = {
    {.extents = {4, 8}},
    {.extents = {1, 1}},
    {.extents = {0, 8}},
    {.extents = {3, 5}, .offset = 1, .padding = 3},
};

}  // namespace

void Common::make(const Case& chosen, DType dtype, Problem& problem) {
  problem.tensor(0) = Tensor::dense(dtype, {chosen.extents[0], chosen.extents[1]});
  if (chosen.padding > 0) problem.tensor(0).strides[0] += chosen.padding;
}

Cost Common::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = static_cast<double>(problem.tensor(0).elements())};
}

Tolerance Common::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {.relative = 4e-3, .worst = 1.6e-2, .floor = 1e-2};
}

// ---- RowMax -----------------------------------------------------------------------------------

void RowMax::infer(Problem& problem) {
  const Tensor& x = problem.tensor(0);
  problem.tensor(1) = without_last(x, x.dtype);
  problem.tensor(2) = without_last(x, DType::kI64);
  require(columns_of(x) > 0, "row_max of rows without elements: ", x);
}

Cases RowMax::cases() { return {kCases, kCases, kCases}; }

int64_t RowMax::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(1).elements();
}

void RowMax::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& x = problem.tensor(0);
  const int64_t columns = columns_of(x);
  const auto place = [&](int64_t row) {
    int64_t best = 0;
    for (int64_t c = 1; c < columns; ++c) {
      if (element(x, row * columns + c) > element(x, row * columns + best)) best = c;
    }
    return best;
  };
  each(slice, expected[1], [&](int64_t r) { return element(x, r * columns + place(r)); });
  each(slice, expected[2], [&](int64_t r) { return static_cast<double>(place(r)); });
}

// ---- Weigh ------------------------------------------------------------------------------------

void Weigh::make(const Case& chosen, DType dtype, Problem& problem) {
  Common::make(chosen, dtype, problem);
  if (chosen.extents[1] != 5) problem.tensor(1) = Tensor::dense(dtype, {chosen.extents[1]});
}

void Weigh::infer(Problem& problem) {
  const Tensor& x = problem.tensor(0);
  const Tensor& weight = problem.tensor(1);
  const Tensor rows = without_last(x, DType::kF32);
  require(!weight.exists() ||
              (weight.dtype == x.dtype && weight.rank == 1 && weight.extent(0) == columns_of(x)),
          "weight is ", weight, ", x is ", x, ": one value a column, of its dtype");
  problem.tensor(2) = Tensor::like(x);
  problem.tensor(3) = problem.flag("with_total") ? rows : Tensor{};
}

Cases Weigh::cases() {
  static constexpr Case kWeighCases[] = {
      {.extents = {4, 8}},
      {.extents = {4, 8}, .attributes = {true}},
      {.extents = {3, 5}},
      {.extents = {3, 5}, .offset = 1, .padding = 3, .attributes = {true}},
      {.extents = {0, 8}, .attributes = {true}},
  };
  return {kWeighCases, kWeighCases, kWeighCases};
}

int64_t Weigh::items(const Problem& problem, const Parameter& output) {
  return output.name == "y" ? problem.tensor(2).elements() : problem.tensor(3).elements();
}

void Weigh::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& x = problem.tensor(0);
  const Tensor& weight = problem.tensor(1);
  const int64_t columns = columns_of(x);
  const auto y = [&](int64_t i) {
    return element(x, i) * (weight.exists() ? element(weight, i % columns) : 1);
  };
  each(slice, expected[2], y);
  each(slice, expected[3], [&](int64_t r) {
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += y(r * columns + c);
    return sum;
  });
}

// ---- ScaleInPlace -----------------------------------------------------------------------------

Cases ScaleInPlace::cases() { return {kCases, kCases, kCases}; }

int64_t ScaleInPlace::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(0).elements();
}

void ScaleInPlace::reference(const Problem& problem, Slice slice,
                             std::span<double* const> expected) {
  each(slice, expected[0],
       [&](int64_t i) { return element(problem.tensor(0), i) * problem.number("factor"); });
}

// ---- Total ------------------------------------------------------------------------------------

Total::Call Total::call(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  Call call{x, x, problem.tensor(1)};
  call.kept.rank = 0;
  call.reduced.rank = 0;
  for (int d = 0; d < x.rank; ++d) {
    Tensor& part = is_reduced(problem, d) ? call.reduced : call.kept;
    const auto at = static_cast<size_t>(part.rank++);
    part.shape[at] = x.extent(d);
    part.strides[at] = x.stride(d);
  }
  return call;
}

void Total::infer(Problem& problem) {
  const Tensor& x = problem.tensor(0);
  if (const Value& value = problem.attribute("dim"); !value.is_absent()) {
    for (const int d : value.as_dims()) {
      require(d >= -x.rank && d < x.rank, "total over dimension ", d, " of ", x);
    }
  }
  Tensor y;
  y.rank = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (!is_reduced(problem, d))
      y.shape[static_cast<size_t>(y.rank++)] = x.extent(d);
    else if (problem.flag("keepdim"))
      y.shape[static_cast<size_t>(y.rank++)] = 1;
  }
  problem.tensor(1) = Tensor::dense(DType::kF32, y.extents());
}

Cases Total::cases() {
  static constexpr Case kTotalCases[] = {
      {.extents = {4, 8}},
      {.extents = {4, 8}, .attributes = {Dims{-1}}},
      {.extents = {4, 8}, .attributes = {Dims{0}, true}},
      {.extents = {3, 5}, .offset = 1, .padding = 3, .attributes = {Dims{1, 0}, true}},
      {.extents = {3, 0}, .attributes = {Dims{1}}},
  };
  return {kTotalCases, kTotalCases, kTotalCases};
}

int64_t Total::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(1).elements();
}

void Total::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Call call = Total::call(problem);
  each(slice, expected[1], [&](int64_t i) {
    double sum = 0;
    Tensor part = call.reduced;
    part.data = static_cast<char*>(part.data) +
                offset_of(call.kept, i) * static_cast<int64_t>(size_of(part.dtype));
    for (int64_t k = 0; k < part.elements(); ++k) sum += element(part, k);
    return sum;
  });
}

// ---- Shift ------------------------------------------------------------------------------------

void Shift::infer(Problem& problem) {
  require(problem.dtype() == DType::kI64, "shift takes i64, got ", problem.tensor(0));
  problem.tensor(1) = Tensor::like(problem.tensor(0));
}

Cases Shift::cases() {
  static constexpr Case kShiftCases[] = {
      {.extents = {4, 8}, .attributes = {3}},
      {.extents = {3, 5}, .offset = 1, .padding = 3, .attributes = {-7}},
  };
  return {kShiftCases, kShiftCases, kShiftCases};
}

int64_t Shift::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(1).elements();
}

void Shift::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  each(slice, expected[1], [&](int64_t i) {
    return element(problem.tensor(0), i) + static_cast<double>(problem.integer("by"));
  });
}

// ---- Clip -------------------------------------------------------------------------------------

Clip::Call Clip::call(const Problem& problem) {
  const Value& low = problem.attribute("low");
  const Value& high = problem.attribute("high");
  return {problem.tensor(0), problem.tensor(1),
          static_cast<float>(low.is_absent() ? -kInfinity : low.as_float()),
          static_cast<float>(high.is_absent() ? kInfinity : high.as_float())};
}

void Clip::infer(Problem& problem) {
  require(kFloats.has(problem.dtype()), "clip takes f32, f16 and bf16, got ", problem.tensor(0));
  problem.tensor(1) = Tensor::like(problem.tensor(0));
}

Cases Clip::cases() {
  static constexpr Case kClipCases[] = {
      {.extents = {4, 8}},
      {.extents = {4, 8}, .attributes = {-0.5}},
      {.extents = {3, 5}, .offset = 1, .padding = 3, .attributes = {-0.5, 0.25}},
      {.extents = {0, 3}, .attributes = {Value::absent(), 1}},
  };
  return {kClipCases, kClipCases, kClipCases};
}

int64_t Clip::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(1).elements();
}

void Clip::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Call call = Clip::call(problem);
  each(slice, expected[1], [&](int64_t i) {
    return std::min<double>(std::max<double>(element(problem.tensor(0), i), call.low), call.high);
  });
}

// ---- Take -------------------------------------------------------------------------------------

void Take::make(const Case& chosen, DType dtype, Problem& problem) {
  problem.tensor(0) = Tensor::dense(dtype, {chosen.extents[1]});
  problem.tensor(1) = Tensor::dense(DType::kI64, {chosen.extents[0], 2});
}

void Take::infer(Problem& problem) {
  const Tensor& x = problem.tensor(0);
  const Tensor& index = problem.tensor(1);
  require(x.rank == 1 && index.dtype == DType::kI64, "x is ", x, ", index ", index,
          ": one dimension, and i64");
  problem.tensor(2) = Tensor::like(index, x.dtype);
}

Cases Take::cases() {
  static constexpr Case kTakeCases[] = {{.extents = {4, 8}}, {.extents = {0, 8}, .offset = 1}};
  return {kTakeCases, kTakeCases, kTakeCases};
}

int64_t Take::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(2).elements();
}

void Take::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  each(slice, expected[2], [&](int64_t i) {
    const auto at = static_cast<int64_t>(element(problem.tensor(1), i));
    return element(problem.tensor(0), at);
  });
}

void Take::fill(const Problem& problem, int index, uint64_t seed) {
  if (index == 0) return fill_normal(problem.tensor(0), seed);
  const auto count = std::max<uint64_t>(static_cast<uint64_t>(problem.tensor(0).elements()), 1);
  fill_with(problem.tensor(1), [=](int64_t i) {
    return static_cast<double>(random_bits(seed, static_cast<uint64_t>(i)) % count);
  });
}

}  // namespace ws::trial
