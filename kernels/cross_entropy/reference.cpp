// Cross-entropy on the host in double precision, and what rungs are checked on.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catalogue/fill.hpp"
#include "catalogue/row_cases.hpp"
#include "kernels/cross_entropy/operations.hpp"

namespace ws::cross_entropy {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int64_t columns_of(const Problem& problem) {
  const Tensor& logits = problem["logits"];
  return logits.extent(logits.rank - 1);
}
int64_t rows_of(const Problem& problem) { return problem["target"].elements(); }
// Where the values of a tensor go that is written; null: nobody asks.
double* target_of(const Problem& problem, std::span<double* const> expected,
                  std::string_view name) {
  const int at = problem.operation->index_of(name);
  return at < 0 ? nullptr : expected[static_cast<size_t>(at)];
}
bool has_loss(const Problem& problem) { return problem.operation->index_of("loss") >= 0; }

// As torch.logsumexp, but that +infinity makes NaN, as in torch's log_softmax.
double lse_of(std::span<const double> x) {
  double max = -kInf;
  for (const double v : x) max = std::max(max, v);
  if (max == kInf) return kNaN;
  const double shift = max == -kInf ? 0 : max;
  double sum = 0;
  for (const double v : x) sum += std::exp(v - shift);
  return shift + std::log(sum);
}

// ---- Cases ------------------------------------------------------------------------------------

// One a row; of a case of strided rows they are strided too.
Tensor number_tensor(const Case& chosen, DType dtype) {
  const int64_t step = std::max<int64_t>(chosen.extents[3], 1);
  Tensor tensor = chosen.extents[2] > 0
                      ? Tensor::dense(dtype, {chosen.extents[2], chosen.extents[0]})
                      : Tensor::dense(dtype, {chosen.extents[0]});
  for (size_t d = 0; static_cast<int>(d) < tensor.rank; ++d) tensor.strides[d] *= step;
  return tensor;
}
bool has(const Case& chosen, Has what) { return (chosen.extents[4] & what) != 0; }

constexpr Case of(std::array<int64_t, kMaxExtents> extents, double smoothing = 0, double z = 0,
                  int64_t ignored = -100) {
  Case chosen{.extents = extents};
  if (ignored != -100) chosen.attributes[0] = ignored;
  if (smoothing != 0) chosen.attributes[1] = smoothing;
  if (z != 0) chosen.attributes[2] = z;
  return chosen;
}
constexpr Case scaled(Case chosen, double scale) {
  chosen.attributes[3] = scale;
  return chosen;
}
constexpr Case placed(Case chosen, int offset, int64_t padding) {
  chosen.offset = offset;
  chosen.padding = padding;
  return chosen;
}
constexpr int64_t kAll = kWeightTensor | kDlossTensor;

// The first has all that a call may have.
constexpr Case kSmoke[] = {
    of({17, 40, 0, 0, kAll}, 0.1, 1e-2),
    of({5, 33}),
    of({3, 1000, 0, 0, kDlossTensor | kNarrowTargets}, 0.1),
    of({9, 264, 0, 0, kWeightTensor}),
    of({3, 5000}),  // several stages of a ring
};
constexpr Case kFusedSmoke[] = {
    kSmoke[0], kSmoke[1], kSmoke[2], scaled(kSmoke[3], 0.25), of({1, 34000}),
};
constexpr Case kVerify[] = {
    // Every special row, around the widths of a vector, a warp and a block's stride.
    of({17, 1}),
    of({130, 2, 0, 0, kDlossTensor}),
    of({17, 3}, 0.1),
    of({33, 7}, 0, 1e-3),
    of({16, 8}),
    of({40, 10, 0, 0, kAll}),
    of({17, 31, 0, 0, kNarrowTargets}),
    of({16, 64}, 0.1, 1e-3),
    of({16, 128, 0, 0, kDlossTensor}),
    of({17, 129}),
    of({16, 256}),
    of({15, 257}, 1.0),
    of({16, 1000}),
    of({16, 1024, 0, 0, kAll}, 0, 1e-3),
    of({9, 1032}),
    of({14, 2053}, 0.1),
    of({16, 4096}),
    of({9, 5000}),
    of({5, 8192, 0, 0, kWeightTensor}, 0.2, 1e-4),
    of({4, 16384}, 0.1),
    of({4, 16392, 0, 0, kDlossTensor}),
    // Several stages of a ring, several blocks of a cluster.
    of({3, 32000, 0, 0, kNarrowTargets}),
    of({2, 50257}),
    of({3, 65536}, 0, 1e-4),
    of({2, 128256}),
    of({1, 262144}),
    // ignore_index may be a class.
    of({9, 40}, 0, 0, 3),
    // Nothing to do, and rows of nothing.
    of({0, 16}),
    of({4, 0}),
    // Rows that do not start on a vector, gaps between rows, a transposed tensor, gaps in the rows.
    placed(of({16, 128}), 1, 0),
    placed(of({16, 1001}), 3, 0),
    placed(of({16, 256}), 0, 8),
    placed(of({16, 250}, 0.1), 0, 6),
    placed(of({3, 20000}), 0, 3),
    placed(of({3, 140001}), 1, 0),  // in 16 bits parts of fourteen vectors a thread
    of({5, 96, 3, 0, kAll}, 0.1),
    placed(of({7, 35, 2}), 1, 5),
    of({16, 40, 0, 3, kAll}, 0.1, 1e-2),
};
constexpr Case kBench[] = {
    of({1048576, 10}),  of({262144, 256}),  of({65536, 1024}),
    of({32768, 4096}),  of({16384, 32000}), of({8192, 50257}),
    of({8192, 128256}), of({4096, 262144}), of({16384, 32000}, 0.1),
};

// Rounding of a gradient, in the measures of Tolerance. Near its target it is the difference of
// two numbers of the order of 1, which err by some 2^-19 where |lse| is 20.
Tolerance of_rounding(DType dtype) {
  switch (dtype) {
    case DType::kF16: return {.relative = 1e-3, .worst = 1e-3, .floor = 1e-2};
    case DType::kBf16: return {.relative = 4e-3, .worst = 4e-3, .floor = 1e-2};
    default: return {.relative = 2e-5, .worst = 4e-5, .floor = 0.1};
  }
}

// What a row's numbers are made of.
struct Row {
  const Problem& problem;
  int64_t columns = columns_of(problem);
  double smoothing = problem.number("label_smoothing");
  double z = problem.number("z_loss");
  std::vector<double> weights{};  // empty: 1
  double all = static_cast<double>(columns);

