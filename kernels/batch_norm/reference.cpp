// Batch and group norm on the host in double precision, and what rungs are checked on.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/batch_norm/operations.hpp"

namespace ws::batch_norm {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool has(const Problem& problem, std::string_view name) {
  return problem.operation->index_of(name) >= 0;
}
// Where the values of a tensor go that is written; null: nobody asks.
double* target_of(const Problem& problem, std::span<double* const> expected,
                  std::string_view name) {
  const int at = problem.operation->index_of(name);
  return at < 0 ? nullptr : expected[static_cast<size_t>(at)];
}
double element_or(const Tensor& tensor, int64_t index, double standard) {
  return tensor.exists() ? element(tensor, index) : standard;
}

// Sets, and what lies in them, as logical indices of row-major [batch, channels, spatial].
struct Shape {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t spatial = 1;
  int64_t groups = 0;  // 0: batch_norm

  explicit Shape(const Problem& problem) {
    const Tensor& x = problem.tensor(0);
    batch = x.extent(0);
    channels = x.extent(1);
    for (int d = 2; d < x.rank; ++d) spatial *= x.extent(d);
    for (const Attribute& attribute : problem.operation->attributes) {
      if (attribute.name == "groups") groups = problem.integer("groups");
    }
  }
  bool is_batch() const { return groups == 0; }
  int64_t sets() const { return is_batch() ? channels : batch * groups; }
  int64_t width() const { return is_batch() ? 1 : channels / groups; }
  int64_t count() const { return is_batch() ? batch * spatial : width() * spatial; }
  int64_t rows() const { return batch * channels; }
  int64_t set_of_row(int64_t row) const {
    return is_batch() ? row % channels : row / channels * groups + row % channels / width();
  }
  // f(row) for each run of `spatial` elements of a set.
  template <class F>
  void each_row(int64_t set, const F& f) const {
    if (is_batch()) {
      for (int64_t n = 0; n < batch; ++n) f(n * channels + set);
    } else {
      for (int64_t c = 0; c < width(); ++c) {
        f(set / groups * channels + set % groups * width() + c);
      }
    }
  }
};

struct Statistics {
  double mean = kNaN;
  double variance = kNaN;
};
Statistics statistics_of(const Tensor& x, const Shape& shape, int64_t set) {
  const auto count = static_cast<double>(shape.count());
  if (count == 0) return {};
  double sum = 0;
  const auto each = [&](const auto& f) {
    shape.each_row(set, [&](int64_t row) {
      for (int64_t i = 0; i < shape.spatial; ++i) f(element(x, row * shape.spatial + i));
    });
  };
  each([&](double v) { sum += v; });
  const double mean = sum / count;
  double squares = 0;
  each([&](double v) { squares += (v - mean) * (v - mean); });
  return {mean, squares / count};
}

// Of the sets that a slice of rows meets, each once.
template <class Value, class Make>
class OfSets {
 public:
  OfSets(int64_t sets, Make make) : known_(static_cast<size_t>(sets)), make_(std::move(make)) {}
  const Value& operator[](int64_t set) {
    Known& known = known_[static_cast<size_t>(set)];
    if (!known.is) known = {true, make_(set)};
    return known.value;
  }

