// The selective scan on the host in double precision, and what rungs are checked on.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/selective_scan/operations.hpp"

namespace ws::selective_scan {
namespace {

double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double element_or(const Tensor& tensor, int64_t index, double otherwise) {
  return tensor.exists() ? element(tensor, index) : otherwise;
}

// ---- Cases ------------------------------------------------------------------------------------

bool has(const Case& chosen, Has what) { return (chosen.extents[5] & what) != 0; }

// Steps side by side, unless the case says otherwise.
Tensor laid(const Case& chosen, Tensor tensor) {
  if (has(chosen, kStepsOutside) && tensor.rank == 3) {  // [batch, L, dim] in memory
    const int64_t channels = std::max<int64_t>(tensor.extent(1), 1);
    const int64_t steps = std::max<int64_t>(tensor.extent(2), 1);
    tensor.strides = {channels * steps, 1, channels};
    return tensor;
  }
  int64_t stride = has(chosen, kGaps) ? 2 : 1;
  for (int d = tensor.rank - 1; d >= 0; --d) {
    tensor.strides[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(tensor.extent(d), 1);
    if (d == tensor.rank - 1) stride += chosen.padding;
  }
  return tensor;
}

constexpr Case of(std::array<int64_t, kMaxExtents> extents, bool softplus = false,
                  bool returns = false) {
  Case chosen{.extents = extents};
  chosen.attributes[0] = softplus;
  chosen.attributes[1] = returns;
  return chosen;
}
constexpr Case placed(Case chosen, int offset, int64_t padding) {
  chosen.offset = offset;
  chosen.padding = padding;
  return chosen;
}
constexpr int64_t kUsual = kHasZ | kHasD | kHasBias;

// Around vectors, a warp's steps and a block's; the first has all that a call may have and a
// gradient.
constexpr Case kSmoke[] = {
    of({2, 4, 40, 3, 2, kUsual}, true),
    of({1, 3, 33, 16}),
    of({1, 2, 1, 1}),
    of({1, 4, 1200, 4, 0, kHasD | kHasInitial}, true, true),
    of({1, 66, 40, 17, 0, kUsual | kHasInitial}, true, true),
};
constexpr Case kVerify[] = {
    of({1, 2, 256, 16, 0, kUsual}, true),
    of({1, 2, 2100, 2, 1, kHasInitial | kHasZ}, true, true),
    of({2, 3, 1032, 2, 0, kHasBias}, true, true),
    of({1, 2, 520, 33, 0, kUsual | kHasInitial}, true, true),
    of({1, 2, 24, 256, 0, kHasInitial}, false, true),
    of({3, 35, 8, 5, 5, kUsual}),
    placed(of({1, 4, 530, 3, 2, kUsual}, true), 1, 0),
    placed(of({2, 2, 530, 3, 0, kUsual}, true), 0, 6),
    of({1, 4, 530, 3, 0, kUsual | kGaps}, true, true),
    of({2, 4, 300, 3, 2, kUsual | kStepsOutside | kHasInitial}, true, true),
    // Nothing to do, and states that nothing happens to.
    of({0, 4, 8, 3}),
    of({2, 0, 8, 3}),
    of({2, 4, 0, 3}),
    of({40, 64, 0, 3, 0, kHasInitial}, false, true),
};
constexpr Case kBackwardSmoke[] = {
    kSmoke[0],
    kSmoke[1],
    kSmoke[2],
    of({1, 2, 520, 2, 0, kUsual | kHasInitial}, true),
};
constexpr Case kBackwardVerify[] = {
    of({1, 34, 256, 2, 0, kUsual}, true),
    of({2, 3, 1032, 1, 0, kHasBias | kHasInitial}, true),
    of({1, 9, 264, 33, 0, kUsual | kHasInitial}, true),
    of({3, 35, 8, 2, 5, kUsual}),
    placed(of({1, 4, 270, 2, 2, kUsual}, true), 1, 0),
    placed(of({2, 2, 270, 2, 0, kUsual}, true), 0, 2),
    of({1, 4, 270, 2, 0, kUsual | kGaps}, true),
    of({2, 4, 270, 2, 2, kUsual | kStepsOutside | kHasInitial}, true),
    of({2, 4, 0, 3, 0, kHasInitial}),
    of({0, 4, 8, 3}),
    of({2, 0, 8, 3}),
    of({2, 4, 0, 3}),
};
constexpr Case kBench[] = {
    of({8, 2048, 2048, 16, 0, kUsual}, true),  of({1, 5120, 4096, 16, 0, kUsual}, true),
    of({1, 1536, 65536, 16, 0, kUsual}, true), of({2, 64, 32768, 16, 0, kUsual}, true),
    of({16, 1024, 512, 64, 0, kUsual}, true),
};

// ---- The reference ----------------------------------------------------------------------------

// One channel of one batch: what its steps are made of.
struct Line {
  int64_t batch, channel, dim, length, states;
  const Problem& problem;
  std::vector<double> a;

  Line(const Problem& of, int64_t row)
      : batch(row / of["u"].extent(1)),
        channel(row % of["u"].extent(1)),
        dim(of["u"].extent(1)),
        length(of["u"].extent(2)),
        states(of["a"].extent(1)),
        problem(of) {
    for (int64_t n = 0; n < states; ++n) a.push_back(element(problem["a"], channel * states + n));
  }
  int64_t at(int64_t t) const { return (batch * dim + channel) * length + t; }
  int64_t of_group(int64_t n, int64_t t) const {
    const Tensor& b = problem["b"];
    const int64_t groups = b.rank == 4 ? b.extent(1) : 1;
    return ((batch * groups + channel / (dim / groups)) * states + n) * length + t;
  }
  double raw(int64_t t) const {
    return element(problem["delta"], at(t)) + element_or(problem["delta_bias"], channel, 0);
  }
  double size(int64_t t) const {
    return problem.flag("delta_softplus") ? softplus(raw(t)) : raw(t);
  }
  double slope(int64_t t) const {  // of the size
    return problem.flag("delta_softplus") ? sigmoid(raw(t)) : 1;
  }
  double u(int64_t t) const { return element(problem["u"], at(t)); }
  double b(int64_t n, int64_t t) const { return element(problem["b"], of_group(n, t)); }
  double c(int64_t n, int64_t t) const { return element(problem["c"], of_group(n, t)); }
};

}  // namespace

void Common::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, dim, length, states, groups, what, x6, x7] = chosen.extents;
  const Tensor steps = laid(chosen, Tensor::dense(dtype, {batch, dim, length}));
  problem["u"] = problem["delta"] = steps;
  problem["a"] = Tensor::dense(DType::kF32, {dim, states});
  problem["b"] = problem["c"] =
      laid(chosen, groups > 0 ? Tensor::dense(dtype, {batch, groups, states, length})
                              : Tensor::dense(dtype, {batch, states, length}));
  if (has(chosen, kHasZ)) problem["z"] = steps;
  if (has(chosen, kHasD)) problem["d"] = Tensor::dense(DType::kF32, {dim});
  if (has(chosen, kHasBias)) problem["delta_bias"] = Tensor::dense(DType::kF32, {dim});
  const bool is_forward = problem.operation->index_of("out") >= 0;
  if (is_forward && has(chosen, kHasInitial)) {
    problem["initial_state"] = Tensor::dense(DType::kF32, {batch, dim, states});
  }
  if (!is_forward) problem["g"] = steps;
  if (!is_forward && has(chosen, kHasInitial)) {
    problem["states"] = Tensor::dense(DType::kF32, {2, batch, dim, states});
  }
  if (!has(chosen, kStepsOutside) && chosen.padding == 0) return;
  for (const std::string_view name : {"out", "du", "ddelta"}) {
    if (problem.operation->index_of(name) >= 0) problem[name] = steps;
  }
}