  explicit Row(const Problem& of) : problem(of) {
    const Tensor& tensor = problem["weight"];
    if (!tensor.exists()) return;
    all = 0;
    for (int64_t c = 0; c < columns; ++c) all += weights.emplace_back(element(tensor, c));
  }
  double weight(int64_t c) const { return weights.empty() ? 1 : weights[static_cast<size_t>(c)]; }
  double loss(std::span<const double> x, int64_t t, double lse) const {
    double loss = (1 - smoothing) * weight(t) * (lse - x[static_cast<size_t>(t)]);
    if (smoothing != 0) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += weight(c) * x[static_cast<size_t>(c)];
      loss += smoothing / static_cast<double>(columns) * (all * lse - sum);
    }
    return loss + z * lse * lse;
  }
  void gradient(std::span<const double> x, int64_t t, double lse, double g, double* to) const {
    const double share = smoothing / static_cast<double>(columns);
    const double of_target = (1 - smoothing) * weight(t);
    const double a = g * (of_target + share * all + 2 * z * lse);
    for (int64_t c = 0; c < columns; ++c) {
      to[c] = a * std::exp(x[static_cast<size_t>(c)] - lse) - g * share * weight(c) -
              (c == t ? g * of_target : 0);
    }
  }
};

}  // namespace

void Common::make(const Case& chosen, DType dtype, Problem& problem) {
  problem["logits"] = rows_tensor(chosen, dtype);
  const DType targets = has(chosen, kNarrowTargets) ? DType::kI32 : DType::kI64;
  problem["target"] = number_tensor(chosen, targets);
  if (has(chosen, kWeightTensor)) {
    problem["weight"] = Tensor::dense(DType::kF32, {chosen.extents[1]});
    problem["weight"].strides[0] = std::max<int64_t>(chosen.extents[3], 1);
  }
  const bool is_backward = !has_loss(problem);
  if (is_backward) problem["lse"] = number_tensor(chosen, DType::kF32);
  if (is_backward || (problem.operation->index_of("dloss") >= 0 && has(chosen, kDlossTensor))) {
    problem["dloss"] = number_tensor(chosen, DType::kF32);
  }
  if (is_backward && chosen.padding > 0 && chosen.extents[2] == 0) {
    problem["dlogits"] = rows_tensor(chosen, dtype);  // as an owner of such memory would bring
  }
}

Cases CrossEntropyForward::cases() { return {.smoke = kSmoke, .verify = kVerify, .bench = kBench}; }
Cases CrossEntropyBackward::cases() { return CrossEntropyForward::cases(); }
Cases CrossEntropyFused::cases() {
  return {.smoke = kFusedSmoke, .verify = kVerify, .bench = kBench};
}

// A maximum, a product, an exponential, a sum.
Cost CrossEntropyForward::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 4 * static_cast<double>(problem["logits"].elements())};
}
Cost CrossEntropyBackward::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 5 * static_cast<double>(problem["logits"].elements())};
}
Cost CrossEntropyFused::cost(const Problem& problem) {
  const Tensor& logits = problem["logits"];
  const auto elements = static_cast<double>(logits.elements());
  return {.bytes = least_traffic(problem) + elements * static_cast<double>(size_of(logits.dtype)),
          .flops = 9 * elements};
}

