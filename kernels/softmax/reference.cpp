// Softmax's cases, cost, tolerance and references in double precision.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/softmax/operations.hpp"

namespace ws::softmax {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

int64_t columns_of(const Problem& problem) {
  const Tensor& first = problem.tensor(0);
  return first.rank == 0 ? 1 : first.extent(first.rank - 1);
}

// ---- References -------------------------------------------------------------------------------

using Row = std::vector<double>;

// f(i) for each element of a row.
template <class F>
Row row_of(size_t columns, const F& f) {
  Row row(columns);
  for (size_t i = 0; i < columns; ++i) row[i] = f(i);
  return row;
}

Row softmax(const Row& x) {
  double max = -kInf;
  for (const double v : x) max = std::fmax(max, v);
  double sum = 0;
  for (const double v : x) sum += std::exp(v - max);
  return row_of(x.size(), [&](size_t i) { return std::exp(x[i] - max) / sum; });
}

Row log_softmax(const Row& x) {
  double max = -kInf;
  for (const double v : x) max = std::fmax(max, v);
  double sum = 0;
  for (const double v : x) sum += std::exp(v - max);
  return row_of(x.size(), [&](size_t i) { return x[i] - max - std::log(sum); });
}

Row softmax_backward(const Row& grad, const Row& output) {
  double total = 0;
  for (size_t i = 0; i < grad.size(); ++i) total += grad[i] * output[i];
  return row_of(grad.size(), [&](size_t i) { return (grad[i] - total) * output[i]; });
}

Row log_softmax_backward(const Row& grad, const Row& output) {
  double total = 0;
  for (const double g : grad) total += g;
  return row_of(grad.size(), [&](size_t i) { return grad[i] - std::exp(output[i]) * total; });
}

// Writes f(row...) for each row of the slice, a row of each of `tensors` (a mask's as 0 and 1).
template <class F, class... Index>
void by_row(const Problem& problem, Slice slice, std::span<double* const> expected, const F& f,
            Index... tensors) {
  const int64_t columns = columns_of(problem);
  double* out = expected[problem.operation->parameters.size() - 1];
  for (int64_t r = slice.first; r < slice.last; ++r) {
    const auto row = [&](int k) {
      const Tensor tensor = broadcast(problem.tensor(k), problem.tensor(0));
      return row_of(static_cast<size_t>(columns), [&](size_t i) {
        return element(tensor, r * columns + static_cast<int64_t>(i));
      });
    };
    out = std::ranges::copy(f(row(tensors)...), out).out;
  }
}

// ---- Cost and tolerance -----------------------------------------------------------------------

// Forward: subtract, exponential, add, scale; backward: multiply, add, subtract, multiply.
Cost cost_of(const Problem& problem, double flops) {
  const auto elements = static_cast<double>(problem.tensor(0).elements());
  if (elements == 0) return {};  // nor is a mask read
  return {.bytes = least_traffic(problem), .flops = flops * elements};
}

// Half a unit in the last place of the output's dtype, and some units of f32 for what precedes it,
// which add up like a random walk where one thread sums a row. Probabilities of a long row, about
// 1 / N, and gradients, which a scale makes smaller still, are subnormal in f16: an error of up to
// 2^-25 each. The floor is where outputs become subnormal; logarithms and gradients are
// differences, whose error is that of terms of the order of 1.
Tolerance tolerance_of(const Problem& problem, bool differences, double scale = 1) {
  const auto columns = static_cast<double>(columns_of(problem));
  const double shrinks = std::clamp<double>(std::abs(scale), 1e-3, 1.0);
  const double walk = 0x1p-24 * std::sqrt(columns);
  switch (problem.dtype()) {
    case DType::kF32:
      return {.relative = 2e-6 + walk, .worst = 2e-5 + walk, .floor = differences ? 1.0 : 1e-30};
    case DType::kF16:
      return {.relative = 1e-3 + 0x1p-24 * columns / shrinks,
              .worst = 2e-3,
              .floor = differences ? 1.0 : 1e-4};
    default: return {.relative = 6e-3, .worst = 8e-3, .floor = differences ? 1.0 : 1e-30};
  }
}

// ---- Inputs -----------------------------------------------------------------------------------

// Standard normal where `tame`; else, where there are rows enough, some hold what breaks a careless
// softmax: masks, NaN, infinities, huge numbers.
constexpr int kSpecialRows = 10;  // with two that are not
void fill_forward(const Problem& problem, uint64_t seed, bool tame) {
  const Tensor& tensor = problem.tensor(0);
  const int64_t columns = columns_of(problem);
  // The difference of two must still be finite in the dtype.
  const double huge = tensor.dtype == DType::kF16 ? 3e4 : 1.5e38;
  fill_with(tensor, [=](int64_t i) {
    const double normal = random_normal(seed, static_cast<uint64_t>(i));
    if (tame) return normal;
    const int64_t column = i % columns;
    const uint64_t choice = random_bits(seed + 1, static_cast<uint64_t>(i));
    // Rows that are NaN lie between rows that are not, which must stay so.
    switch (i / columns % kSpecialRows) {
      case 1: return choice % 4 == 0 ? -kInf : normal;
      case 2: return column >= columns / 2 && column > 0 ? -kInf : normal;  // a causal mask's row
      case 3: return -kInf;
      case 4: return 1000 + normal;
      case 5: return column == columns / 2 ? std::numeric_limits<double>::quiet_NaN() : normal;
      case 6: return -1000 + normal;
      case 7: return column == columns / 3 ? kInf : normal;
      case 8: return (choice % 2 == 0 ? 1 : -1) * huge;
      default: return normal;
    }
  });
}

// A gradient, or an output of the forward: a probability, or the logarithm of one.
void fill_backward(const Problem& problem, int index, uint64_t seed, bool logarithm) {
  const auto columns = static_cast<double>(columns_of(problem));
  fill_with(problem.tensor(index), [=](int64_t i) {
    if (index == 0) return random_normal(seed, static_cast<uint64_t>(i));
    const double log = -4 * random_uniform(seed, static_cast<uint64_t>(i)) - std::log(columns + 1);
    return logarithm ? log : std::exp(log);
  });
}

// Leaves three of four elements, and of some rows none, all, or the first half.
void fill_mask(const Tensor& mask, int64_t columns, uint64_t seed) {
  fill_with(without_repeats(mask), [=](int64_t i) {
    switch (i / columns % 8) {
      case 2: return 0.0;
      case 3: return i % columns <= columns / 2 ? 1.0 : 0.0;
      case 4: return 1.0;
      default: return random_bits(seed, static_cast<uint64_t>(i)) % 4 > 0 ? 1.0 : 0.0;
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

// Few elements, each path of each rung: no row, narrower than a vector, one warp, several; odd.
constexpr Case kSmoke[] = {
    {.extents = {2, 33}, .attributes = {true}},
    {.extents = {10, 64}},
    {.extents = {3, 1000}},
    {.extents = {3, 34000}},  // several blocks of a cluster
    {.extents = {24, 37, 2, 0, 1}},
};
constexpr Case bounded(int64_t rows, int64_t columns) {
  return {.extents = {rows, columns}, .attributes = {true}};
}
// Only rungs of softmax have a thread take a row, 128 of them a block, and one of them needs tame
// rows. Other rungs have these widths below.
constexpr Case kTameVerify[] = {
    bounded(9, 2),
    bounded(129, 64),
    bounded(10, 1024),
};
constexpr Case kOtherVerify[] = {
    // Every special row (of 10), around the widths of a vector, a warp and a block's stride; where
    // a block takes up to 16 rows also more than that.
    {.extents = {17, 1}},
    {.extents = {10, 2}},
    {.extents = {17, 7}},
    {.extents = {10, 8}},
    {.extents = {17, 31}},
    {.extents = {17, 32}},
    {.extents = {33, 33}},
    {.extents = {17, 64}},
    {.extents = {10, 127}},
    {.extents = {17, 128}},
    {.extents = {10, 129}},
    {.extents = {10, 256}},
    {.extents = {10, 257}},
    {.extents = {10, 1024}},
    {.extents = {10, 1032}},
    {.extents = {10, 2053}},
    {.extents = {10, 4096}},
    {.extents = {2, 4104}},
    {.extents = {2, 8191}},
    // Where the tables of the upper rungs change their mind.
    {.extents = {3, 16384}},
    {.extents = {2, 16392}},
    {.extents = {2, 32776}},
    {.extents = {1, 65536}},
    {.extents = {1, 100003}},
    {.extents = {1, 262144}},
    // Without special rows, so that rungs without the maximum take part.
    bounded(5, 97),
    bounded(3, 1031),
    // Nothing to do.
    {.extents = {0, 16}},
    {.extents = {4, 0}},
    // Rows that do not start on a vector, rows with gaps between, a transposed tensor, both, gaps
    // in the rows.
    {.extents = {10, 128}, .offset = 1},
    {.extents = {10, 1001}, .offset = 3},
    {.extents = {10, 256}, .padding = 8},
    {.extents = {10, 250}, .padding = 6},
    {.extents = {10, 2048}, .padding = 3},
    {.extents = {5, 96, 3}},
    {.extents = {7, 35, 2}, .offset = 1, .padding = 5},
    {.extents = {10, 40, 0, 3}},
    // Columns: held by a thread each, by 64 below each other, longer; matrices, gaps; odd.
    {.extents = {264, 5, 2, 0, 1}},
    {.extents = {24, 1001, 2, 0, 1}, .padding = 8},
    {.extents = {16, 8301, 0, 0, 1}},
    {.extents = {24, 2100, 2, 0, 1}, .padding = 8},
    {.extents = {35, 300, 2, 0, 1}, .offset = 1},
    {.extents = {200, 9, 0, 0, 1}, .padding = 3},
};
constexpr auto kVerify = [] {
  std::array<Case, std::size(kTameVerify) + std::size(kOtherVerify)> all{};
  std::ranges::copy(kOtherVerify, std::ranges::copy(kTameVerify, all.begin()).out);
  return all;
}();

// Gradients have no special rows: enough for a block that takes several (16 of up to 64 columns),
// and of odd widths one for each distance from a vector.
constexpr Case kBackwardSmoke[] = {
    {.extents = {2, 33}},    {.extents = {5, 64}},           {.extents = {3, 1000}},
    {.extents = {2, 34000}}, {.extents = {24, 37, 2, 0, 1}},
};
constexpr Case kBackwardVerify[] = {
    {.extents = {17, 1}},
    {.extents = {5, 2}},
    {.extents = {37, 4}},
    {.extents = {17, 7}},
    {.extents = {5, 8}},
    {.extents = {130, 16}},
    {.extents = {17, 31}},
    {.extents = {17, 32}},
    {.extents = {33, 33}},
    {.extents = {17, 64}},
    {.extents = {9, 97}},
    {.extents = {9, 127}},
    {.extents = {17, 128}},
    {.extents = {9, 129}},
    {.extents = {17, 256}},
    {.extents = {9, 257}},
    {.extents = {5, 1024}},
    {.extents = {3, 1031}},
    {.extents = {5, 1032}},
    {.extents = {9, 2053}},
    {.extents = {5, 4096}},
    {.extents = {2, 4104}},
    {.extents = {2, 8191}},
    {.extents = {3, 16384}},
    {.extents = {2, 16392}},
    {.extents = {2, 32776}},
    {.extents = {1, 65536}},
    {.extents = {1, 100003}},
    {.extents = {1, 262144}},
    {.extents = {0, 16}},
    {.extents = {4, 0}},
    {.extents = {9, 128}, .offset = 1},
    {.extents = {9, 1001}, .offset = 3},
    {.extents = {9, 256}, .padding = 8},
    {.extents = {5, 250}, .padding = 6},
    {.extents = {9, 2048}, .padding = 3},
    {.extents = {5, 96, 3}},
    {.extents = {7, 35, 2}, .offset = 1, .padding = 5},
    {.extents = {5, 40, 0, 3}},
    // Columns: held by a thread each, by 64 below each other, longer; matrices, gaps; odd.
    {.extents = {264, 5, 2, 0, 1}},
    {.extents = {24, 1001, 2, 0, 1}, .padding = 8},
    {.extents = {16, 2701, 0, 0, 1}},
    {.extents = {35, 300, 2, 0, 1}, .offset = 1},
    {.extents = {200, 9, 0, 0, 1}, .padding = 3},
};
// Large enough to leave the caches, and for long rows also to have many rows for every SM.
constexpr Case kBench[] = {
    bounded(262144, 256),  bounded(65536, 1024), bounded(16384, 4096),
    bounded(16384, 16384), bounded(4096, 65536), bounded(1024, 262144),
};

constexpr Case masked(std::array<int64_t, kMaxExtents> extents, double scale = 0.125,
                      double fill = -10000) {
  return {.extents = extents, .attributes = {scale, fill}};
}
constexpr Case kMaskedSmoke[] = {
    masked({2, 33, 3}),
    masked({10, 64}, -0.5, -1),
    masked({3, 1000}),
    masked({2, 34000}),
};
constexpr Case at(Case chosen, int offset, int64_t padding) {
  chosen.offset = offset;
  chosen.padding = padding;
  return chosen;
}
constexpr Case kMaskedVerify[] = {
    // Every special row (of 10) and every kind of mask (of 5 rows), around the widths of a vector,
    // a warp, a block; where heads share the mask, they start alike on a vector.
    masked({17, 1}),
    masked({8, 7, 3}, 1, -1),
    masked({10, 8}, 0),
    masked({37, 4}),
    masked({130, 16}),
    masked({33, 33, 2}),
    masked({7, 128, 3}, -0.5, 0),
    masked({10, 129}, 0.125, -kInf),
    masked({5, 1024, 2}, 0.125, -kInf),
    masked({5, 1032, 2}),
    masked({10, 2053}, 1, 0.5),
    masked({4, 8191, 2}),
    masked({3, 16384}),
    masked({2, 16392, 2}),
    masked({1, 65536}),
    masked({1, 100003}),
    masked({1, 262144}, 0.125, -kInf),
    // Nothing to do.
    masked({0, 16}),
    masked({4, 0}),
    // Rows that do not start on a vector, rows with gaps between, gaps in the rows.
    at(masked({10, 128}), 1, 0),
    at(masked({8, 1001, 2}), 3, 0),
    at(masked({5, 256, 2}), 0, 8),
    at(masked({7, 250, 3}), 5, 6),
    at(masked({10, 2048}), 0, 3),
    at(masked({4, 20001}, -0.5), 3, 0),
    masked({10, 40, 0, 3}),
};
// Attention's scores, 512 MiB of f32 or more; the heads share the mask.
constexpr Case kMaskedBench[] = {
    masked({512, 256, 1024}),
    masked({1024, 1024, 128}),
    masked({4096, 4096, 16}),
    masked({16384, 16384}),
};

// A tensor of the case, its dimension of `outer` (where there is one) innermost or outermost of the
// rows.
Tensor laid_out(const Case& chosen, DType dtype, bool interleaved) {
  const auto [rows, columns, outer, chosen_step, down, unused1, unused2, unused3] = chosen.extents;
  const int64_t step = std::max<int64_t>(chosen_step, 1);
  if (down != 0) {
    const int64_t pitch = rows + chosen.padding;
    Tensor tensor = Tensor::dense(dtype, {std::max<int64_t>(outer, 1), rows, columns});
    tensor.strides = {pitch * columns, 1, pitch};
    return tensor;
  }
  const int64_t pitch = columns * step + chosen.padding;
  if (outer == 0) {
    Tensor tensor = Tensor::dense(dtype, {rows, columns});
    tensor.strides = {pitch, step};
    return tensor;
  }
  Tensor tensor = Tensor::dense(dtype, {outer, rows, columns});
  tensor.strides = {interleaved ? pitch : pitch * rows, interleaved ? pitch * outer : pitch, step};
  return tensor;
}

}  // namespace

// ---- What the operations share ----------------------------------------------------------------

int64_t Common::items(const Problem& problem, const Parameter& /*output*/) {
  const Tensor& first = problem.tensor(0);
  int64_t rows = 1;
  for (int d = 0; d + 1 < first.rank; ++d) rows *= first.extent(d);
  return rows;
}

void Unmasked::make(const Case& chosen, DType dtype, Problem& problem) {
  const size_t inputs = problem.operation->parameters.size() - 1;
  for (size_t k = 0; k < inputs; ++k) problem.tensors[k] = laid_out(chosen, dtype, true);
  // An output as an owner of such memory would bring.
  if (chosen.extents[4] != 0) problem.tensors[inputs] = laid_out(chosen, dtype, true);
}
Cost Unmasked::cost(const Problem& problem) { return cost_of(problem, 4); }

void Masked::make(const Case& chosen, DType dtype, Problem& problem) {
  const size_t mask = problem.operation->parameters.size() - 2;
  for (size_t k = 0; k < mask; ++k) problem.tensors[k] = laid_out(chosen, dtype, false);
  Case shared = chosen;
  shared.extents[2] = 0;
  problem.tensors[mask] = laid_out(shared, DType::kBool, false);
}
Cases Masked::cases() { return {kMaskedSmoke, kMaskedVerify, kMaskedBench}; }
Cost Masked::cost(const Problem& problem) { return cost_of(problem, 5); }

// ---- The operations ---------------------------------------------------------------------------

void Softmax::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  by_row(problem, slice, expected, softmax, 0);
}
Tolerance Softmax::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of(problem, false);
}
void Softmax::fill(const Problem& problem, int /*index*/, uint64_t seed) {
  fill_forward(problem, seed, problem.flag("bounded"));
}

Cases Softmax::cases() { return {kSmoke, kVerify, kBench}; }

void LogSoftmax::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  by_row(problem, slice, expected, log_softmax, 0);
}
Tolerance LogSoftmax::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of(problem, true);
}
void LogSoftmax::fill(const Problem& problem, int /*index*/, uint64_t seed) {
  fill_forward(problem, seed, problem.flag("bounded"));
}

