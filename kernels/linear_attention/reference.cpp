// Linear attention on the host in double precision, step by step, and what rungs are checked on.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catalogue/fill.hpp"
#include "catalogue/tolerance.hpp"
#include "kernels/linear_attention/operations.hpp"

namespace ws::linear_attention {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Numbers64 = std::vector<double>;

int64_t heads_of(const Problem& problem) {
  return std::max({problem["q"].extent(1), problem["k"].extent(1), problem["v"].extent(1)});
}
int64_t dim_of(const Problem& problem) { return problem["q"].extent(3); }
int64_t value_dim_of(const Problem& problem) { return problem["v"].extent(3); }
int64_t steps_of(const Problem& problem) { return problem["q"].extent(2); }

// One head's part of a tensor [batch, heads, ...], row-major; `fallback` where there is none.
Numbers64 head_of(const Problem& problem, std::string_view name, int64_t item, int64_t count,
                  double fallback = 0) {
  const Tensor& tensor = problem.find(name);
  Numbers64 values(static_cast<size_t>(count), fallback);
  if (!tensor.exists() || count == 0) return values;
  const int64_t heads = heads_of(problem);
  const int64_t own = tensor.extent(1);
  const int64_t matrix = item / heads * own + item % heads / (heads / own);
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = element(tensor, matrix * count + i);
  }
  return values;
}

// A head of a call, and what the recurrences need of it.
struct Head {
  Head(const Problem& problem, int64_t item)
      : steps(steps_of(problem)),
        dim(dim_of(problem)),
        value_dim(value_dim_of(problem)),
        scale(problem.number("scale")),
        q(head_of(problem, "q", item, steps * dim)),
        k(head_of(problem, "k", item, steps * dim)),
        v(head_of(problem, "v", item, steps * value_dim)),
        decay(head_of(problem, "log_decay", item, steps)),
        state(head_of(problem, "initial_state", item, dim * value_dim)) {
    for (double& d : decay) d = std::exp(d);
  }

  int64_t steps, dim, value_dim;
  double scale;
  Numbers64 q, k, v, decay, state;

  static void add_outer(Numbers64& to, const double* left, int64_t rows, const double* right,
                        int64_t columns, double factor) {
    double* at = to.data();
    for (int64_t r = 0; r < rows; ++r) {
      const double f = factor * left[r];
      for (int64_t c = 0; c < columns; ++c) *at++ += f * right[c];
    }
  }
  // to = factor * row * matrix, and factor * matrix * column.
  static void row_times(const double* row, const Numbers64& matrix, int64_t rows, int64_t columns,
                        double factor, double* to) {
    std::fill_n(to, columns, 0.0);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        to[c] += factor * row[r] * matrix[static_cast<size_t>(r * columns + c)];
      }
    }
  }
  static void times_column(const Numbers64& matrix, const double* column, int64_t rows,
                           int64_t columns, double factor, double* to) {
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) {
        sum += matrix[static_cast<size_t>(r * columns + c)] * column[c];
      }
      to[r] = factor * sum;
    }
  }
  void decay_state(int64_t t) {
    for (double& s : state) s *= decay[static_cast<size_t>(t)];
  }
};

double* row(Numbers64& of, int64_t t, int64_t columns) { return of.data() + t * columns; }

// Where an output of item `at` of the slice goes; null: nobody asks.
double* target_of(const Problem& problem, std::span<double* const> expected, std::string_view name,
                  int64_t at, int64_t count) {
  double* to = expected[static_cast<size_t>(problem.operation->index_of(name))];
  return to == nullptr ? nullptr : to + at * count;
}

void copy_to(const Numbers64& values, double* to) {
  if (to != nullptr) std::ranges::copy(values, to);
}

void forward(const Problem& problem, int64_t item, bool is_delta, double* out, double* final) {
  Head head(problem, item);
  const Numbers64 beta = is_delta ? head_of(problem, "beta", item, head.steps) : Numbers64();
  Numbers64 said(static_cast<size_t>(head.value_dim));
  for (int64_t t = 0; t < head.steps; ++t) {
    head.decay_state(t);
    double* const k = row(head.k, t, head.dim);
    double* const v = row(head.v, t, head.value_dim);
    if (is_delta) {
      Head::row_times(k, head.state, head.dim, head.value_dim, 1, said.data());
      for (int64_t m = 0; m < head.value_dim; ++m) {
        v[m] = beta[static_cast<size_t>(t)] * (v[m] - said[static_cast<size_t>(m)]);
      }
    }
    Head::add_outer(head.state, k, head.dim, v, head.value_dim, 1);
    if (out == nullptr) continue;
    Head::row_times(row(head.q, t, head.dim), head.state, head.dim, head.value_dim, head.scale,
                    out + t * head.value_dim);
  }
  copy_to(head.state, final);
}

