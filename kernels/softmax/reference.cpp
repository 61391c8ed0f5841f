// Softmax: what every rung of the family computes, and how it is checked.
//
//   softmax       y[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))
//   log_softmax   y[i] = x[i] - max(x) - log(sum(exp(x - max(x))))
//   scale_mask_softmax   softmax of mask[i] ? scale * x[i] : fill, as attention has it
//
// over the last dimension, and the gradients of all three. As in torch, -inf is a masked element, a
// row of nothing else is NaN, and a NaN or +inf makes its row NaN.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "catalogue/fill.hpp"
#include "catalogue/peers/cudnn.hpp"

namespace ws::softmax {

enum class Kind {
  kSoftmax,
  kLogSoftmax,
  kScaleMaskSoftmax,
  kSoftmaxBackward,
  kLogSoftmaxBackward,
  kScaleMaskSoftmaxBackward,
};
inline constexpr double kInf = std::numeric_limits<double>::infinity();

inline Kind kind_of(const Problem& problem);  // by its place in kOperations, below
inline bool is_backward(Kind kind) { return kind >= Kind::kSoftmaxBackward; }
inline bool is_masked(Kind kind) {
  return kind == Kind::kScaleMaskSoftmax || kind == Kind::kScaleMaskSoftmaxBackward;
}
// Of a masked operation: the last input is the mask.
inline int mask_index(const Problem& problem) { return problem.tensor_count - 2; }
inline float scale_of(const Problem& problem) { return static_cast<float>(problem.attribute(0)); }
inline float fill_of(const Problem& problem) { return static_cast<float>(problem.attribute(1)); }

// A set of them.
struct Kinds {
  constexpr Kinds(std::initializer_list<Kind> kinds) {
    for (const Kind kind : kinds) bits |= 1U << static_cast<int>(kind);
  }
  constexpr bool has(Kind kind) const { return (bits >> static_cast<int>(kind) & 1) != 0; }

