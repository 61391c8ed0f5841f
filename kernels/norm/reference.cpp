// layer_norm and rms_norm on the host in double precision, and what rungs are checked on.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catalogue/fill.hpp"
#include "catalogue/row_cases.hpp"
#include "kernels/norm/operations.hpp"

namespace ws::norm {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int64_t columns_of(const Problem& problem) {
  const Tensor& first = problem.tensor(0);
  return first.extent(first.rank - 1);
}
int64_t rows_of(const Problem& problem) {
  const Tensor& first = problem.tensor(0);
  int64_t rows = 1;
  for (int d = 0; d < first.rank - 1; ++d) rows *= first.extent(d);
  return rows;
}
// Where the values of an output go; null: nobody asks.
double* target_of(const Problem& problem, std::span<double* const> expected,
                  std::string_view name) {
  const int at = problem.operation->index_of(name);
  return at < 0 ? nullptr : expected[static_cast<size_t>(at)];
}
double element_or(const Tensor& tensor, int64_t index, double standard) {
  return tensor.exists() ? element(tensor, index) : standard;
}

struct Statistics {
  double mean = 0;  // 0 where nothing is subtracted
  double rstd = 0;
};
Statistics statistics_of(std::span<const double> row, bool centred, double eps) {
  const auto columns = static_cast<double>(row.size());
  Statistics s;
  if (centred) {
    for (const double v : row) s.mean += v;
    s.mean /= columns;
  }
  double squares = 0;
  for (const double v : row) squares += (v - s.mean) * (v - s.mean);
  s.rstd = 1 / std::sqrt(squares / columns + eps);
  return s;
}

// x + residual in f32, rounded to the dtype.
double rounded_sum(DType dtype, double x, double residual) {
  const float sum = static_cast<float>(x) + static_cast<float>(residual);
  return with_type<kFloats>(dtype,
                            [&]<class T>() -> double { return to_float(from_float<T>(sum)); });
}

// ---- Cases ------------------------------------------------------------------------------------

// Of a case of strided rows the columns' tensors are strided too.
Tensor columns_tensor(const Case& chosen, DType dtype) {
  Tensor tensor = Tensor::dense(dtype, {chosen.extents[1]});
  tensor.strides[0] = std::max<int64_t>(chosen.extents[3], 1);
  return tensor;
}
DType parameter_dtype(const Case& chosen, DType dtype) {
  return chosen.extents[4] == kF32 ? DType::kF32 : dtype;
}
bool has_weight(const Case& chosen) {
  return chosen.extents[4] != kNothing && chosen.extents[4] != kBiasOnly;
}
bool has_bias(const Case& chosen) {
  return chosen.extents[4] != kNothing && chosen.extents[4] != kWeightOnly;
}

constexpr Case forward(std::array<int64_t, kMaxExtents> extents, bool stats = false,
                       bool prenorm = false) {
  Case chosen{.extents = extents};
  chosen.attributes[1] = stats;
  chosen.attributes[2] = prenorm;
  return chosen;
}
constexpr Case in_f16(int64_t rows, int64_t columns, int64_t operands = kWeightAndBias) {
  Case chosen{.extents = {rows, columns, 0, 0, operands}};
  chosen.attributes[3] = true;
  return chosen;
}
constexpr Case placed(Case chosen, int offset, int64_t padding) {
  chosen.offset = offset;
  chosen.padding = padding;
  return chosen;
}

constexpr Case kForwardSmoke[] = {
    forward({2, 33}),         in_f16(3, 64),
    forward({5, 1000}, true), forward({3, 264, 0, 0, kF32, 1}, true, true),
    forward({3, 34000}),  // several blocks of a cluster
};
constexpr Case kForwardVerify[] = {
    // Every special row, around the widths of a vector, a warp and a block's stride.
    forward({17, 1}),
    forward({16, 2}, true),
    forward({17, 7}),
    forward({16, 8}),
    forward({31, 31}),
    forward({33, 32}, true),
    forward({16, 33}, false),
    forward({17, 64}),
    forward({16, 96}, true),
    forward({16, 128}),
    forward({16, 129}),
    forward({16, 248}),
    forward({33, 256}),
    forward({15, 257}),
    forward({16, 512}),
    forward({16, 768}, true),
    forward({16, 1024}),
    forward({16, 1032}),
    forward({16, 2053}),
    forward({14, 2560}),
    forward({14, 4096}, true),
    forward({2, 4104}),
    forward({3, 8192}),
    forward({2, 8191}),
    // Where the upper rungs change their shape.
    forward({2, 12288}),
    forward({2, 16384}),
    forward({2, 16392}, true),
    forward({2, 32776}),
    forward({2, 65536}),
    forward({1, 100003}),
    forward({2, 100008}),
    forward({1, 262144}),
    // What a call may leave out, or have beside x.
    forward({9, 40, 0, 0, kNothing}),
    forward({9, 48, 0, 0, kWeightOnly}),
    forward({9, 56, 0, 0, kBiasOnly}, true),
    forward({9, 72, 0, 0, kF32}),
    forward({16, 1024, 0, 0, kF32}, true),
    forward({9, 10240, 0, 0, kF32}),
    forward({1, 65536, 0, 0, kF32}, true),
    forward({7, 16384, 0, 0, kNothing}),
    forward({9, 136, 0, 0, kWeightAndBias, 1}),
    forward({9, 1024, 0, 0, kWeightAndBias, 1}, true, true),
    forward({9, 4096, 0, 0, kWeightOnly, 1}, false, true),
    forward({2, 16384, 0, 0, kNothing, 1}, true, true),
    forward({1, 65536, 0, 0, kWeightAndBias, 1}, false, true),
    forward({7, 37, 0, 0, kF32, 1}, true, true),
    // Sums in f16.
    in_f16(9, 2),
    in_f16(5, 97),
    in_f16(65, 64, kNothing),
    in_f16(3, 1032),
    in_f16(17, 1024),
    in_f16(2, 8192),
    // Nothing to do.
    forward({0, 16}, true),
    forward({4, 0}, true),
    // Rows that do not start on a vector, gaps between rows, a transposed tensor, gaps in the rows.
    placed(forward({16, 128}), 1, 0),
    placed(forward({16, 1001}, true), 3, 0),
    placed(forward({16, 256}), 0, 8),
    placed(forward({16, 250}), 0, 6),
    placed(forward({16, 2048, 0, 0, kWeightAndBias, 1}, true, true), 0, 3),
    forward({5, 96, 3}, true),
    placed(forward({7, 35, 2}), 1, 5),
    forward({16, 40, 0, 3, kWeightAndBias, 1}, true, true),
};
// Large enough to leave the caches, and for long rows also to have many rows for every SM.
constexpr Case kForwardBench[] = {
    forward({262144, 256}),
    forward({65536, 1024}),
    forward({16384, 4096}),
    forward({8192, 8192}),
    forward({4096, 16384}),
    forward({4096, 65536}),
    forward({1024, 262144}),
    forward({16384, 4096, 0, 0, kF32}),
    forward({4096, 65536, 0, 0, kF32}),
    forward({16384, 4096, 0, 0, kWeightAndBias, 1}, true, true),
    in_f16(65536, 1024),
};

constexpr Case backward(std::array<int64_t, kMaxExtents> extents) { return {.extents = extents}; }

constexpr Case kBackwardSmoke[] = {
    backward({3, 33}),   backward({21, 128}),  backward({5, 64, 0, 0, 0, 1}),
    backward({3, 1000}), backward({3, 20000}),
};
constexpr Case kBackwardVerify[] = {
    backward({17, 1}),
    backward({16, 2}),
    backward({17, 7, 0, 0, 0, 1}),
    backward({33, 8}),
    backward({31, 31}),
    backward({67, 32, 0, 0, 0, 1}),
    backward({40, 33}),
    backward({130, 64}),
    backward({16, 128, 0, 0, 0, 1}),
    backward({15, 129}),
    backward({35, 256}),
    backward({35, 256, 0, 0, 0, 1}),
    backward({16, 264}),
    backward({19, 512}),
    backward({19, 768}),
    backward({19, 1024, 0, 0, 0, 1}),
    backward({11, 1032}),
    backward({5, 2053}),
    backward({14, 2048}),
    backward({14, 4096}),
    backward({14, 4096, 0, 0, 0, 1}),
    backward({5, 5120}),
    backward({9, 8192}),
    backward({3, 8191, 0, 0, 0, 1}),
    backward({3, 16384}),
    backward({3, 16392}),
    backward({3, 32768}),
    backward({1, 32768, 0, 0, 0, 1}),
    backward({2, 65536}),
    backward({1, 100003}),
    backward({1, 131072}),
    backward({1, 262144}),
    // What a call may leave out, or have in f32.
    backward({9, 40, 0, 0, kNothing}),
    backward({9, 48, 0, 0, kWeightOnly}),
    backward({9, 56, 0, 0, kBiasOnly, 1}),
    backward({9, 72, 0, 0, kF32}),
    backward({9, 1024, 0, 0, kF32}),
    backward({9, 1024, 0, 0, kNothing}),
    backward({3, 10240, 0, 0, kF32}),
    // Many rows for each block.
    backward({1500, 64}),
    backward({200, 1024}),
    // Nothing to do, or sums of nothing.
    backward({0, 16}),
    backward({4, 0}),
    placed(backward({16, 128}), 1, 0),
    placed(backward({16, 256}), 0, 8),
    placed(backward({16, 2048}), 0, 3),
    backward({5, 96, 3}),
    placed(backward({7, 35, 2, 0, 0, 1}), 1, 5),
    backward({16, 40, 0, 3}),
};
constexpr Case kBackwardBench[] = {
    backward({262144, 256}),
    backward({65536, 1024}),
    backward({16384, 4096}),
    backward({8192, 8192}),
    backward({4096, 32768}),
    backward({4096, 65536}),
    backward({1024, 262144}),
    backward({16384, 4096, 0, 0, kF32}),
    backward({16384, 4096, 0, 0, kWeightAndBias, 1}),
};

// Rounding of a result, in the measures of Tolerance.
Tolerance of_rounding(DType dtype) {
  switch (dtype) {
    case DType::kF16: return {.relative = 1e-3, .worst = 2e-3, .floor = 1};
    case DType::kBf16: return {.relative = 6e-3, .worst = 8e-3, .floor = 1};
    default: return {.relative = 2e-6, .worst = 1e-5, .floor = 1};
  }
}

}  // namespace

