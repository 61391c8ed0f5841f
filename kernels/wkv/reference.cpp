// wkv and its gradient on the host in double precision, and what rungs are checked on.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/wkv/operations.hpp"

namespace ws::wkv {
namespace {

constexpr double kNothing = -1e38;  // the exponent of a state of no steps

bool has(const Case& chosen, Has what) { return (chosen.extents[3] & what) != 0; }

// ---- Cases ------------------------------------------------------------------------------------

constexpr Case of(std::array<int64_t, kMaxExtents> extents, bool returns = false) {
  Case chosen{.extents = extents};
  if (returns) chosen.attributes[0] = true;
  return chosen;
}
constexpr Case placed(Case chosen, int offset, int64_t padding) {
  chosen.offset = offset;
  chosen.padding = padding;
  return chosen;
}

// Around a thread's steps ahead and the parts of a line.
constexpr Case kSmoke[] = {
    of({2, 37, 5}),
    of({1, 1, 3}),
    of({1, 300, 3}),
    of({3, 17, 40}),
    of({2, 120, 33, kHasState}, true),
};
constexpr Case kVerify[] = {
    of({1, 8, 130}),
    of({2, 3, 64}),
    of({1, 1300, 4}),
    of({2, 640, 7, kHasState}, true),
    placed(of({2, 70, 33, kHasState}, true), 1, 3),
    of({2, 70, 33, kHasState | kGaps}, true),
    of({2, 70, 33, kStepsInside}),
    of({0, 5, 4}),
    of({3, 0, 4}),
    of({3, 5, 0}),
    of({40, 0, 64, kHasState}, true),
    of({2, 640, 5}, true),
    of({2, 70, 9, kHasState}),
};
// Of gradients: attributes they have none; where a forward returns its last state, they are given
// the gradient of it.
constexpr Case of_backward(Case chosen) {
  if (chosen.attributes[0].as_bool()) chosen.extents[3] |= kHasLast;
  chosen.attributes = {};
  return chosen;
}
template <size_t kCount>
constexpr std::array<Case, kCount> of_backward(const Case (&cases)[kCount]) {
  std::array<Case, kCount> all{};
  for (size_t i = 0; i < kCount; ++i) all[i] = of_backward(cases[i]);
  return all;
}
constexpr auto kBackwardSmoke = of_backward(kSmoke);
constexpr auto kBackwardVerify = of_backward(kVerify);
constexpr Case kBench[] = {
    of({1, 4096, 768}),  of({8, 1024, 2048}), of({64, 1024, 4096}),
    of({1, 65536, 768}), of({1, 1024, 4096}),
};

// [B, T, C], laid as the case says.
Tensor steps_of(const Case& chosen, DType dtype) {
  const int64_t length = chosen.extents[1];
  const int64_t channels = chosen.extents[2];
  Tensor tensor = Tensor::dense(dtype, {chosen.extents[0], length, channels});
  const int64_t gap = has(chosen, kGaps) ? 2 : 1;
  const int64_t pitch = std::max<int64_t>(channels * gap + chosen.padding, 1);
  tensor.strides = {pitch * std::max<int64_t>(length, 1), pitch, gap};
  if (has(chosen, kStepsInside)) {
    tensor.strides = {std::max<int64_t>(length * channels, 1), 1, std::max<int64_t>(length, 1)};
  }
  return tensor;
}

// ---- The reference ----------------------------------------------------------------------------

// A channel of a batch.
struct Line {
  const Problem& problem;
  int64_t batch, channel, length, channels;
  double w, u;

  Line(const Problem& of, int64_t of_batch, int64_t of_channel)
      : problem(of),
        batch(of_batch),
        channel(of_channel),
        length(of["k"].extent(1)),
        channels(of["k"].extent(2)),
        w(element(of["w"], of_channel)),
        u(element(of["u"], of_channel)) {}
  int64_t at(int64_t t) const { return (batch * length + t) * channels + channel; }
  double of(std::string_view name, int64_t t) const { return element(problem[name], at(t)); }
  double state(int64_t which) const {
    const Tensor& tensor = problem["state"];
    if (!tensor.exists()) return which == 2 ? kNothing : 0;
    return element(tensor, (batch * 3 + which) * channels + channel);
  }
};

// n and m as p * exp(o) and q * exp(o).
struct State {
  double p, q, o;