Cases SelectiveScan::cases() { return {.smoke = kSmoke, .verify = kVerify, .bench = kBench}; }

// A state's step is an exponential, four products and two sums.
Cost SelectiveScan::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 7 * static_cast<double>(problem["u"].elements() * problem["a"].extent(1))};
}

// Sums of many states round as often, and exponents are rounded before 2 is raised to them.
Tolerance SelectiveScan::tolerance(const Problem& problem, const Parameter& output) {
  if (output.name == "last_state") return {.relative = 1e-5, .worst = 4e-5, .floor = 1};
  switch (problem.dtype()) {
    case DType::kF16: return {.relative = 1e-3, .worst = 2e-3, .floor = 1};
    case DType::kBf16: return {.relative = 6e-3, .worst = 1e-2, .floor = 1};
    default: return {.relative = 1e-5, .worst = 4e-5, .floor = 1};
  }
}

int64_t SelectiveScan::items(const Problem& problem, const Parameter& /*output*/) {
  return problem["u"].extent(0) * problem["u"].extent(1);
}

void SelectiveScan::reference(const Problem& problem, Slice slice,
                              std::span<double* const> expected) {
  double* out = expected[static_cast<size_t>(problem.operation->index_of("out"))];
  double* last = expected[static_cast<size_t>(problem.operation->index_of("last_state"))];
  for (int64_t row = slice.first; row < slice.last; ++row) {
    const Line line(problem, row);
    std::vector<double> x(static_cast<size_t>(line.states));
    for (int64_t n = 0; n < line.states; ++n) {
      x[static_cast<size_t>(n)] = element_or(problem["initial_state"], row * line.states + n, 0);
    }
    const double d = element_or(problem["d"], line.channel, 0);
    for (int64_t t = 0; t < line.length; ++t) {
      const double size = line.size(t);
      const double u = line.u(t);
      double y = d * u;
      for (int64_t n = 0; n < line.states; ++n) {
        double& state = x[static_cast<size_t>(n)];
        state = std::exp(size * line.a[static_cast<size_t>(n)]) * state + size * line.b(n, t) * u;
        y += line.c(n, t) * state;
      }
      if (problem["z"].exists()) {
        const double z = element(problem["z"], line.at(t));
        y *= z * sigmoid(z);
      }
      if (out != nullptr) out[(row - slice.first) * line.length + t] = y;
    }
    if (last != nullptr) {
      std::ranges::copy(x, last + (row - slice.first) * line.states);
    }
  }
}