// ---- Forward ----------------------------------------------------------------------------------

template <bool kCentred>
void Forward<kCentred>::make(const Case& chosen, DType dtype, Problem& problem) {
  problem["x"] = rows_tensor(chosen, dtype);
  const DType parameters = parameter_dtype(chosen, dtype);
  if (has_weight(chosen)) problem["weight"] = columns_tensor(chosen, parameters);
  if constexpr (kCentred) {
    if (has_bias(chosen)) problem["bias"] = columns_tensor(chosen, parameters);
  }
  if (chosen.extents[5] != 0) problem["residual"] = rows_tensor(chosen, dtype);
  // Outputs that an owner of such memory would bring.
  if (chosen.padding > 0 && chosen.extents[2] == 0) problem["y"] = rows_tensor(chosen, dtype);
}

template <bool kCentred>
Cases Forward<kCentred>::cases() {
  return {.smoke = kForwardSmoke, .verify = kForwardVerify, .bench = kForwardBench};
}

template <bool kCentred>
Cost Forward<kCentred>::cost(const Problem& problem) {
  // Sum, centre, square, scale, shift; of rms_norm square and scale.
  const double flops = kCentred ? 7 : 4;
  return {.bytes = least_traffic(problem),
          .flops = flops * static_cast<double>(problem["x"].elements())};
}