void forward_reference(const Problem& problem, Slice slice, std::span<double* const> expected,
                       bool is_delta) {
  for (int64_t item = slice.first; item < slice.last; ++item) {
    const int64_t at = item - slice.first;
    forward(
        problem, item, is_delta,
        target_of(problem, expected, "out", at, steps_of(problem) * value_dim_of(problem)),
        target_of(problem, expected, "final_state", at, dim_of(problem) * value_dim_of(problem)));
  }
}

// ---- Cases ------------------------------------------------------------------------------------

bool has(const Case& chosen, Has what) { return (chosen.extents[6] & what) != 0; }

Tensor laid(DType dtype, std::array<int64_t, 4> shape, int64_t padding, bool steps_first) {
  Tensor tensor = Tensor::dense(dtype, shape);
  const int64_t pitch = shape[3] + padding;
  tensor.strides[2] = steps_first ? pitch * shape[1] : pitch;
  tensor.strides[1] = steps_first ? pitch : pitch * shape[2];
  tensor.strides[0] = pitch * shape[1] * shape[2];
  return tensor;
}

constexpr Case of(std::array<int64_t, kMaxExtents> extents, double scale = 1, int64_t padding = 0,
                  int offset = 0) {
  Case chosen{.extents = extents, .offset = offset, .padding = padding};
  chosen.attributes[0] = scale;
  chosen.attributes[1] = (extents[6] & kFinalState) != 0;
  return chosen;
}
constexpr Case backward(Case chosen) {
  chosen.attributes[1] = Value{};
  return chosen;
}

constexpr int64_t kAll = kLogDecay | kInitialState | kFinalState;

// The first has all that a call may have.
constexpr Case kSmoke[] = {
    of({1, 2, 21, 16, 24, 1, kAll}, 0.25),
    of({1, 1, 70, 32, 16}),
    of({1, 1, 66, 64, 32, 0, kLogDecay | kStepsFirst}, 0.125),
};
constexpr Case kVerify[] = {
    // Around the ends of chunks of 64, and of segments of 256.
    of({1, 2, 1, 64, 64, 0, kAll}),
    of({2, 1, 63, 16, 16}, 0.125),
    of({1, 2, 64, 16, 32, 0, kAll}, 0.125),
    of({1, 1, 65, 64, 64, 0, kLogDecay}),
    of({1, 1, 130, 32, 16, 0, kAll}, 0.1),
    of({1, 1, 300, 16, 16, 0, kAll}, 0.125),
    of({1, 1, 260, 16, 8}),
    // Widths of every rung, and others.
    of({1, 1, 67, 128, 64, 0, kAll}, 0.1),
    of({1, 1, 20, 40, 136, 0, kLogDecay}),
    of({1, 1, 10, 160, 24}),
    of({1, 1, 66, 136, 72, 0, kAll}, 0.1),
    of({1, 1, 67, 256, 40, 0, kLogDecay}, 0.1),
    of({1, 1, 65, 24, 200, 0, kAll}, 0.1),
    of({1, 2, 20, 7, 9, 0, kAll}),
    // Heads that share q and k, steps before heads, gaps, rows that begin anywhere.
    of({1, 4, 66, 16, 24, 2, kLogDecay | kStepsFirst}, 0.125),
    of({1, 2, 20, 32, 16, 0, kLogDecay}, 1, 8),
    of({1, 1, 66, 16, 16, 0, kAll}, 1, 3),
    of({1, 1, 20, 16, 16, 0, kAll}, 1, 0, 1),
    // No scale, no steps, no heads.
    of({1, 1, 12, 16, 16, 0, kAll}, 0),
    of({1, 2, 0, 16, 16, 0, kAll}),
    of({0, 2, 70, 16, 16, 0, kAll}),
};
constexpr Case kBench[] = {
    of({8, 16, 4096, 64, 64}, 0.125),
    of({8, 16, 4096, 64, 64, 0, kLogDecay}, 0.125),
    of({8, 16, 4096, 128, 128, 0, kLogDecay}, 0.088),
    of({1, 16, 16384, 128, 128, 0, kLogDecay}, 0.088),
    of({8, 32, 4096, 128, 64, 1, kLogDecay}, 1),  // as Mamba-2 has it
};