  explicit State(const Line& line) : p(line.state(0)), q(line.state(1)), o(line.state(2)) {}
  void step(double w, double k, double v) {
    const double top = std::max(w + o, k);
    const double before = std::exp(w + o - top);
    const double own = std::exp(k - top);
    p = before * p + own * v;
    q = before * q + own;
    o = top;
  }
};

// Of each step what it weighs all with: log(m + exp(u + k)), and what came out.
struct Outcome {
  double log_weight, out;
};
Outcome outcome(const State& state, double u, double k, double v) {
  const double top = std::max(state.o, u + k);
  const double before = std::exp(state.o - top);
  const double own = std::exp(u + k - top);
  const double weight = before * state.q + own;
  return {top + std::log(weight), (before * state.p + own * v) / weight};
}

void forward_of(const Problem& problem, int64_t batch, double* out, double* last) {
  const int64_t channels = problem["k"].extent(2);
  for (int64_t c = 0; c < channels; ++c) {
    const Line line(problem, batch, c);
    State state(line);
    for (int64_t t = 0; t < line.length; ++t) {
      const double k = line.of("k", t);
      const double v = line.of("v", t);
      if (out != nullptr) out[t * channels + c] = outcome(state, line.u, k, v).out;
      state.step(line.w, k, v);
    }
    if (last == nullptr) continue;
    last[c] = state.p;
    last[channels + c] = state.q;
    last[2 * channels + c] = state.o;
  }
}

// Adds to gw and gu; writes gk and gv of one batch, [T, C], and gstate, [3, C], unless they are
// null.
void backward_of(const Problem& problem, int64_t batch, int64_t c, double* gk, double* gv,
                 double* gstate, double& gw, double& gu) {
  const Line line(problem, batch, c);
  const auto count = static_cast<size_t>(line.length);
  std::vector<Outcome> outcomes(count);
  std::vector<State> before(count, State(line));
  State state(line);
  int64_t newest = -1;  // whose key is the largest exponent
  for (size_t t = 0; t < count; ++t) {
    const auto at = static_cast<int64_t>(t);
    before[t] = state;
    outcomes[t] = outcome(state, line.u, line.of("k", at), line.of("v", at));
    if (line.of("k", at) > line.w + state.o) newest = at;
    state.step(line.w, line.of("k", at), line.of("v", at));
  }
  // What later steps, and the gradient of the last state, make of n and m: p * exp(o), q * exp(o).
  const auto of_last = [&](int64_t which) {
    const Tensor& tensor = problem["g_last_state"];
    return tensor.exists() ? element(tensor, (batch * 3 + which) * line.channels + c) : 0;
  };
  double p = of_last(0);
  double q = of_last(1);
  double o = -state.o;
  // What the exponent of the last state has, as a number beside n and m, is a key's or the first
  // state's.
  const double of_exponent = of_last(2) - p * state.p - q * state.q;
  gw += of_exponent * static_cast<double>(line.length - 1 - newest);
  for (size_t t = count; t-- > 0;) {
    const auto at = static_cast<int64_t>(t);
    const double k = line.of("k", at);
    const double v = line.of("v", at);
    const double g = line.of("g", at);
    const auto [log_weight, out] = outcomes[t];
    const double own = g * std::exp(line.u + k - log_weight);
    const double later = std::exp(k + o);
    if (gk != nullptr) {
      gk[at * line.channels + c] =
          own * (v - out) + later * (v * p + q) + (at == newest ? of_exponent : 0);
    }
    if (gv != nullptr) gv[at * line.channels + c] = own + later * p;
    gu += own * (v - out);
    const State& here = before[t];
    gw += std::exp(line.w + here.o + o) * (p * here.p + q * here.q);
    const double top = std::max(line.w + o, -log_weight);
    const double kept = std::exp(line.w + o - top);
    const double added = g * std::exp(-log_weight - top);
    p = kept * p + added;
    q = kept * q - added * out;
    o = top;
  }
  if (gstate == nullptr) return;
  const State first(line);
  const double scale = std::exp(first.o + o);
  gstate[c] = scale * p;
  gstate[line.channels + c] = scale * q;
  gstate[2 * line.channels + c] =
      scale * (first.p * p + first.q * q) + (newest < 0 ? of_exponent : 0);
}

double* of_output(const Problem& problem, std::span<double* const> expected,
                  std::string_view name) {
  return expected[static_cast<size_t>(problem.operation->index_of(name))];
}
bool is_of_channels(const Parameter& output) { return output.name == "gw" || output.name == "gu"; }

}  // namespace

void Common::make(const Case& chosen, DType dtype, Problem& problem) {
  const Tensor steps = steps_of(chosen, dtype);
  problem["k"] = problem["v"] = steps;
  problem["w"] = problem["u"] = Tensor::dense(DType::kF32, {chosen.extents[2]});
  if (has(chosen, kHasState)) {
    problem["state"] = Tensor::dense(DType::kF32, {chosen.extents[0], 3, chosen.extents[2]});
  }
  const bool is_forward = problem.operation->index_of("out") >= 0;
  if (!is_forward) problem["g"] = steps;
  if (!is_forward && has(chosen, kHasLast)) {
    problem["g_last_state"] = Tensor::dense(DType::kF32, {chosen.extents[0], 3, chosen.extents[2]});
  }
  if (steps.contiguous()) return;
  if (is_forward) problem["out"] = steps;
  if (!is_forward) problem["gk"] = problem["gv"] = steps;
}

Cases Wkv::cases() { return {.smoke = kSmoke, .verify = kVerify, .bench = kBench}; }
Cases WkvBackward::cases() {
  return {.smoke = kBackwardSmoke, .verify = kBackwardVerify, .bench = kBench};
}

// Four exponentials, of which two are of 0, and what they weigh; a division.
Cost Wkv::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 16 * static_cast<double>(problem["k"].elements())};
}
Cost WkvBackward::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 50 * static_cast<double>(problem["k"].elements())};
}