// Results are differences scaled to the order of 1. A thread that sums a row by itself errs like a
// random walk; rows far from 0, which fill() has, lose what their distance takes: 100 is 2^7.
template <bool kCentred>
Tolerance Forward<kCentred>::tolerance(const Problem& problem, const Parameter& output) {
  const auto columns = static_cast<double>(columns_of(problem));
  const double walk = 0x1p-24 * std::sqrt(columns);
  if (output.name == "sum") return {};
  if (problem.flag("acc_f16")) return {.relative = 2e-2, .worst = 3e-2, .floor = 1};
  const double distance = kCentred ? 100 * walk : walk;
  if (output.name == "mean") return {.relative = 1e-6 + walk, .worst = 1e-5 + distance, .floor = 1};
  if (output.name == "rstd") {
    return {.relative = 1e-5 + walk, .worst = 2e-5 + distance, .floor = 1e-3};
  }
  Tolerance tolerance = of_rounding(problem.dtype());
  tolerance.relative += distance / 2;
  tolerance.worst += 2 * distance;
  return tolerance;
}

template <bool kCentred>
int64_t Forward<kCentred>::items(const Problem& problem, const Parameter& /*output*/) {
  return rows_of(problem);
}

template <bool kCentred>
void Forward<kCentred>::reference(const Problem& problem, Slice slice,
                                  std::span<double* const> expected) {
  const int64_t columns = columns_of(problem);
  const Tensor& x = problem["x"];
  const Tensor& residual = problem["residual"];
  const Tensor& weight = problem["weight"];
  const Tensor& bias = problem.find("bias");
  double* y = target_of(problem, expected, "y");
  double* mean = target_of(problem, expected, "mean");
  double* rstd = target_of(problem, expected, "rstd");
  double* sum = target_of(problem, expected, "sum");
  std::vector<double> row(static_cast<size_t>(columns));
  for (int64_t r = slice.first; r < slice.last; ++r) {
    const int64_t out = r - slice.first;
    for (int64_t i = 0; i < columns; ++i) {
      double v = element(x, r * columns + i);
      if (residual.exists()) v = rounded_sum(x.dtype, v, element(residual, r * columns + i));
      row[static_cast<size_t>(i)] = v;
      if (sum != nullptr) sum[out * columns + i] = v;
    }
    const Statistics s = statistics_of(row, kCentred, problem.number("eps"));
    if (mean != nullptr) mean[out] = s.mean;
    if (rstd != nullptr) rstd[out] = s.rstd;
    if (y == nullptr) continue;
    for (int64_t i = 0; i < columns; ++i) {
      const double z = (row[static_cast<size_t>(i)] - s.mean) * s.rstd;
      y[out * columns + i] = z * element_or(weight, i, 1) + element_or(bias, i, 0);
    }
  }
}