 private:
  struct Known {
    bool is = false;
    Value value{};
  };
  std::vector<Known> known_;
  Make make_;
};
template <class Value, class Make>
OfSets<Value, Make> of_sets(int64_t sets, Make make) {
  return {sets, std::move(make)};
}

// ---- Cases ------------------------------------------------------------------------------------

constexpr Case of(int64_t batch, int64_t channels, int64_t spatial, int64_t layout = kContiguous,
                  int64_t has = kBoth) {
  return {.extents = {batch, channels, spatial, layout, has}};
}
constexpr Case grouped(Case chosen, int64_t groups) {
  chosen.attributes[0] = groups;
  return chosen;
}
constexpr Case evaluated(Case chosen) {
  chosen.attributes[0] = false;
  return chosen;
}
constexpr Case placed(Case chosen, int offset) {
  chosen.offset = offset;
  return chosen;
}

constexpr Case kSmoke[] = {
    of(3, 16, 10),
    of(4, 3, 49, kContiguous, kF32),
    of(6, 16, 8, kSideBySide, kNeither),
    of(2, 5, 6, kGaps),
    of(3, 2, 3200),
};
constexpr Case kVerify[] = {
    // Every special channel; runs around the widths of a vector and of a warp.
    of(5, 17, 1),
    of(2, 17, 7, kContiguous, kWeightOnly),
    of(7, 16, 8),
    of(1, 17, 33, kContiguous, kBiasOnly),
    of(3, 16, 49, kContiguous, kF32),
    of(9, 16, 64, kImages),
    of(33, 2, 196),
    of(2, 2, 3136),
    of(1, 1, 5001),
    of(4, 1, 12544),  // a cluster of several blocks
    of(2, 8, 2100),   // more channels than a queue holds, over several blocks each
    of(40, 16, 49),   // bands of several samples a warp
    // Channels side by side.
    of(40, 24, 1, kMatrix),
    of(9, 16, 5, kSideBySide, kF32),
    of(3, 264, 49, kSideBySide),
    of(2, 3, 50, kSideBySide),
    of(7, 8, 300, kSideBySide, kWeightOnly),
    of(20, 1104, 1, kMatrix),
    of(4, 264, 405, kSideBySide),  // more than four multiprocessors hold
    of(50, 40, 1, kWideRows),
    // Vectors that meet three channels and more.
    of(4, 16, 3),
    of(4, 16, 5),
    // Other strides.
    of(3, 6, 10, kGaps, kF32),
    of(5, 4, 24, kOneSample),
    placed(of(3, 16, 50), 1),
    placed(of(3, 16, 24, kSideBySide), 3),
    // Nothing to do.
    of(0, 8, 4),
    of(4, 8, 0),
};
// Of operations whose rungs are those of batch_norm_forward, and some of it only theirs.
constexpr Case kVerifyMore[] = {
    of(5, 17, 1),
    of(7, 16, 8),
    of(3, 16, 49, kContiguous, kF32),
    of(2, 1, 6000, kContiguous, kWeightOnly),
    of(40, 24, 1, kMatrix),
    of(9, 16, 5, kSideBySide, kBiasOnly),
    of(3, 6, 10, kGaps, kF32),
    placed(of(3, 16, 50), 1),
    of(0, 8, 4),
    of(4, 8, 0),
};
constexpr Case kBench[] = {
    of(32, 64, 12544, kContiguous, kF32), of(32, 256, 3136, kContiguous, kF32),
    of(32, 512, 784, kContiguous, kF32),  of(128, 2048, 49, kContiguous, kF32),
    of(256, 3, 50176, kContiguous, kF32), of(32, 64, 12544, kSideBySide, kF32),
    of(32, 256, 3136, kSideBySide, kF32), of(32, 512, 784, kSideBySide, kF32),
    of(128, 2048, 49, kSideBySide, kF32), of(65536, 1024, 1, kMatrix, kF32),
};
constexpr Case kBackwardSmoke[] = {
    kSmoke[0], kSmoke[1], kSmoke[2], kSmoke[3], kSmoke[4], evaluated(of(2, 8, 9)),
};
constexpr Case kBackwardVerify[] = {
    of(4, 16, 3),
    of(4, 16, 5),
    of(5, 17, 1),
    of(2, 17, 7, kContiguous, kNeither),
    of(7, 16, 8),
    of(3, 16, 49, kContiguous, kF32),
    of(9, 16, 64, kImages),
    of(33, 2, 196),
    of(2, 2, 3136),
    of(1, 1, 5001),
    of(4, 1, 12544),
    of(2, 8, 2100),
    of(40, 16, 49),
    of(40, 24, 1, kMatrix),
    of(20, 1104, 1, kMatrix),
    of(9, 16, 5, kSideBySide, kF32),
    of(3, 264, 49, kSideBySide),
    of(2, 264, 405, kSideBySide),  // more than four multiprocessors hold
    of(50, 40, 1, kWideRows),
    of(2, 3, 50, kSideBySide),
    of(3, 6, 10, kGaps, kF32),
    of(5, 4, 24, kOneSample),
    placed(of(3, 16, 50), 1),
    placed(of(3, 16, 24, kSideBySide), 3),
    evaluated(of(3, 16, 49)),
    evaluated(of(4, 16, 9, kSideBySide)),
    of(0, 8, 4),
    of(4, 8, 0),
};

constexpr Case kGroupSmoke[] = {
    grouped(of(4, 8, 10), 2),  // more sets than a queue holds
    grouped(of(1, 5, 49, kContiguous, kF32), 5),
    grouped(of(2, 8, 9, kSideBySide, kNeither), 2),
    grouped(of(2, 4, 6, kGaps), 2),
    grouped(of(2, 4, 16), 2),  // runs of whole vectors
};
constexpr Case kGroupVerify[] = {
    grouped(of(17, 4, 1), 2),
    grouped(of(5, 12, 7, kContiguous, kWeightOnly), 4),
    grouped(of(9, 16, 8), 2),
    grouped(of(3, 32, 49, kContiguous, kF32), 8),
    grouped(of(17, 3, 64), 3),
    grouped(of(2, 6, 3136), 2),
    grouped(of(3, 12, 10, kImages, kBiasOnly), 3),
    grouped(of(3, 16, 25, kSideBySide), 4),
    // Channels side by side: groups of whole vectors; that begin and end within one; of one
    // channel; all channels, more vectors than a warp has lanes; several blocks of a cluster, the
    // last of which has fewer rows; spans of which the last has fewer groups; rows apart.
    grouped(of(3, 64, 50, kSideBySide), 8),
    grouped(of(2, 80, 33, kSideBySide, kF32), 8),
    grouped(of(5, 24, 70, kSideBySide, kWeightOnly), 24),
    grouped(of(2, 264, 21, kSideBySide, kNeither), 1),
    grouped(of(2, 24, 19, kSideBySide, kBiasOnly), 8),
    grouped(of(1, 16, 5003, kSideBySide), 4),
    grouped(of(2, 176, 9, kSideBySide, kF32), 22),
    grouped(of(2, 40, 23, kWideSides), 4),
    grouped(placed(of(3, 16, 24, kSideBySide), 3), 4),
    grouped(of(3, 6, 10, kGaps, kF32), 2),
    grouped(of(5, 4, 24, kOneSample), 2),
    grouped(placed(of(3, 16, 50), 1), 8),
    grouped(of(0, 8, 4), 2),
    grouped(of(4, 8, 0), 2),
};
constexpr Case kGroupBench[] = {
    grouped(of(32, 256, 3136), 32),
    grouped(of(8, 320, 4096), 32),
    grouped(of(32, 512, 784), 32),
    grouped(of(32, 64, 12544), 64),
    grouped(of(32, 256, 3136, kSideBySide), 32),
    grouped(of(8, 320, 4096, kSideBySide), 32),
    grouped(of(32, 512, 784, kSideBySide), 32),
    grouped(of(32, 64, 12544, kSideBySide), 64),
    grouped(of(256, 256, 196), 256),
    grouped(of(256, 512, 49), 32),
};

// Rounding of a result, in the measures of Tolerance.
Tolerance of_rounding(DType dtype) {
  switch (dtype) {
    case DType::kF16: return {.relative = 1e-3, .worst = 2e-3, .floor = 1};
    case DType::kBf16: return {.relative = 6e-3, .worst = 8e-3, .floor = 1};
    default: return {.relative = 2e-6, .worst = 1e-5, .floor = 1};
  }
}

Tensor tensor_of(const Case& chosen, DType dtype) {
  const auto [batch, channels, spatial, layout] =
      std::array{chosen.extents[0], chosen.extents[1], chosen.extents[2], chosen.extents[3]};
  if (layout == kMatrix) return Tensor::dense(dtype, {batch * spatial, channels});
  if (layout == kImages) return Tensor::dense(dtype, {batch, channels, 2, spatial / 2});
  if (layout == kWideRows) {
    Tensor x = Tensor::dense(dtype, {batch * spatial, channels});
    x.strides[0] += 16;
    return x;
  }
  Tensor x = Tensor::dense(dtype, {batch, channels, spatial});
  if (layout == kSideBySide) x.strides = {spatial * channels, 1, channels};
  if (layout == kWideSides) x.strides = {spatial * (channels + 16), 1, channels + 16};
  if (layout == kOneSample) x.strides = {spatial, batch * spatial, 1};
  if (layout == kGaps) x.strides = {2 * channels * spatial + 6, 2 * spatial, 2};
  return x;
}
Tensor channel_tensor(const Case& chosen, DType dtype) {
  Tensor tensor = Tensor::dense(dtype, {chosen.extents[1]});
  if (chosen.extents[3] == kGaps) tensor.strides[0] = 2;
  return tensor;
}

}  // namespace