template <size_t kCount>
constexpr std::array<Case, kCount> of_backward(const Case (&cases)[kCount]) {
  std::array<Case, kCount> all{};
  for (size_t i = 0; i < kCount; ++i) all[i] = backward(cases[i]);
  return all;
}
constexpr auto kBackwardSmoke = of_backward(kSmoke);
constexpr auto kBackwardVerify = of_backward(kVerify);
constexpr auto kBackwardBench = of_backward(kBench);

// Of the delta rule some more: both widths of D and of M on tensor cores, without decays, too.
constexpr int64_t kStates = kInitialState | kFinalState;
constexpr Case kOfDelta[] = {
    of({1, 2, 1, 64, 64, 0, kStates}),
    of({1, 2, 64, 16, 32, 0, kStates}, 0.125),
    of({2, 1, 130, 24, 72, 0, kAll | kStepsFirst}, 0.125, 8),
    of({2, 1, 130, 24, 72, 0, kStates | kStepsFirst}, 0.125, 8),
    of({1, 1, 67, 128, 128, 0, kAll}, 0.1),
    of({1, 1, 20, 128, 128, 0, kStates}, 0.1),
    of({1, 1, 20, 256, 136, 0, kAll}, 0.1),
    of({1, 1, 67, 200, 24, 0, kStates}, 0.1),
    of({1, 1, 66, 40, 264, 0, kAll}, 0.1),
    of({1, 1, 20, 16, 16, 0, kStates}, 0),
    of({1, 2, 0, 16, 16, 0, kStates}),
};
constexpr auto kDeltaBackwardVerify = [] {
  std::array<Case, std::size(kVerify) + std::size(kOfDelta)> all{};
  const auto next = std::ranges::copy(kBackwardVerify, all.begin()).out;
  std::ranges::copy(of_backward(kOfDelta), next);
  return all;
}();

// The size of a typical output, as fill() has the inputs: of so many steps that count.
double size_of_output(const Problem& problem, std::string_view name) {
  const auto dim = static_cast<double>(dim_of(problem));
  const auto value_dim = static_cast<double>(value_dim_of(problem));
  const bool is_delta = problem.operation->index_of("beta") >= 0;
  double steps = static_cast<double>(std::max<int64_t>(steps_of(problem), 1)) / 2;
  if (problem["log_decay"].exists()) steps = std::min(steps, 5.0);
  if (problem["initial_state"].exists()) steps += 1;
  const double state = is_delta ? 1.0 : std::sqrt(steps);
  const double scale = std::abs(problem.number("scale"));
  if (name == "final_state") return state;
  // A step of the delta rule takes one of `dim` directions off the state's gradient, which grows
  // for as many.
  const double grown = std::sqrt(is_delta ? std::min(steps, dim) : steps);
  if (name == "dinitial_state") return grown * std::max(scale, 1.0);
  if (name == "out") return scale * std::sqrt(dim) * state;
  const double least = problem.find("dfinal_state").exists() ? 1.0 : 1e-3;
  const double gradient = std::max(scale, least);
  if (is_delta && name != "dq") {
    if (name == "dv") return gradient * grown;
    return gradient * grown * std::sqrt(name == "dlog_decay" ? dim * value_dim : value_dim);
  }
  if (name == "dlog_decay") return gradient * std::sqrt(dim * value_dim) * steps;
  return gradient * std::sqrt(name == "dv" ? dim : value_dim) * state;
}

}  // namespace

