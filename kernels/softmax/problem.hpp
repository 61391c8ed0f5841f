// Softmax: what every rung of the family computes, and how it is checked.
//
//   softmax       y[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))
//   log_softmax   y[i] = x[i] - max(x) - log(sum(exp(x - max(x))))
//
// over the last dimension, and the gradients of both. As in torch, -inf is a masked element, a row
// of nothing else is NaN, and a NaN or +inf makes its row NaN.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "catalogue/fill.hpp"
#include "catalogue/peers/cudnn.hpp"

namespace ws::softmax {

enum class Kind { kSoftmax, kLogSoftmax, kSoftmaxBackward, kLogSoftmaxBackward };
inline Kind kind_of(const Problem& problem);  // by its place in kOperations, below
inline bool is_backward(Kind kind) {
  return kind == Kind::kSoftmaxBackward || kind == Kind::kLogSoftmaxBackward;
}

// ---- Rows -------------------------------------------------------------------------------------

inline constexpr int kMaxOperands = 3;  // tensors of a call
inline constexpr int kMaxOuter = kMaxRank - 1;

// Where the rows of a call's tensors lie: element (row, i) of operand k is at
// offset(k, row) + i * inner[k]. Outer dimensions that all operands walk through evenly are one.
struct Layout {
  int64_t rows = 1;
  int64_t columns = 1;
  int operands = 0;
  int outer = 0;  // dimensions
  std::array<int64_t, kMaxOuter> extents{};
  std::array<std::array<int64_t, kMaxOuter>, kMaxOperands> strides{};
  std::array<int64_t, kMaxOperands> inner{};
};

inline Layout layout_of(const Problem& problem) {
  Layout layout;
  const Tensor& shape = problem.tensor(0);
  layout.operands = problem.tensor_count;
  const int last = shape.rank - 1;
  if (last >= 0) layout.columns = shape.shape[static_cast<size_t>(last)];
  for (int k = 0; k < layout.operands; ++k) {
    const auto operand = static_cast<size_t>(k);
    // A row of one element has no stride of its own: torch leaves any number there.
    layout.inner[operand] =
        layout.columns > 1 ? problem.tensor(k).strides[static_cast<size_t>(last)] : 1;
  }
  for (size_t d = 0; static_cast<int>(d) < last; ++d) {
    const int64_t extent = shape.shape[d];
    layout.rows *= extent;
    if (extent == 1) continue;
    bool even = layout.outer > 0;
    for (int k = 0; k < layout.operands && even; ++k) {
      even = layout.strides[static_cast<size_t>(k)][static_cast<size_t>(layout.outer - 1)] ==
             problem.tensor(k).strides[d] * extent;
    }
    if (!even) layout.extents[static_cast<size_t>(layout.outer++)] = 1;
    const auto at = static_cast<size_t>(layout.outer - 1);
    layout.extents[at] *= extent;
    for (int k = 0; k < layout.operands; ++k) {
      layout.strides[static_cast<size_t>(k)][at] = problem.tensor(k).strides[d];
    }
  }
  return layout;
}

// ---- The operations ---------------------------------------------------------------------------

inline void infer(Problem& problem) {
  const Tensor& x = problem.tensor(0);
  // Not require(): describing tensors that fit would cost more than all the rest of a call.
  if (!kFloats.has(x.dtype)) [[unlikely]] {
    throw InvalidArgument(
        concatenate(problem.operation->name, " takes f32, f16 and bf16, got ", x.describe()));
  }
  const int output = problem.tensor_count - 1;
  for (int k = 1; k < output; ++k) {
    const Tensor& other = problem.tensor(k);
    if (other.dtype == x.dtype && other.rank == x.rank &&
        std::equal(x.shape.begin(), x.shape.begin() + x.rank, other.shape.begin())) [[likely]] {
      continue;
    }
    const std::span<const Parameter> parameters = problem.operation->parameters;
    throw InvalidArgument(
        concatenate(problem.operation->name, ": '", parameters[0].name, "' is ", x.describe(),
                    " but '", parameters[static_cast<size_t>(k)].name, "' is ", other.describe()));
  }
  problem.tensor(output) =
      Tensor::dense(x.dtype, std::span<const int64_t>(x.shape.data(), static_cast<size_t>(x.rank)));
}

// Extents are rows, columns, then what makes a tensor awkward: `outer` > 0 puts a dimension before
// the rows that lies between them in memory (a transposed tensor); `step` > 1 leaves gaps between
// the elements of a row.
inline Problem make(const Operation& operation, const Case& chosen, DType dtype) {
  const auto [rows, columns, outer, chosen_step] = chosen.extents;
  const int64_t step = std::max<int64_t>(chosen_step, 1);
  const int64_t pitch = columns * step + chosen.padding;
  Problem problem;
  problem.operation = &operation;
  if (chosen.has_attributes) problem.attributes = chosen.attributes;
  for (const Parameter& parameter : operation.parameters) {
    if (parameter.output) continue;
    Tensor& tensor = problem.tensor(problem.tensor_count++);
    if (outer > 0) {
      tensor = Tensor::dense(dtype, {outer, rows, columns});
      tensor.strides[0] = pitch;
      tensor.strides[1] = pitch * outer;
      tensor.strides[2] = step;
    } else {
      tensor = Tensor::dense(dtype, {rows, columns});
      tensor.strides[0] = pitch;
      tensor.strides[1] = step;
    }
  }
  return problem;
}

inline int64_t items(const Problem& problem) { return layout_of(problem).rows; }

inline Cost cost(const Problem& problem) {
  const auto elements = static_cast<double>(problem.tensor(0).elements());
  const auto size = static_cast<double>(size_of(problem.tensor(0).dtype));
  // Forward: subtract, exponential, add, scale; backward: multiply, add, subtract, multiply.
  return {.bytes = elements * size * problem.tensor_count, .flops = 4 * elements};
}

// Half a unit in the last place of the output's dtype, and some units of f32 for what precedes it,
// which add up like a random walk where one thread sums a row. Probabilities of a long row, about
// 1 / N, are subnormal in f16: an error of up to 2^-25 each. The floor is where outputs become
// subnormal; logarithms and gradients are differences, whose error is that of terms of the order
// of 1.
inline Tolerance tolerance(const Problem& problem) {
  const bool differences = kind_of(problem) != Kind::kSoftmax;
  const auto columns = static_cast<double>(layout_of(problem).columns);
  const double walk = 0x1p-24 * std::sqrt(columns);
  switch (problem.tensor(0).dtype) {
    case DType::kF32:
      return {.relative = 2e-6 + walk, .worst = 2e-5 + walk, .floor = differences ? 1.0 : 1e-30};
    case DType::kF16:
      return {
          .relative = 1e-3 + 0x1p-24 * columns, .worst = 2e-3, .floor = differences ? 1.0 : 1e-4};
    default: return {.relative = 6e-3, .worst = 8e-3, .floor = differences ? 1.0 : 1e-30};
  }
}

inline void reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Kind kind = kind_of(problem);
  const int64_t columns = layout_of(problem).columns;
  std::vector<double> row(static_cast<size_t>(columns));
  for (int64_t r = slice.first; r < slice.last; ++r) {
    double* out = expected[0] + (r - slice.first) * columns;
    const auto input = [&](int k, int64_t i) {
      return element(problem.tensor(k), r * columns + i);
    };
    if (is_backward(kind)) {
      double total = 0;
      for (int64_t i = 0; i < columns; ++i) {
        total += kind == Kind::kSoftmaxBackward ? input(0, i) * input(1, i) : input(0, i);
      }
      for (int64_t i = 0; i < columns; ++i) {
        out[i] = kind == Kind::kSoftmaxBackward ? (input(0, i) - total) * input(1, i)
                                                : input(0, i) - std::exp(input(1, i)) * total;
      }
      continue;
    }
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < columns; ++i) {
      row[static_cast<size_t>(i)] = input(0, i);
      max = std::fmax(max, row[static_cast<size_t>(i)]);
    }
    double sum = 0;
    for (const double x : row) sum += std::exp(x - max);
    for (int64_t i = 0; i < columns; ++i) {
      const double x = row[static_cast<size_t>(i)] - max;
      out[i] = kind == Kind::kSoftmax ? std::exp(x) / sum : x - std::log(sum);
    }
  }
}