Cases BatchNormForward::cases() { return {.smoke = kSmoke, .verify = kVerify, .bench = kBench}; }
Cases BatchNormTraining::cases() {
  return {.smoke = kSmoke, .verify = kVerifyMore, .bench = kBench};
}
Cases BatchNormInference::cases() { return BatchNormTraining::cases(); }
Cases BatchNormBackward::cases() {
  return {.smoke = kBackwardSmoke, .verify = kBackwardVerify, .bench = kBench};
}
Cases GroupNormForward::cases() {
  return {.smoke = kGroupSmoke, .verify = kGroupVerify, .bench = kGroupBench};
}
Cases GroupNormBackward::cases() { return GroupNormForward::cases(); }

void Common::make(const Case& chosen, DType dtype, Problem& problem) {
  problem.tensor(0) = tensor_of(chosen, dtype);
  const int64_t has_what = chosen.extents[4];
  const DType parameters = has_what == kF32 ? DType::kF32 : dtype;
  if (has_what != kNeither && has_what != kBiasOnly) {
    problem["weight"] = channel_tensor(chosen, parameters);
  }
  if (has(problem, "bias") && has_what != kNeither && has_what != kWeightOnly) {
    problem["bias"] = channel_tensor(chosen, parameters);
  }
  if (has(problem, "running_mean")) {
    problem["running_mean"] = channel_tensor(chosen, parameters);
    problem["running_var"] = channel_tensor(chosen, parameters);
  }
  // Outputs as an owner of such memory would bring.
  if (has(problem, "y")) {
    problem["y"] = tensor_of(chosen, dtype);
    return;
  }
  problem["x"] = problem["dx"] = tensor_of(chosen, dtype);
  const Shape shape(problem);
  const Tensor statistic = shape.is_batch()
                               ? Tensor::dense(DType::kF32, {shape.channels})
                               : Tensor::dense(DType::kF32, {shape.batch, shape.groups});
  problem["mean"] = problem["rstd"] = statistic;
}