// Exponents beyond 128 are rounded to 2^-17, a few of them in each weight of a gradient; sums over
// all steps of what has either sign are near 0 beside their parts.
Tolerance Common::tolerance(const Problem& problem, const Parameter& output) {
  const Tensor& k = problem["k"];
  Tolerance tolerance{.relative = 5e-5, .worst = 3e-4, .floor = 1};
  if (is_of_channels(output)) {
    const double drift = 2e-6 * static_cast<double>(k.extent(1));
    tolerance.relative = 3e-4 + drift / 4;
    tolerance.worst += drift;
    tolerance.floor = std::sqrt(static_cast<double>(k.extent(0) * k.extent(1)) + 1);
  } else if (output.name != "last_state" && output.name != "gstate" &&
             problem.dtype() != DType::kF32) {
    const double half = problem.dtype() == DType::kF16 ? 1e-3 : 5e-3;
    tolerance = {.relative = half, .worst = 2 * half, .floor = output.name == "out" ? 1 : 0.3};
  }
  return tolerance;
}

int64_t Common::items(const Problem& problem, const Parameter& output) {
  return problem["k"].extent(is_of_channels(output) ? 2 : 0);
}

void Wkv::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& k = problem["k"];
  double* out = of_output(problem, expected, "out");
  double* last = of_output(problem, expected, "last_state");
  for (int64_t b = slice.first; b < slice.last; ++b) {
    const int64_t nth = b - slice.first;
    forward_of(problem, b, out == nullptr ? nullptr : out + nth * k.extent(1) * k.extent(2),
               last == nullptr ? nullptr : last + nth * 3 * k.extent(2));
  }
}

void WkvBackward::reference(const Problem& problem, Slice slice,
                            std::span<double* const> expected) {
  const Tensor& k = problem["k"];
  double* gk = of_output(problem, expected, "gk");
  double* gv = of_output(problem, expected, "gv");
  double* gw = of_output(problem, expected, "gw");
  double* gu = of_output(problem, expected, "gu");
  double* gstate = of_output(problem, expected, "gstate");
  double unused = 0;
  if (gk != nullptr || gv != nullptr || gstate != nullptr) {
    for (int64_t b = slice.first; b < slice.last; ++b) {
      const int64_t nth = b - slice.first;
      const int64_t offset = nth * k.extent(1) * k.extent(2);
      for (int64_t c = 0; c < k.extent(2); ++c) {
        backward_of(problem, b, c, gk == nullptr ? nullptr : gk + offset,
                    gv == nullptr ? nullptr : gv + offset,
                    gstate == nullptr ? nullptr : gstate + nth * 3 * k.extent(2), unused, unused);
      }
    }
  }
  if (gw == nullptr && gu == nullptr) return;
  for (int64_t c = slice.first; c < slice.last; ++c) {
    double of_w = 0;
    double of_u = 0;
    for (int64_t b = 0; b < k.extent(0); ++b) {
      backward_of(problem, b, c, nullptr, nullptr, nullptr, of_w, of_u);
    }
    if (gw != nullptr) gw[c - slice.first] = of_w;
    if (gu != nullptr) gu[c - slice.first] = of_u;
  }
}

// Decays from a step's to thousands of steps'. Some channels have keys whose exponentials no f32
// holds.
void Common::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  const auto uniform = [seed](int64_t i) { return random_uniform(seed, static_cast<uint64_t>(i)); };
  const auto normal = [seed](int64_t i) { return random_normal(seed, static_cast<uint64_t>(i)); };
  const Tensor& k = problem["k"];
  if (name == "w") {
    fill_with(tensor, [&](int64_t i) { return -std::exp(8 * uniform(i) - 7); });
  } else if (name == "state") {
    const int64_t channels = std::max<int64_t>(k.extent(2), 1);
    fill_with(tensor,
              [&](int64_t i) { return i / channels % 3 == 1 ? 0.5 + uniform(i) : normal(i); });
  } else if (name == "k") {
    const int64_t channels = std::max<int64_t>(k.extent(2), 1);
    fill_with(tensor, [&](int64_t i) { return (i % channels % 8 == 3 ? 30 : 1) * normal(i); });
  } else {
    fill_with(tensor, normal);
  }
}

}  // namespace ws::wkv