// ---- The gradient -----------------------------------------------------------------------------

namespace {

// What a channel of a batch adds to each output; db and dc of [N, L].
struct Gradient {
  std::vector<double> du, ddelta, dz, da, db, dc, dinitial;
  double dd = 0;
  double dbias = 0;

  explicit Gradient(const Line& line)
      : du(static_cast<size_t>(line.length)),
        ddelta(du.size()),
        dz(du.size()),
        da(static_cast<size_t>(line.states)),
        db(du.size() * da.size()),
        dc(db.size()) {
    const Tensor& z = line.problem["z"];
    const size_t states = da.size();
    const size_t length = du.size();
    const double d = element_or(line.problem["d"], line.channel, 0);
    std::vector<double> x((length + 1) * states);
    std::vector<double> later(states);  // what the steps behind make of a state
    const int64_t row = line.batch * line.dim + line.channel;
    const int64_t rows = line.problem["u"].extent(0) * line.dim;
    for (size_t n = 0; n < states; ++n) {
      const int64_t state = row * line.states + static_cast<int64_t>(n);
      x[n] = element_or(line.problem["states"], state, 0);
      later[n] = element_or(line.problem["states"], rows * line.states + state, 0);
    }
    for (size_t t = 0; t < length; ++t) {
      const auto at = static_cast<int64_t>(t);
      for (size_t n = 0; n < states; ++n) {
        x[(t + 1) * states + n] = std::exp(line.size(at) * line.a[n]) * x[t * states + n] +
                                  line.size(at) * line.b(static_cast<int64_t>(n), at) * line.u(at);
      }
    }
    for (size_t t = length; t-- > 0;) {
      const auto at = static_cast<int64_t>(t);
      const double u = line.u(at);
      const double size = line.size(at);
      double dy = element(line.problem["g"], line.at(at));
      if (z.exists()) {
        const double gate = element(z, line.at(at));
        const double open = sigmoid(gate);
        double y = d * u;
        for (size_t n = 0; n < states; ++n) {
          y += line.c(static_cast<int64_t>(n), at) * x[(t + 1) * states + n];
        }
        dz[t] = dy * y * open * (1 + gate * (1 - open));
        dy *= gate * open;
      }
      double of_size = 0;
      du[t] = d * dy;
      dd += dy * u;
      for (size_t n = 0; n < states; ++n) {
        const auto state = static_cast<int64_t>(n);
        const double decay = std::exp(size * line.a[n]);
        const double kept = decay * x[t * states + n];
        const double h = line.c(state, at) * dy + later[n];
        dc[n * length + t] = dy * x[(t + 1) * states + n];
        db[n * length + t] = h * size * u;
        du[t] += h * size * line.b(state, at);
        of_size += h * (line.a[n] * kept + line.b(state, at) * u);
        da[n] += h * size * kept;
        later[n] = decay * h;
      }
      ddelta[t] = of_size * line.slope(at);
      dbias += ddelta[t];
    }
    dinitial = std::move(later);
  }
};

void add(std::span<const double> what, double* to) {
  for (const double one : what) *to++ += one;
}

}  // namespace

Cases SelectiveScanBackward::cases() {
  return {.smoke = kBackwardSmoke, .verify = kBackwardVerify, .bench = kBench};
}

// The forward once more, and four times as much for the way back.
Cost SelectiveScanBackward::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 28 * static_cast<double>(problem["u"].elements() * problem["a"].extent(1))};
}