void Common::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, heads, steps, dim, value_dim, shared, mask, unused] = chosen.extents;
  const bool is_backward = problem.operation->index_of("dout") >= 0;
  const int64_t own = shared == 0 || is_backward ? heads : shared;
  const auto rows = [&](int64_t count, int64_t columns) {
    return laid(dtype, {batch, count, steps, columns}, chosen.padding, has(chosen, kStepsFirst));
  };
  const Tensor state = Tensor::dense(DType::kF32, {batch, heads, dim, value_dim});
  const Tensor number = Tensor::dense(DType::kF32, {batch, heads, steps});
  problem["q"] = rows(own, dim);
  problem["k"] = rows(own, dim);
  problem["v"] = rows(heads, value_dim);
  if (is_backward) {
    problem["dout"] = rows(heads, value_dim);
    problem["dq"] = rows(heads, dim);
    problem["dk"] = rows(heads, dim);
    problem["dv"] = rows(heads, value_dim);
    if (problem.operation->index_of("dbeta") >= 0) problem["dbeta"] = number;
    if (has(chosen, kFinalState)) problem["dfinal_state"] = state;
  } else {
    problem["out"] = rows(heads, value_dim);
  }
  if (problem.operation->index_of("beta") >= 0) problem["beta"] = number;
  if (has(chosen, kLogDecay)) problem["log_decay"] = number;
  if (has(chosen, kInitialState)) problem["initial_state"] = state;
}

Cases LinearAttention::cases() { return {.smoke = kSmoke, .verify = kVerify, .bench = kBench}; }
Cases DeltaRule::cases() { return LinearAttention::cases(); }
Cases LinearAttentionBackward::cases() {
  return {.smoke = kBackwardSmoke, .verify = kBackwardVerify, .bench = kBackwardBench};
}
Cases DeltaRuleBackward::cases() {
  return {.smoke = kBackwardSmoke, .verify = kDeltaBackwardVerify, .bench = kBackwardBench};
}

// Flops of the chunked form, whose chunks are of 64 steps: scores and what they gather, half of
// both masked, then the state, read and added to. The recurrence has as many of the latter alone.
Cost Common::cost(const Problem& problem) {
  Cost cost;
  for (const Parameter& parameter : problem.operation->parameters) {
    const Tensor& tensor = problem[parameter.name];
    if (!tensor.exists()) continue;
    cost.bytes +=
        static_cast<double>(tensor.elements()) * static_cast<double>(size_of(tensor.dtype));
  }
  const auto tokens =
      static_cast<double>(problem["q"].extent(0) * heads_of(problem) * steps_of(problem));
  const auto dim = static_cast<double>(dim_of(problem));
  const auto value_dim = static_cast<double>(value_dim_of(problem));
  const bool is_backward = problem.operation->index_of("dout") >= 0;
  // The gradient of the delta rule has one more, for what steps add.
  const double walks = is_backward ? problem.operation->index_of("beta") >= 0 ? 4 : 3 : 1;
  cost.flops = walks * tokens * (64 * (dim + value_dim) + 4 * dim * value_dim);
  return cost;
}

// Rungs on tensor cores round the scores, the state and the decayed keys to 16 bits, each number
// alone, so that an output of many of them is off by about as much as its own rounding. Sums of
// decays (fill() has some of -50 and -inf) are f32: their differences are off by 2^-16. Sums of
// dlog_decay go on from step to step; of the delta rule they are of what steps add and take off,
// which is rounded to 16 bits itself.
Tolerance Common::tolerance(const Problem& problem, const Parameter& output) {
  const bool narrow = size_of(problem.dtype()) == 2;
  const double rounding = rounding_error(problem.dtype());
  const double decays = problem["log_decay"].exists() ? 0x1p-15 : 0;
  const auto steps = static_cast<double>(steps_of(problem));
  const double sums =
      accumulation_error(dim_of(problem) + steps_of(problem)) + 0x1p-22 * std::sqrt(steps) + decays;
  const double size = size_of_output(problem, output.name);
  const double noise = narrow ? rounding : 0;
  const bool is_delta = problem.operation->index_of("beta") >= 0;
  if (output.name == "dlog_decay") {
    const double walk = (narrow ? 0x1p-14 : 0x1p-18) * std::sqrt(steps + 16) + 4 * sums;
    const double added = is_delta ? noise : 0;
    // The first step has no state to decay: where there are few others the norm is no measure.
    return {
        .relative = steps < 16 ? 0 : 2 * walk + added, .worst = 8 * (walk + added), .floor = size};
  }
  // Nor is it of a few dots, which may be small by chance; nor, in f16, of what decays have left of
  // dfinal_state alone, of which steps take off nothing below 2^-24.
  const bool small =
      narrow &&
      ((output.name == "dbeta" && steps < 16) ||
       (output.name == "dinitial_state" && is_delta && decays > 0 && problem.number("scale") == 0));
  return {.relative = small ? 0 : rounding + 2 * noise + 4 * sums,
          .worst = 1.01 * rounding + 8 * noise + 16 * sums,
          .floor = std::max(size, 0x1p-10)};
}