Cases LogSoftmax::cases() { return {kSmoke, kOtherVerify, kBench}; }

void ScaleMaskSoftmax::reference(const Problem& problem, Slice slice,
                                 std::span<double* const> expected) {
  const double scale = static_cast<float>(problem.number("scale"));
  const double fill = static_cast<float>(problem.number("fill"));
  const auto masked = [&](const Row& x, const Row& mask) {
    return softmax(row_of(x.size(), [&](size_t i) { return mask[i] != 0 ? scale * x[i] : fill; }));
  };
  by_row(problem, slice, expected, masked, 0, 1);
}
Tolerance ScaleMaskSoftmax::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of(problem, false);
}
void ScaleMaskSoftmax::fill(const Problem& problem, int index, uint64_t seed) {
  if (index == 1) return fill_mask(problem.tensor(1), columns_of(problem), seed);
  fill_forward(problem, seed, false);
}

void SoftmaxBackward::reference(const Problem& problem, Slice slice,
                                std::span<double* const> expected) {
  by_row(problem, slice, expected, softmax_backward, 0, 1);
}
Tolerance SoftmaxBackward::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of(problem, true);
}
void SoftmaxBackward::fill(const Problem& problem, int index, uint64_t seed) {
  fill_backward(problem, index, seed, false);
}