// Forward inputs are standard normal where the caller promises `bounded`; else, where there are
// rows enough, some hold what breaks a careless softmax: masks, NaN, infinities, huge numbers.
inline void fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const int64_t columns = layout_of(problem).columns;
  const Kind kind = kind_of(problem);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  // The difference of two must still be finite in the dtype.
  const double huge = tensor.dtype == DType::kF16 ? 3e4 : 1.5e38;
  fill_with(tensor, [&](int64_t i) {
    const double normal = random_normal(seed, static_cast<uint64_t>(i));
    if (index == 1) {  // an output of the forward: a probability, or the logarithm of one
      const double log = -4 * random_uniform(seed, static_cast<uint64_t>(i)) -
                         std::log(static_cast<double>(columns) + 1);
      return kind == Kind::kSoftmaxBackward ? std::exp(log) : log;
    }
    if (is_backward(kind) || problem.attribute(0) != 0) return normal;
    const int64_t column = i % columns;
    const uint64_t choice = random_bits(seed + 1, static_cast<uint64_t>(i));
    switch (i / columns % 16) {
      case 1: return choice % 4 == 0 ? -kInf : normal;
      case 3: return column >= columns / 2 && column > 0 ? -kInf : normal;  // a causal mask's row
      case 5: return -kInf;
      case 7: return column == columns / 2 ? std::numeric_limits<double>::quiet_NaN() : normal;
      case 9: return column == columns / 3 ? kInf : normal;
      case 11: return (choice % 2 == 0 ? 1 : -1) * huge;
      case 13: return 1000 + normal;
      case 14: return -1000 + normal;
      default: return normal;
    }
  });
}

// ---- The table of operations ------------------------------------------------------------------