Cost Common::cost(const Problem& problem) {
  // Sum, centre, square, scale, shift; of the gradient two sums of two and three to combine.
  const double flops = has(problem, "grad") ? 10 : (has(problem, "mean") ? 7 : 3);
  return {.bytes = least_traffic(problem),
          .flops = flops * static_cast<double>(problem.tensor(0).elements())};
}

// Results are differences scaled to the order of 1. A thread that sums a channel by itself errs
// like a random walk; channels far from 0, which fill() has, lose what their distance takes.
Tolerance Common::tolerance(const Problem& problem, const Parameter& output) {
  const double walk = 0x1p-24 * std::sqrt(static_cast<double>(Shape(problem).count()));
  const bool backward = has(problem, "grad");
  Tolerance tolerance = of_rounding(problem[output.name].dtype);
  if (output.name == "mean") {
    // Those of few sets may all be near 0: then their norm is no measure. The twelfth set's numbers
    // are of the order of 1000, which its mean need not be.
    const int64_t sets = Shape(problem).sets();
    tolerance = {.relative = sets < 64 ? 0 : 1e-6 + walk,
                 .worst = 1e-5 + 100 * walk + (sets > 11 ? 2000 * 0x1p-24 : 0),
                 .floor = 1};
  } else if (output.name == "rstd") {
    tolerance = {.relative = 1e-5 + 4 * walk, .worst = 2e-5 + 100 * walk, .floor = 1e-3};
  } else if (output.name == "dweight" || output.name == "dbias") {
    // Sums of numbers of both signs, some hundred times larger than their sum may be.
    tolerance.relative += 1e-5 + 100 * walk;
    tolerance.worst += 1e-5 + 100 * walk;
    tolerance.floor = 1 + std::sqrt(static_cast<double>(Shape(problem).count()));
  } else {
    tolerance.relative += 50 * walk;
    tolerance.worst += 200 * walk;
    if (backward) tolerance.relative += 1e-5;
  }
  return tolerance;
}