Cases SoftmaxBackward::cases() { return {kBackwardSmoke, kBackwardVerify, kBench}; }

void LogSoftmaxBackward::reference(const Problem& problem, Slice slice,
                                   std::span<double* const> expected) {
  by_row(problem, slice, expected, log_softmax_backward, 0, 1);
}
Tolerance LogSoftmaxBackward::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of(problem, true);
}
void LogSoftmaxBackward::fill(const Problem& problem, int index, uint64_t seed) {
  fill_backward(problem, index, seed, true);
}

Cases LogSoftmaxBackward::cases() { return {kBackwardSmoke, kBackwardVerify, kBench}; }

void ScaleMaskSoftmaxBackward::reference(const Problem& problem, Slice slice,
                                         std::span<double* const> expected) {
  const double scale = static_cast<float>(problem.number("scale"));
  const auto masked = [&](const Row& grad, const Row& output, const Row& mask) {
    const Row dx = softmax_backward(grad, output);
    return row_of(dx.size(), [&](size_t i) { return mask[i] != 0 ? scale * dx[i] : 0; });
  };
  by_row(problem, slice, expected, masked, 0, 1, 2);
}
Tolerance ScaleMaskSoftmaxBackward::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of(problem, true, problem.number("scale"));
}
void ScaleMaskSoftmaxBackward::fill(const Problem& problem, int index, uint64_t seed) {
  if (index == 2) return fill_mask(problem.tensor(2), columns_of(problem), seed);
  fill_backward(problem, index, seed, false);
}

}  // namespace ws::softmax