int64_t Common::items(const Problem& problem, const Parameter& /*output*/) {
  return problem["q"].extent(0) * heads_of(problem);
}

// Steps decay by a few per cent to 20 %; a few forget nearly all or all. Keys of the delta rule are
// of norm 1, as its models have them; its beta is from 0 to 1.
void Common::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  const auto uniform = [seed](int64_t i) { return random_uniform(seed, static_cast<uint64_t>(i)); };
  if (name == "log_decay") {
    return fill_with(tensor, [&](int64_t i) {
      if (i % 61 == 13) return -50.0;
      if (i % 101 == 37) return -kInf;
      return -0.2 * uniform(i);
    });
  }
  if (name == "beta") return fill_with(tensor, uniform);
  if (name == "k" && problem.operation->index_of("beta") >= 0) {
    const double size = 1 / std::sqrt(static_cast<double>(dim_of(problem)));
    return fill_with(
        tensor, [&](int64_t i) { return size * random_normal(seed, static_cast<uint64_t>(i)); });
  }
  fill_normal_input(problem, index, seed);
}

// Slices are heads.
void LinearAttention::reference(const Problem& problem, Slice slice,
                                std::span<double* const> expected) {
  forward_reference(problem, slice, expected, false);
}
void DeltaRule::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  forward_reference(problem, slice, expected, true);
}

// dlog_decay is what is added up from the last step: <q, dq> - <k, dk> (the lesson says why).
void LinearAttentionBackward::reference(const Problem& problem, Slice slice,
                                        std::span<double* const> expected) {
  const int64_t steps = steps_of(problem);
  const int64_t dim = dim_of(problem);
  const int64_t value_dim = value_dim_of(problem);
  for (int64_t item = slice.first; item < slice.last; ++item) {
    const int64_t at = item - slice.first;
    Head head(problem, item);
    Numbers64 dout = head_of(problem, "dout", item, steps * value_dim);
    Numbers64 dq(head.q.size());
    Numbers64 dk(head.k.size());
    Numbers64 dv(head.v.size());
    Numbers64 dots(static_cast<size_t>(steps));
    for (int64_t t = 0; t < steps; ++t) {
      head.decay_state(t);
      Head::add_outer(head.state, row(head.k, t, dim), dim, row(head.v, t, value_dim), value_dim,
                      1);
      Head::times_column(head.state, row(dout, t, value_dim), dim, value_dim, head.scale,
                         row(dq, t, dim));
    }
    Numbers64 gradient = head_of(problem, "dfinal_state", item, dim * value_dim);
    double sum = 0;
    for (size_t i = 0; i < gradient.size(); ++i) sum += gradient[i] * head.state[i];
    head.state = gradient;
    for (int64_t t = steps - 1; t >= 0; --t) {
      if (t + 1 < steps) head.decay_state(t + 1);
      Head::add_outer(head.state, row(head.q, t, dim), dim, row(dout, t, value_dim), value_dim,
                      head.scale);
      Head::times_column(head.state, row(head.v, t, value_dim), dim, value_dim, 1, row(dk, t, dim));
      Head::row_times(row(head.k, t, dim), head.state, dim, value_dim, 1, row(dv, t, value_dim));
      for (int64_t d = 0; d < dim; ++d) {
        const auto i = static_cast<size_t>(t * dim + d);
        sum += head.q[i] * dq[i] - head.k[i] * dk[i];
      }
      dots[static_cast<size_t>(t)] = sum;
    }
    if (steps > 0) head.decay_state(0);
    copy_to(dq, target_of(problem, expected, "dq", at, steps * dim));
    copy_to(dk, target_of(problem, expected, "dk", at, steps * dim));
    copy_to(dv, target_of(problem, expected, "dv", at, steps * value_dim));
    copy_to(dots, target_of(problem, expected, "dlog_decay", at, steps));
    copy_to(head.state, target_of(problem, expected, "dinitial_state", at, dim * value_dim));
  }
}