// A thread that adds up a row by itself errs like a random walk; so do the logits of
// label_smoothing. Of rows at 20, as fill() has them, lse is rounded to 2^-20, and so is what
// exponents are shifted by.
Tolerance Common::tolerance(const Problem& problem, const Parameter& output) {
  const double walk = 0x1p-24 * std::sqrt(static_cast<double>(columns_of(problem)));
  const bool is_number = output.name == "loss" || output.name == "lse";
  Tolerance tolerance = is_number ? Tolerance{.relative = 4e-6, .worst = 1e-5, .floor = 1}
                                  : of_rounding(problem.dtype());
  tolerance.relative += walk;
  tolerance.worst += 4 * walk;
  // Of one class loss and gradient are 0: then their norm is no measure.
  if (columns_of(problem) == 1) tolerance.relative = 0;
  return tolerance;
}

int64_t Common::items(const Problem& problem, const Parameter& /*output*/) {
  return rows_of(problem);
}

void Common::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Row row(problem);
  const bool forward = has_loss(problem);
  const bool fused = forward && problem.operation->index_of("dloss") >= 0;
  const Tensor& logits = problem["logits"];
  const Tensor& target = problem["target"];
  const Tensor& given_lse = problem["lse"];
  const Tensor& dloss = problem.find("dloss");
  const double scale = fused ? problem.number("scale") : 1;
  const auto ignored = static_cast<double>(problem.integer("ignore_index"));
  double* losses = target_of(problem, expected, "loss");
  double* lses = forward ? target_of(problem, expected, "lse") : nullptr;
  double* gradients = target_of(problem, expected, fused ? "logits" : "dlogits");
  std::vector<double> x(static_cast<size_t>(row.columns));
  for (int64_t r = slice.first; r < slice.last; ++r) {
    const int64_t out = r - slice.first;
    double* gradient = gradients == nullptr ? nullptr : gradients + out * row.columns;
    const double t = element(target, r);
    if (t == ignored) {
      if (losses != nullptr) losses[out] = 0;
      if (lses != nullptr) lses[out] = 0;
      if (gradient != nullptr) std::fill_n(gradient, row.columns, 0.0);
      continue;
    }
    for (size_t c = 0; c < x.size(); ++c) {
      x[c] = element(logits, r * row.columns + static_cast<int64_t>(c));
    }
    const double lse = forward ? lse_of(x) : element(given_lse, r);
    const auto index = static_cast<int64_t>(t);
    if (losses != nullptr) losses[out] = row.loss(x, index, lse);
    if (lses != nullptr) lses[out] = lse;
    const double g = scale * (dloss.exists() ? element(dloss, r) : 1);
    if (gradient != nullptr) row.gradient(x, index, lse, g, gradient);
  }
}

// Logits are standard normal; where there are rows enough, some are far from 0, hold NaN, classes
// that cannot be, or such that are hidden by a large number. The gradient's lse is what such rows
// have on average.
void Common::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const int64_t columns = columns_of(problem);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  const auto normal = [seed](int64_t i) { return random_normal(seed, static_cast<uint64_t>(i)); };
  if (name == "target") {
    const auto ignored = static_cast<double>(problem.integer("ignore_index"));
    // Not where it is timed: rows that count nothing need not be read.
    const bool has_ignored = rows_of(problem) <= 64 && ignored < 0;
    fill_with(tensor, [&](int64_t i) {
      if (columns == 0 || (has_ignored && i % 8 == 2)) return ignored;
      return std::floor(random_uniform(seed, static_cast<uint64_t>(i)) *
                        static_cast<double>(columns));
    });
  } else if (name == "weight") {
    fill_with(tensor,
              [&](int64_t i) { return 0.25 + random_uniform(seed, static_cast<uint64_t>(i)); });
  } else if (name == "lse") {
    const double expected = std::log(static_cast<double>(columns)) + 0.5;
    fill_with(tensor, [&](int64_t i) { return expected + 0.1 * normal(i); });
  } else if (name == "dloss") {
    fill_with(tensor, normal);
  } else {
    const double far = has_loss(problem) ? 20 : 0;
    const double hidden = tensor.dtype == DType::kF16 ? -6e4 : -1e30;
    fill_with(tensor, [&](int64_t i) {
      switch (i / columns % 16) {
        case 1: return far + normal(i);
        case 3: return i % columns < columns * 3 / 4 ? hidden : normal(i);
        case 5: return i % columns == columns / 2 ? kNaN : normal(i);
        case 9: return i % 3 == 0 ? -kInf : normal(i);
        case 11: return columns > 8 ? -kInf : normal(i);
        case 13: return -far + 3 * normal(i);
        default: return normal(i);
      }
    });
  }
}

}  // namespace ws::cross_entropy