int64_t Common::items(const Problem& problem, const Parameter& output) {
  const Shape shape(problem);
  if (output.name == "y" || output.name == "dx") return shape.rows();
  if (output.name == "mean" || output.name == "rstd") return shape.sets();
  return shape.channels;
}

namespace {

void reference_forward(const Problem& problem, const Shape& shape, Slice slice,
                       std::span<double* const> expected) {
  const Tensor& x = problem["x"];
  const Tensor& running_mean = problem.find("running_mean");
  const Tensor& running_var = problem.find("running_var");
  const double eps = problem.number("eps");
  const bool given = !has(problem, "mean");
  auto statistics = of_sets<Statistics>(shape.sets(), [&](int64_t set) {
    return given ? Statistics{element(running_mean, set), element(running_var, set)}
                 : statistics_of(x, shape, set);
  });
  double* y = target_of(problem, expected, "y");
  double* mean = target_of(problem, expected, "mean");
  double* rstd = target_of(problem, expected, "rstd");
  double* moved_mean = target_of(problem, expected, "running_mean");
  double* moved_var = target_of(problem, expected, "running_var");
  for (int64_t item = slice.first; item < slice.last; ++item) {
    const int64_t out = item - slice.first;
    if (mean != nullptr) mean[out] = statistics[item].mean;
    if (rstd != nullptr) rstd[out] = 1 / std::sqrt(statistics[item].variance + eps);
    if (moved_mean != nullptr || moved_var != nullptr) {
      const double count = static_cast<double>(shape.count());
      const double momentum = count == 0 ? 0 : problem.number("momentum");
      const auto move = [&](double* to, const Tensor& from, double with) {
        if (to == nullptr) return;
        const double old = element(from, item);
        to[out] = momentum == 0 ? old : old * (1 - momentum) + momentum * with;
      };
      move(moved_mean, running_mean, statistics[item].mean);
      move(moved_var, running_var, statistics[item].variance * count / (count - 1));
    }
    if (y == nullptr) continue;
    const Statistics& s = statistics[shape.set_of_row(item)];
    const int64_t c = item % shape.channels;
    const double scale = element_or(problem["weight"], c, 1) / std::sqrt(s.variance + eps);
    const double bias = element_or(problem["bias"], c, 0);
    for (int64_t i = 0; i < shape.spatial; ++i) {
      y[out * shape.spatial + i] = (element(x, item * shape.spatial + i) - s.mean) * scale + bias;
    }
  }
}

struct SetSums {
  double u = 0;
  double uz = 0;
};

void reference_backward(const Problem& problem, const Shape& shape, Slice slice,
                        std::span<double* const> expected) {
  const Tensor& grad = problem["grad"];
  const Tensor& x = problem["x"];
  const Tensor& weight = problem["weight"];
  const bool training = shape.groups > 0 || problem.flag("training");
  const auto mean = [&](int64_t set) { return element(problem["mean"], set); };
  const auto rstd = [&](int64_t set) { return element(problem["rstd"], set); };
  const auto z = [&](int64_t at, int64_t set) { return (element(x, at) - mean(set)) * rstd(set); };
  auto sums = of_sets<SetSums>(shape.sets(), [&](int64_t set) {
    SetSums found;
    shape.each_row(set, [&](int64_t row) {
      const double w = element_or(weight, row % shape.channels, 1);
      for (int64_t i = row * shape.spatial; i < (row + 1) * shape.spatial; ++i) {
        found.u += w * element(grad, i);
        found.uz += w * element(grad, i) * z(i, set);
      }
    });
    return found;
  });
  double* dx = target_of(problem, expected, "dx");
  double* dweight = target_of(problem, expected, "dweight");
  double* dbias = target_of(problem, expected, "dbias");
  for (int64_t item = slice.first; item < slice.last; ++item) {
    const int64_t out = item - slice.first;
    if (dweight != nullptr || dbias != nullptr) {
      double product = 0;
      double sum = 0;
      for (int64_t n = 0; n < shape.batch; ++n) {
        const int64_t row = n * shape.channels + item;
        for (int64_t i = row * shape.spatial; i < (row + 1) * shape.spatial; ++i) {
          product += element(grad, i) * z(i, shape.set_of_row(row));
          sum += element(grad, i);
        }
      }
      if (dweight != nullptr) dweight[out] = product;
      if (dbias != nullptr) dbias[out] = sum;
    }
    if (dx == nullptr) continue;
    const int64_t set = shape.set_of_row(item);
    const double w = element_or(weight, item % shape.channels, 1);
    const auto count = static_cast<double>(shape.count());
    for (int64_t i = 0; i < shape.spatial; ++i) {
      const int64_t at = item * shape.spatial + i;
      double d = w * element(grad, at);
      if (training) d -= (sums[set].u + z(at, set) * sums[set].uz) / count;
      dx[out * shape.spatial + i] = d * rstd(set);
    }
  }
}

}  // namespace