// The adjoint of each step, from the last to the first. States before steps are walked again, 64
// steps at a time, from those that are kept.
void DeltaRuleBackward::reference(const Problem& problem, Slice slice,
                                  std::span<double* const> expected) {
  constexpr int64_t kKept = 64;
  const int64_t steps = steps_of(problem);
  const int64_t dim = dim_of(problem);
  const int64_t value_dim = value_dim_of(problem);
  const auto dot = [](const double* x, const double* y, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
    return sum;
  };
  for (int64_t item = slice.first; item < slice.last; ++item) {
    const int64_t at = item - slice.first;
    Head head(problem, item);
    const Numbers64 beta = head_of(problem, "beta", item, steps);
    Numbers64 dout = head_of(problem, "dout", item, steps * value_dim);
    Numbers64 errors(head.v.size());
    Numbers64 dq(head.q.size());
    Numbers64 dk(head.k.size());
    Numbers64 dv(head.v.size());
    Numbers64 dbeta(static_cast<size_t>(steps));
    Numbers64 dlog_decay(static_cast<size_t>(steps));
    Numbers64 of_values(static_cast<size_t>(value_dim));
    Numbers64 of_keys(static_cast<size_t>(dim));
    std::vector<Numbers64> kept;
    std::vector<Numbers64> before(kKept);
    const auto walk = [&](int64_t t) {
      head.decay_state(t);
      before[static_cast<size_t>(t % kKept)] = head.state;
      double* const error = row(errors, t, value_dim);
      Head::row_times(row(head.k, t, dim), head.state, dim, value_dim, -1, error);
      for (int64_t m = 0; m < value_dim; ++m) error[m] += row(head.v, t, value_dim)[m];
      Head::add_outer(head.state, row(head.k, t, dim), dim, error, value_dim,
                      beta[static_cast<size_t>(t)]);
    };
    for (int64_t t = 0; t < steps; ++t) {
      if (t % kKept == 0) kept.push_back(head.state);
      walk(t);
      Head::times_column(head.state, row(dout, t, value_dim), dim, value_dim, head.scale,
                         row(dq, t, dim));
    }
    Numbers64 gradient = head_of(problem, "dfinal_state", item, dim * value_dim);
    for (int64_t t = steps - 1; t >= 0; --t) {
      const int64_t first = t / kKept * kKept;
      if (t == steps - 1 || t - first == kKept - 1) {
        head.state = kept[static_cast<size_t>(t / kKept)];
        for (int64_t i = first; i <= t; ++i) walk(i);
      }
      const Numbers64& state = before[static_cast<size_t>(t - first)];
      const double weight = beta[static_cast<size_t>(t)];
      double* const k = row(head.k, t, dim);
      double* const error = row(errors, t, value_dim);
      Head::add_outer(gradient, row(head.q, t, dim), dim, row(dout, t, value_dim), value_dim,
                      head.scale);
      Head::row_times(k, gradient, dim, value_dim, 1, of_values.data());
      dbeta[static_cast<size_t>(t)] = dot(error, of_values.data(), value_dim);
      for (double& value : of_values) value *= weight;
      std::ranges::copy(of_values, row(dv, t, value_dim));
      Head::times_column(gradient, error, dim, value_dim, weight, row(dk, t, dim));
      Head::times_column(state, of_values.data(), dim, value_dim, 1, of_keys.data());
      for (int64_t d = 0; d < dim; ++d) row(dk, t, dim)[d] -= of_keys[static_cast<size_t>(d)];
      Head::add_outer(gradient, k, dim, of_values.data(), value_dim, -1);
      dlog_decay[static_cast<size_t>(t)] = dot(gradient.data(), state.data(), dim * value_dim);
      for (double& value : gradient) value *= head.decay[static_cast<size_t>(t)];
    }
    copy_to(dq, target_of(problem, expected, "dq", at, steps * dim));
    copy_to(dk, target_of(problem, expected, "dk", at, steps * dim));
    copy_to(dv, target_of(problem, expected, "dv", at, steps * value_dim));
    copy_to(dbeta, target_of(problem, expected, "dbeta", at, steps));
    copy_to(dlog_decay, target_of(problem, expected, "dlog_decay", at, steps));
    copy_to(gradient, target_of(problem, expected, "dinitial_state", at, dim * value_dim));
  }
}

}  // namespace ws::linear_attention