// Standard normal numbers; where there are rows enough, some hold what breaks a careless norm: a
// mean far above the deviation, no deviation, NaN, infinities, large and small numbers.
template <bool kCentred>
void Forward<kCentred>::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const int64_t columns = columns_of(problem);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  const auto normal = [seed](int64_t i) { return random_normal(seed, static_cast<uint64_t>(i)); };
  if (name == "weight") {
    fill_with(tensor, [&](int64_t i) { return 1 + 0.25 * normal(i); });
  } else if (name == "bias") {
    fill_with(tensor, [&](int64_t i) { return 0.25 * normal(i); });
  } else if (name == "residual" || problem.flag("acc_f16")) {
    fill_with(tensor, normal);
  } else {
    const bool stats = problem.flag("stats");  // what the mean of infinities is nobody says
    // Two or three numbers at 100 may differ by anything, and so may be what is lost.
    const double far = columns < 8 ? 0 : 100;
    fill_with(tensor, [&](int64_t i) {
      const int64_t column = i % columns;
      switch (i / columns % 16) {
        case 1: return far + normal(i);
        case 3: return 0.0;
        case 5: return 2.0;
        case 7: return column == columns / 2 ? kNaN : normal(i);
        case 9: return column == columns / 3 && !stats ? kInf : normal(i);
        case 11: return 1e-3 * normal(i);
        case 13: return 1e3 * normal(i);
        case 14: return normal(i) - far;
        default: return normal(i);
      }
    });
  }
}

// ---- Backward ---------------------------------------------------------------------------------

template <bool kCentred>
void Backward<kCentred>::make(const Case& chosen, DType dtype, Problem& problem) {
  problem["grad"] = rows_tensor(chosen, dtype);
  problem["x"] = rows_tensor(chosen, dtype);
  if (has_weight(chosen)) {
    problem["weight"] = columns_tensor(chosen, parameter_dtype(chosen, dtype));
  }
  if (chosen.extents[5] == 0) {
    const Tensor& x = problem["x"];
    const Tensor statistic =
        Tensor::dense(DType::kF32, x.extents().first(static_cast<size_t>(x.rank - 1)));
    problem["rstd"] = statistic;
    if constexpr (kCentred) problem["mean"] = statistic;
  }
  if constexpr (kCentred) {
    if (has_bias(chosen)) problem.attributes[1] = true;
  }
  if (chosen.padding > 0 && chosen.extents[2] == 0) problem["dx"] = rows_tensor(chosen, dtype);
}

template <bool kCentred>
Cases Backward<kCentred>::cases() {
  return {.smoke = kBackwardSmoke, .verify = kBackwardVerify, .bench = kBackwardBench};
}

template <bool kCentred>
Cost Backward<kCentred>::cost(const Problem& problem) {
  const double flops = kCentred ? 12 : 8;
  return {.bytes = least_traffic(problem),
          .flops = flops * static_cast<double>(problem["x"].elements())};
}