void Common::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Shape shape(problem);
  if (has(problem, "grad")) return reference_backward(problem, shape, slice, expected);
  reference_forward(problem, shape, slice, expected);
}

// Standard normal numbers; where there are channels enough, some hold what breaks a careless norm:
// a mean far above the deviation, no deviation, NaN, large and small numbers.
void Common::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const Shape shape(problem);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  const auto normal = [seed](int64_t i) { return random_normal(seed, static_cast<uint64_t>(i)); };
  if (name == "weight") {
    fill_with(tensor, [&](int64_t i) { return 1 + 0.25 * normal(i); });
  } else if (name == "bias" || name == "mean" || name == "running_mean") {
    fill_with(tensor, [&](int64_t i) { return 0.25 * normal(i); });
  } else if (name == "rstd" || name == "running_var") {
    fill_with(tensor,
              [&](int64_t i) { return 0.5 + random_uniform(seed, static_cast<uint64_t>(i)); });
  } else if (name == "grad" || has(problem, "grad")) {
    fill_with(tensor, normal);
  } else {
    fill_with(tensor, [&](int64_t i) {
      const int64_t set = shape.set_of_row(i / shape.spatial);
      // Of two or three numbers at 100 the deviation may be anything, and so may be what is lost.
      switch (shape.count() < 8 ? 0 : set % 16) {
        case 3: return 100 + normal(i);
        case 5: return 2.0;
        case 7:
          return i / shape.spatial < shape.channels && i % shape.spatial == 0 ? kNaN : normal(i);
        case 9: return 1e-3 * normal(i);
        case 11: return 1e3 * normal(i);
        case 13: return -100 + normal(i);
        default: return normal(i);
      }
    });
  }
}

}  // namespace ws::batch_norm