  unsigned bits = 0;  // public, so that a set can be a template argument
};

// ---- Rows -------------------------------------------------------------------------------------

inline constexpr int kMaxOperands = 4;  // tensors of a call
inline constexpr int kMaxOuter = kMaxRank - 1;

// Where the rows of tensors of one shape lie: element (row, i) of operand k is at
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

inline Layout layout_of(std::span<const Tensor* const> tensors) {
  Layout layout;
  const Tensor& shape = *tensors[0];
  layout.operands = static_cast<int>(tensors.size());
  const int last = shape.rank - 1;
  if (last >= 0) layout.columns = shape.shape[static_cast<size_t>(last)];
  for (size_t k = 0; k < tensors.size(); ++k) {
    // A row of one element has no stride of its own: torch leaves any number there.
    layout.inner[k] = layout.columns > 1 ? tensors[k]->strides[static_cast<size_t>(last)] : 1;
  }
  for (size_t d = 0; static_cast<int>(d) < last; ++d) {
    const int64_t extent = shape.shape[d];
    layout.rows *= extent;
    if (extent == 1) continue;
    bool even = layout.outer > 0;
    for (size_t k = 0; k < tensors.size() && even; ++k) {
      even = layout.strides[k][static_cast<size_t>(layout.outer - 1)] ==
             tensors[k]->strides[d] * extent;
    }
    if (!even) layout.extents[static_cast<size_t>(layout.outer++)] = 1;
    const auto at = static_cast<size_t>(layout.outer - 1);
    layout.extents[at] *= extent;
    for (size_t k = 0; k < tensors.size(); ++k) layout.strides[k][at] = tensors[k]->strides[d];
  }
  return layout;
}

// Of all tensors but the mask, which may be broadcast over what the others walk through evenly.
inline Layout layout_of(const Problem& problem) {
  std::array<const Tensor*, kMaxOperands> tensors{};
  size_t count = 0;
  const bool masked = is_masked(kind_of(problem));
  for (int k = 0; k < problem.tensor_count; ++k) {
    if (!masked || k != mask_index(problem)) tensors[count++] = &problem.tensor(k);
  }
  return layout_of(std::span<const Tensor* const>(tensors.data(), count));
}
inline Layout mask_layout_of(const Problem& problem) {
  const std::array<const Tensor*, 1> mask = {&problem.tensor(mask_index(problem))};
  return layout_of(std::span<const Tensor* const>(mask));
}

// ---- The operations ---------------------------------------------------------------------------

// Gives the tensor the shape of `to`, with strides of 0 where it repeats; false where it cannot.
inline bool broadcast(Tensor& tensor, const Tensor& to) {
  const int missing = to.rank - tensor.rank;
  if (missing < 0) return false;
  Tensor result = tensor;
  result.rank = to.rank;
  result.shape = to.shape;
  result.strides = {};
  for (int d = 0; d < tensor.rank; ++d) {
    const auto from = static_cast<size_t>(d);
    const auto at = static_cast<size_t>(d + missing);
    if (tensor.shape[from] == to.shape[at]) {
      result.strides[at] = tensor.strides[from];
    } else if (tensor.shape[from] != 1) {
      return false;
    }
  }
  tensor = result;
  return true;
}

inline void infer(Problem& problem) {
  const Tensor& x = problem.tensor(0);
  // Not require(): describing tensors that fit would cost more than all the rest of a call.
  if (!kFloats.has(x.dtype)) [[unlikely]] {
    throw InvalidArgument(
        concatenate(problem.operation->name, " takes f32, f16 and bf16, got ", x.describe()));
  }
  const int output = problem.tensor_count - 1;
  for (int k = 1; k < output; ++k) {
    Tensor& other = problem.tensor(k);
    const bool is_mask = is_masked(kind_of(problem)) && k == mask_index(problem);
    if (is_mask ? other.dtype == DType::kBool && broadcast(other, x)
                : other.dtype == x.dtype && other.rank == x.rank &&
                      std::equal(x.shape.begin(), x.shape.begin() + x.rank, other.shape.begin()))
        [[likely]] {
      continue;
    }
    const std::span<const Parameter> parameters = problem.operation->parameters;
    throw InvalidArgument(
        concatenate(problem.operation->name, ": '", parameters[0].name, "' is ", x.describe(),
                    " but '", parameters[static_cast<size_t>(k)].name, "' is ", other.describe(),
                    is_mask ? ", not bool of a shape that broadcasts to it" : ""));
  }
  problem.tensor(output) =
      Tensor::dense(x.dtype, std::span<const int64_t>(x.shape.data(), static_cast<size_t>(x.rank)));
}

inline constexpr std::string_view kMaskName = "mask";

// Extents are rows, columns, then what makes a tensor awkward: `outer` > 0 puts a dimension before
// the rows that lies between them in memory (a transposed tensor); `step` > 1 leaves gaps between
// the elements of a row. Of masked operations `outer` are the heads, which lie one after the other
// and share the mask.
inline Problem make(const Operation& operation, const Case& chosen, DType dtype) {
  const auto [rows, columns, outer, chosen_step] = chosen.extents;
  const int64_t step = std::max<int64_t>(chosen_step, 1);
  const int64_t pitch = columns * step + chosen.padding;
  const bool masked = operation.parameters[operation.parameters.size() - 2].name == kMaskName;
  Problem problem;
  problem.operation = &operation;
  if (chosen.has_attributes) problem.attributes = chosen.attributes;
  for (const Parameter& parameter : operation.parameters) {
    if (parameter.output) continue;
    Tensor& tensor = problem.tensor(problem.tensor_count++);
    if (parameter.name == kMaskName) {
      tensor = Tensor::dense(DType::kBool, {rows, columns});
      tensor.strides[0] = pitch;
      tensor.strides[1] = step;
    } else if (outer > 0) {
      tensor = Tensor::dense(dtype, {outer, rows, columns});
      tensor.strides[0] = masked ? pitch * rows : pitch;
      tensor.strides[1] = masked ? pitch : pitch * outer;
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

// The tensor's own elements, each of a broadcast dimension's but once.
inline Tensor without_repeats(Tensor tensor) {
  for (size_t d = 0; static_cast<int>(d) < tensor.rank; ++d) {
    if (tensor.strides[d] == 0) tensor.shape[d] = 1;
  }
  return tensor;
}

inline Cost cost(const Problem& problem) {
  const auto elements = static_cast<double>(problem.tensor(0).elements());
  const auto size = static_cast<double>(size_of(problem.tensor(0).dtype));
  const bool masked = is_masked(kind_of(problem));
  double bytes = elements * size * (problem.tensor_count - (masked ? 1 : 0));
  if (masked) {
    const auto once = without_repeats(problem.tensor(mask_index(problem))).elements();
    bytes += elements > 0 ? static_cast<double>(once) : 0;
  }
  // Forward: subtract, exponential, add, scale; backward: multiply, add, subtract, multiply; then
  // scale.
  return {.bytes = bytes, .flops = (masked ? 5 : 4) * elements};
}

// Half a unit in the last place of the output's dtype, and some units of f32 for what precedes it,
// which add up like a random walk where one thread sums a row. Probabilities of a long row, about
// 1 / N, and gradients, which a scale makes smaller still, are subnormal in f16: an error of up to
// 2^-25 each. The floor is where outputs become
// subnormal; logarithms and gradients are differences, whose error is that of terms of the order
// of 1.
inline Tolerance tolerance(const Problem& problem) {
  const Kind kind = kind_of(problem);
  const bool differences = kind != Kind::kSoftmax && kind != Kind::kScaleMaskSoftmax;
  const auto columns = static_cast<double>(layout_of(problem).columns);
  const double shrinks = kind == Kind::kScaleMaskSoftmaxBackward
                             ? std::clamp<double>(std::abs(scale_of(problem)), 1e-3, 1.0)
                             : 1.0;
  const double walk = 0x1p-24 * std::sqrt(columns);
  switch (problem.tensor(0).dtype) {
    case DType::kF32:
      return {.relative = 2e-6 + walk, .worst = 2e-5 + walk, .floor = differences ? 1.0 : 1e-30};
    case DType::kF16:
      return {.relative = 1e-3 + 0x1p-24 * columns / shrinks,
              .worst = 2e-3,
              .floor = differences ? 1.0 : 1e-4};
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
    const bool masked = is_masked(kind);
    const auto keep = [&](int64_t i) { return !masked || input(mask_index(problem), i) != 0; };
    const double scale = masked ? scale_of(problem) : 1;
    if (is_backward(kind)) {
      const bool logarithm = kind == Kind::kLogSoftmaxBackward;
      double total = 0;
      for (int64_t i = 0; i < columns; ++i) {
        total += logarithm ? input(0, i) : input(0, i) * input(1, i);
      }
      for (int64_t i = 0; i < columns; ++i) {
        const double dx = logarithm ? input(0, i) - std::exp(input(1, i)) * total
                                    : (input(0, i) - total) * input(1, i);
        out[i] = keep(i) ? scale * dx : 0;
      }
      continue;
    }
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < columns; ++i) {
      row[static_cast<size_t>(i)] = keep(i) ? scale * input(0, i) : fill_of(problem);
      max = std::fmax(max, row[static_cast<size_t>(i)]);
    }
    double sum = 0;
    for (const double x : row) sum += std::exp(x - max);
    for (int64_t i = 0; i < columns; ++i) {
      const double x = row[static_cast<size_t>(i)] - max;
      out[i] = kind == Kind::kLogSoftmax ? x - std::log(sum) : std::exp(x) / sum;
    }
  }
}

// Forward inputs are standard normal where the caller promises `bounded`; else, where there are
// rows enough, some hold what breaks a careless softmax: masks, NaN, infinities, huge numbers.
// Masks leave three of four elements, and of some rows none, all, or the first half.
inline void fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const int64_t columns = layout_of(problem).columns;
  const Kind kind = kind_of(problem);
  // The difference of two must still be finite in the dtype.
  const double huge = tensor.dtype == DType::kF16 ? 3e4 : 1.5e38;
  if (is_masked(kind) && index == mask_index(problem)) {
    fill_with(without_repeats(tensor), [&](int64_t i) {
      switch (i / columns % 8) {
        case 2: return 0.0;
        case 3: return i % columns <= columns / 2 ? 1.0 : 0.0;
        case 4: return 1.0;
        default: return random_bits(seed, static_cast<uint64_t>(i)) % 4 > 0 ? 1.0 : 0.0;
      }
    });
    return;
  }
  const bool bounded = !is_masked(kind) && !is_backward(kind) && problem.attribute(0) != 0;
  fill_with(tensor, [&](int64_t i) {
    const double normal = random_normal(seed, static_cast<uint64_t>(i));
    if (index == 1) {  // an output of the forward: a probability, or the logarithm of one
      const double log = -4 * random_uniform(seed, static_cast<uint64_t>(i)) -
                         std::log(static_cast<double>(columns) + 1);
      return kind == Kind::kLogSoftmaxBackward ? log : std::exp(log);
    }
    if (is_backward(kind) || bounded) return normal;
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
inline constexpr Parameter kMaskedForwardParameters[] = {
    kForwardParameters[0],
    {.name = kMaskName, .doc = "bool, broadcast to x: true keeps an element"},
    kForwardParameters[1],
};
inline constexpr Parameter kMaskedBackwardParameters[] = {
    kBackwardParameters[0],
    kBackwardParameters[1],
    {.name = kMaskName, .doc = "the forward's mask, bool, broadcast to grad"},
    kBackwardParameters[2],
};
inline constexpr Attribute kForwardAttributes[] = {
    {.name = "bounded",
     .kind = Attribute::Kind::kBool,
     .standard = 0,
     .doc =
         "the caller promises |x| <= 64, so that rungs that do not subtract the maximum may run"},
};
inline constexpr Attribute kMaskedAttributes[] = {
    {.name = "scale",
     .kind = Attribute::Kind::kFloat,
     .standard = 1,
     .doc = "factor of x, in f32: 1 / sqrt(d) in attention"},
    {.name = "fill",
     .kind = Attribute::Kind::kFloat,
     .standard = -10000,
     .doc = "what masked elements become; with -inf a row of nothing else is NaN"},
};
inline constexpr Peer kPeers[] = {peers::kCudnnSoftmax};
inline constexpr std::string_view kExtentNames[] = {"rows", "columns", "outer", "step"};
inline constexpr std::string_view kMaskedExtentNames[] = {"rows", "columns", "heads", "step"};

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

inline constexpr Case masked(std::array<int64_t, 4> extents, double scale = 0.125,
                             double fill = -10000) {
  return {.extents = extents, .attributes = {scale, fill}, .has_attributes = true};
}
inline constexpr Case kMaskedSmoke[] = {
    masked({2, 33, 3}),
    masked({16, 64}, -0.5, -1),
    masked({3, 1000}),
    masked({3, 34000}),
};
inline constexpr Case at(Case chosen, int offset, int64_t padding) {
  chosen.offset = offset;
  chosen.padding = padding;
  return chosen;
}
inline constexpr Case kMaskedVerify[] = {
    // Every special row under every kind of mask, around the widths of a vector, a warp, a block.
    masked({17, 1}),
    masked({16, 7, 3}, 1, -1),
    masked({16, 8}, 0),
    masked({33, 33, 2}),
    masked({16, 128, 5}, -0.5, 0),
    masked({16, 129}, 0.125, -kInf),
    masked({16, 1024, 2}, 0.125, -kInf),
    masked({15, 1032, 2}),
    masked({16, 2053}, 1, 0.5),
    masked({4, 8191, 2}),
    masked({3, 16384}),
    masked({2, 16392, 2}),
    masked({1, 65536}),
    masked({1, 100003}),
    // Nothing to do.
    masked({0, 16}),
    masked({4, 0}),
    // Rows that do not start on a vector, rows with gaps between, gaps in the rows.
    at(masked({16, 128}), 1, 0),
    at(masked({16, 1001, 2}), 3, 0),
    at(masked({16, 256, 2}), 0, 8),
    at(masked({7, 250, 3}), 5, 6),
    at(masked({16, 2048}), 0, 3),
    masked({16, 40, 0, 3}),
};
// Attention's scores, 512 MiB of f32 or more; the heads share the mask.
inline constexpr Case kMaskedBench[] = {
    masked({512, 256, 1024}),
    masked({1024, 1024, 128}),
    masked({4096, 4096, 16}),
    masked({16384, 16384}),
};

inline constexpr Operation operation(std::string_view name, std::string_view summary,
                                     std::string_view formula, std::string_view torch,
                                     std::span<const Parameter> parameters,
                                     std::span<const Attribute> attributes) {
  const bool masked = parameters[parameters.size() - 2].name == kMaskName;
  Operation op{};
  op.name = name;
  op.summary = summary;
  op.source =
      "Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, arXiv:1805.02867";
  op.formula = formula;
  op.parameters = parameters;
  op.attributes = attributes;
  op.extent_names = masked ? kMaskedExtentNames : kExtentNames;
  op.optional_extents = 2;
  op.dtypes = kFloats;
  if (!masked) op.seed_prefix = name;
  op.torch = torch;
  op.infer = infer;
  op.make = make;
  op.cost = cost;
  op.tolerance = tolerance;
  op.items = items;
  op.reference = reference;
  op.fill = fill;
  op.smoke = masked ? std::span<const Case>(kMaskedSmoke) : kSmoke;
  op.verify = masked ? std::span<const Case>(kMaskedVerify) : kVerify;
  op.bench = masked ? std::span<const Case>(kMaskedBench) : kBench;
  if (!masked) op.peers = kPeers;
  return op;
}

// In the order of Kind.
inline constexpr Operation kOperations[] = {
    operation("softmax", "exponentials of a row, scaled to add up to 1",
              "y[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))", "torch.softmax(x, -1)",
              kForwardParameters, kForwardAttributes),
    operation("log_softmax", "logarithm of the softmax of a row",
              "y[i] = x[i] - max(x) - log(sum(exp(x - max(x))))", "torch.log_softmax(x, -1)",
              kForwardParameters, kForwardAttributes),
    operation("scale_mask_softmax", "softmax of a scaled row, of the elements that a mask keeps",
              "y = softmax(mask ? scale * x : fill)",
              "torch.softmax(torch.where(mask, x * scale, fill), -1)", kMaskedForwardParameters,
              kMaskedAttributes),
    operation("softmax_backward", "gradient of softmax from its output",
              "dx[i] = (grad[i] - sum(grad * output)) * output[i]",
              "torch._softmax_backward_data(grad, output, -1, output.dtype)", kBackwardParameters,
              {}),
    operation("log_softmax_backward", "gradient of log_softmax from its output",
              "dx[i] = grad[i] - exp(output[i]) * sum(grad)",
              "torch._log_softmax_backward_data(grad, output, -1, output.dtype)",
              kBackwardParameters, {}),
    operation("scale_mask_softmax_backward", "gradient of scale_mask_softmax from its output",
              "dx[i] = mask[i] ? scale * (grad[i] - sum(grad * output)) * output[i] : 0",
              "torch.where(mask, torch._softmax_backward_data(grad, output, -1, output.dtype) * "
              "scale, 0)",
              kMaskedBackwardParameters, {kMaskedAttributes, 1}),
};

inline Kind kind_of(const Problem& problem) {
  return static_cast<Kind>(problem.operation - kOperations);
}

}  // namespace ws::softmax