// Sums over channels and steps may be small beside what they are of, which of few says nothing.
Tolerance SelectiveScanBackward::tolerance(const Problem& problem, const Parameter& output) {
  const Tensor& u = problem["u"];
  if (u.extent(2) == 1) return {.worst = 1e-2, .floor = 1};
  if (output.name == "dchannel") {
    const auto terms = static_cast<double>(u.extent(0) * u.extent(2));
    return {.relative = 2e-5, .worst = 5e-5, .floor = 1 + std::sqrt(terms)};
  }
  const double floor =
      output.name == "dgroup" ? 1 + std::sqrt(static_cast<double>(u.extent(1))) : 1;
  if (output.name == "dinitial_state") return {.relative = 2e-5, .worst = 1e-4, .floor = 1};
  switch (problem.dtype()) {
    case DType::kF16: return {.relative = 1e-3, .worst = 2e-3, .floor = floor};
    case DType::kBf16: return {.relative = 6e-3, .worst = 1e-2, .floor = floor};
    default: return {.relative = 2e-5, .worst = 1e-4, .floor = floor};
  }
}

// Of steps and states a batch; sums are one.
int64_t SelectiveScanBackward::items(const Problem& problem, const Parameter& output) {
  if (output.name == "dchannel" || output.name == "dgroup") return 1;
  return problem["u"].extent(0);
}

void SelectiveScanBackward::reference(const Problem& problem, Slice slice,
                                      std::span<double* const> expected) {
  const auto to = [&](std::string_view name) {
    return expected[static_cast<size_t>(problem.operation->index_of(name))];
  };
  const Tensor& u = problem["u"];
  const Tensor& b = problem["b"];
  const int64_t batches = u.extent(0);
  const int64_t dim = u.extent(1);
  const int64_t length = u.extent(2);
  const int64_t states = problem["a"].extent(1);
  const int64_t of_group = states * length;
  const int64_t groups = b.rank == 4 ? b.extent(1) : 1;
  double* const dchannel = to("dchannel");
  double* const dgroup = to("dgroup");
  const bool of_batches = to("du") != nullptr || to("ddelta") != nullptr || to("dz") != nullptr ||
                          to("dinitial_state") != nullptr;
  const bool of_all = dchannel != nullptr || dgroup != nullptr;
  const int64_t in_groups = batches * groups * of_group;
  if (dchannel != nullptr) std::fill_n(dchannel, (states + 2) * dim, 0.0);
  if (dgroup != nullptr) std::fill_n(dgroup, 2 * in_groups, 0.0);
  for (int64_t batch = 0; batch < batches; ++batch) {
    const bool is_asked = of_batches && batch >= slice.first && batch < slice.last;
    for (int64_t channel = 0; channel < dim; ++channel) {
      if (!is_asked && !of_all) continue;
      const Gradient gradient(Line(problem, batch * dim + channel));
      if (dchannel != nullptr) {
        for (int64_t n = 0; n < states; ++n) {
          dchannel[n * dim + channel] += gradient.da[static_cast<size_t>(n)];
        }
        dchannel[states * dim + channel] += gradient.dd;
        dchannel[(states + 1) * dim + channel] += gradient.dbias;
      }
      if (dgroup != nullptr) {
        double* const group = dgroup + (batch * groups + channel / (dim / groups)) * of_group;
        add(gradient.db, group);
        add(gradient.dc, group + in_groups);
      }
      if (!is_asked) continue;
      const int64_t row = (batch - slice.first) * dim + channel;
      const auto copy = [&](std::string_view name, const std::vector<double>& from, int64_t size) {
        if (to(name) != nullptr) std::ranges::copy(from, to(name) + row * size);
      };
      copy("du", gradient.du, length);
      copy("ddelta", gradient.ddelta, length);
      copy("dz", gradient.dz, length);
      copy("dinitial_state", gradient.dinitial, states);
    }
  }
}

// Decays from a step's to hundreds of steps', as models have them.
void Common::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  const auto uniform = [seed](int64_t i) { return random_uniform(seed, static_cast<uint64_t>(i)); };
  if (name == "a") {
    const int64_t states = std::max<int64_t>(tensor.extent(1), 1);
    fill_with(tensor, [&](int64_t i) {
      return -static_cast<double>(1 + i % states % 16) * (0.5 + uniform(i));
    });
  } else if (name == "delta") {
    const bool softplus = problem.flag("delta_softplus");
    fill_with(tensor, [&](int64_t i) { return softplus ? 3 * uniform(i) - 4 : 0.2 * uniform(i); });
  } else if (name == "delta_bias") {
    const bool softplus = problem.flag("delta_softplus");
    fill_with(tensor, [&](int64_t i) { return softplus ? uniform(i) - 0.25 : 0.1 * uniform(i); });
  } else {
    fill_normal(tensor, seed);
  }
}

}  // namespace ws::selective_scan