inline constexpr Parameter kForwardParameters[] = {
    {.name = "x", .doc = "[..., N], f32, f16 or bf16"},
    {.name = "out", .output = true, .doc = "shape and dtype of x"},
};
inline constexpr Parameter kBackwardParameters[] = {
    {.name = "grad", .doc = "gradient of the forward's output, [..., N], f32, f16 or bf16"},
    {.name = "output", .doc = "the forward's output, shape and dtype of grad"},
    {.name = "out",
     .output = true,
     .doc = "gradient of the forward's input, shape and dtype of grad"},
};
inline constexpr Attribute kForwardAttributes[] = {
    {.name = "bounded",
     .kind = Attribute::Kind::kBool,
     .standard = 0,
     .doc =
         "the caller promises |x| <= 64, so that rungs that do not subtract the maximum may run"},
};
inline constexpr Peer kPeers[] = {peers::kCudnnSoftmax};
inline constexpr std::string_view kExtentNames[] = {"rows", "columns", "outer", "step"};

// Few elements, each path of each rung: no row, narrower than a vector, one warp, several; odd.
inline constexpr Case kSmoke[] = {
    {.extents = {2, 33}, .attributes = {1}, .has_attributes = true},
    {.extents = {16, 64}},
    {.extents = {3, 1000}},
    {.extents = {3, 34000}},  // several blocks of a cluster
};
inline constexpr Case bounded(int64_t rows, int64_t columns) {
  return {.extents = {rows, columns}, .attributes = {1}, .has_attributes = true};
}
inline constexpr Case kVerify[] = {
    // Every special row, around the widths of a vector, a warp and a block's stride.
    {.extents = {17, 1}},
    {.extents = {16, 2}},
    {.extents = {17, 7}},
    {.extents = {16, 8}},
    {.extents = {31, 31}},
    {.extents = {32, 32}},
    {.extents = {33, 33}},
    {.extents = {16, 127}},
    {.extents = {16, 128}},
    {.extents = {16, 129}},
    {.extents = {16, 256}},
    {.extents = {15, 257}},
    {.extents = {16, 1024}},
    {.extents = {16, 1032}},
    {.extents = {16, 2053}},
    {.extents = {14, 4096}},
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
    bounded(9, 2),
    bounded(5, 97),
    bounded(129, 64),
    bounded(3, 1031),
    bounded(32, 1024),
    // Nothing to do.
    {.extents = {0, 16}},
    {.extents = {4, 0}},
    // Rows that do not start on a vector, rows with gaps between, a transposed tensor, both, gaps
    // in
    // the rows.
    {.extents = {16, 128}, .offset = 1},
    {.extents = {16, 1001}, .offset = 3},
    {.extents = {16, 256}, .padding = 8},
    {.extents = {16, 250}, .padding = 6},
    {.extents = {16, 2048}, .padding = 3},
    {.extents = {5, 96, 3}},
    {.extents = {7, 35, 2}, .offset = 1, .padding = 5},
    {.extents = {16, 40, 0, 3}},
};
// Large enough to leave the caches, and for long rows also to have many rows for every SM.
inline constexpr Case kBench[] = {
    bounded(262144, 256),  bounded(65536, 1024), bounded(16384, 4096),
    bounded(16384, 16384), bounded(4096, 65536), bounded(1024, 262144),
};

inline constexpr Operation operation(std::string_view name, std::string_view summary,
                                     std::string_view formula, std::string_view torch,
                                     bool backward) {
  Operation op{};
  op.name = name;
  op.summary = summary;
  op.source =
      "Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, arXiv:1805.02867";
  op.formula = formula;
  if (backward) {
    op.parameters = kBackwardParameters;
  } else {
    op.parameters = kForwardParameters;
    op.attributes = kForwardAttributes;
  }
  op.extent_names = kExtentNames;
  op.optional_extents = 2;
  op.dtypes = kFloats;
  op.seed_prefix = name;
  op.torch = torch;
  op.infer = infer;
  op.make = make;
  op.cost = cost;
  op.tolerance = tolerance;
  op.items = items;
  op.reference = reference;
  op.fill = fill;
  op.smoke = kSmoke;
  op.verify = kVerify;
  op.bench = kBench;
  op.peers = kPeers;
  return op;
}

// In the order of Kind.
inline constexpr Operation kOperations[] = {
    operation("softmax", "exponentials of a row, scaled to add up to 1",
              "y[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))", "torch.softmax(x, -1)", false),
    operation("log_softmax", "logarithm of the softmax of a row",
              "y[i] = x[i] - max(x) - log(sum(exp(x - max(x))))", "torch.log_softmax(x, -1)",
              false),
    operation("softmax_backward", "gradient of softmax from its output",
              "dx[i] = (grad[i] - sum(grad * output)) * output[i]",
              "torch._softmax_backward_data(grad, output, -1, output.dtype)", true),
    operation("log_softmax_backward", "gradient of log_softmax from its output",
              "dx[i] = grad[i] - exp(output[i]) * sum(grad)",
              "torch._log_softmax_backward_data(grad, output, -1, output.dtype)", true),
};

inline Kind kind_of(const Problem& problem) {
  return static_cast<Kind>(problem.operation - kOperations);
}

}  // namespace ws::softmax