// Sums over rows are of the order of the root of their number, and err in proportion to it.
template <bool kCentred>
Tolerance Backward<kCentred>::tolerance(const Problem& problem, const Parameter& output) {
  const double row_walk = 0x1p-24 * std::sqrt(static_cast<double>(columns_of(problem)));
  const auto rows = static_cast<double>(std::max<int64_t>(rows_of(problem), 1));
  if (output.name == "dx") {
    Tolerance tolerance = of_rounding(problem.dtype());
    tolerance.relative += 4 * row_walk;
    tolerance.worst += 30 * row_walk;
    // Of so few columns terms of the size of rstd cancel to what eps leaves of them.
    if (columns_of(problem) <= (kCentred ? 2 : 1)) {
      tolerance.relative = 0;
      tolerance.worst += 2e-4;
    }
    return tolerance;
  }
  const Tensor& weight = problem["weight"];
  Tolerance tolerance = of_rounding(weight.exists() ? weight.dtype : problem.dtype());
  tolerance.relative += 0x1p-24 * std::sqrt(rows) + 10 * row_walk;
  tolerance.worst += 4 * 0x1p-24 * std::sqrt(rows) + 50 * row_walk;
  tolerance.floor = std::sqrt(rows);
  // The sums of a few columns may all cancel: then their norm is no measure.
  if (columns_of(problem) < 64) tolerance.relative = 0;
  return tolerance;
}

// A sum over rows is not computed in parts: each needs the statistics of all rows.
template <bool kCentred>
int64_t Backward<kCentred>::items(const Problem& problem, const Parameter& output) {
  return output.name == "dx" ? rows_of(problem) : 1;
}

template <bool kCentred>
void Backward<kCentred>::reference(const Problem& problem, Slice slice,
                                   std::span<double* const> expected) {
  const int64_t columns = columns_of(problem);
  const Tensor& grad = problem["grad"];
  const Tensor& x = problem["x"];
  const Tensor& weight = problem["weight"];
  const Tensor& mean = problem.find("mean");
  const Tensor& rstd = problem["rstd"];
  double* dx = target_of(problem, expected, "dx");
  double* dweight = target_of(problem, expected, "dweight");
  double* dbias = target_of(problem, expected, "dbias");
  const bool sums = dweight != nullptr || dbias != nullptr;
  for (double* total : {dweight, dbias}) {
    if (total != nullptr) std::fill_n(total, columns, 0.0);
  }
  std::vector<double> z(static_cast<size_t>(columns));
  std::vector<double> g(static_cast<size_t>(columns));
  const Slice rows = sums ? Slice{0, rows_of(problem)} : slice;
  for (int64_t r = rows.first; r < rows.last; ++r) {
    for (size_t i = 0; i < z.size(); ++i) {
      const int64_t at = r * columns + static_cast<int64_t>(i);
      z[i] = element(x, at);
      g[i] = element(grad, at);
    }
    const Statistics s = rstd.exists() ? Statistics{element_or(mean, r, 0), element(rstd, r)}
                                       : statistics_of(z, kCentred, problem.number("eps"));
    double sum = 0;      // of grad * weight
    double product = 0;  // of grad * weight * z
    for (size_t i = 0; i < z.size(); ++i) {
      z[i] = (z[i] - s.mean) * s.rstd;
      if (dweight != nullptr) dweight[i] += g[i] * z[i];
      if (dbias != nullptr) dbias[i] += g[i];
      g[i] *= element_or(weight, static_cast<int64_t>(i), 1);
      sum += g[i];
      product += g[i] * z[i];
    }
    if (dx == nullptr) continue;
    const double shift = kCentred ? sum / static_cast<double>(columns) : 0;
    const double slope = product / static_cast<double>(columns);
    for (size_t i = 0; i < z.size(); ++i) {
      dx[(r - slice.first) * columns + static_cast<int64_t>(i)] =
          (g[i] - shift - z[i] * slope) * s.rstd;
    }
  }
}

// The statistics need not be those of x: gradients are formulas in both.
template <bool kCentred>
void Backward<kCentred>::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  const auto normal = [seed](int64_t i) { return random_normal(seed, static_cast<uint64_t>(i)); };
  if (name == "weight") {
    fill_with(tensor, [&](int64_t i) { return 1 + 0.25 * normal(i); });
  } else if (name == "mean") {
    fill_with(tensor, [&](int64_t i) { return 0.25 * normal(i); });
  } else if (name == "rstd") {
    fill_with(tensor,
              [&](int64_t i) { return 0.5 + random_uniform(seed, static_cast<uint64_t>(i)); });
  } else {
    fill_with(tensor, normal);
  }
}

template struct Forward<true>;
template struct Forward<false>;
template struct Backward<true>;
template struct Backward<false>;

}  // namespace ws::norm
