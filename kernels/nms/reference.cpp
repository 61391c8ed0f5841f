// What the suppression is checked against: the definition, in f32 rounded step by step on the host;
// its shapes, inputs and cost, and the problems to verify and to time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/nms/exponential.hpp"
#include "kernels/nms/operations.hpp"

namespace ws::nms {
namespace {

// Of both operations; the third is nms_indices' classes, and soft_nms' scores as they have become.
enum Operand : uint8_t { kBoxes, kScores, kClasses, kDecayed = kClasses, kKept, kFound };

// ---- The definition -----------------------------------------------------------------------------

// A result of two f32 in f64 has more than twice the digits of f32: rounded once more it is what
// f32 would have given, on every machine, whether or not it makes one operation of two.
float product(float a, float b) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}

struct Corners {
  float x1, y1, x2, y2;

  float area() const { return product(x2 - x1, y2 - y1); }
};

float quotient_of(const Corners& a, const Corners& b) {
  const float width = std::fmax(std::fmin(a.x2, b.x2) - std::fmax(a.x1, b.x1), 0.0F);
  const float height = std::fmax(std::fmin(a.y2, b.y2) - std::fmax(a.y1, b.y1), 0.0F);
  const float inter = product(width, height);
  return inter / ((a.area() + b.area()) - inter);
}

Corners corners_of(const Problem& problem, int64_t i) {
  const auto at = [&](int64_t corner) {
    return static_cast<float>(element(problem.tensor(kBoxes), 4 * i + corner));
  };
  return {at(0), at(1), at(2), at(3)};
}

std::vector<int64_t> by_score(const Problem& problem) {
  std::vector<int64_t> order(static_cast<size_t>(problem.tensor(kScores).extent(0)));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, [&](int64_t i, int64_t j) {
    const double a = element(problem.tensor(kScores), i);
    const double b = element(problem.tensor(kScores), j);
    return std::isnan(a) ? !std::isnan(b) : a > b;
  });
  return order;
}

std::vector<int64_t> kept_of(const Problem& problem) {
  const auto threshold = static_cast<float>(problem.number("iou_threshold"));
  const Tensor& classes = problem.tensor(kClasses);
  const auto are_rivals = [&](int64_t i, int64_t j) {
    return !classes.exists() || element(classes, i) == element(classes, j);
  };
  std::vector<int64_t> kept;
  for (const int64_t i : by_score(problem)) {
    const Corners box = corners_of(problem, i);
    const bool is_suppressed = std::ranges::any_of(kept, [&](int64_t j) {
      return are_rivals(i, j) && quotient_of(corners_of(problem, j), box) > threshold;
    });
    if (!is_suppressed) kept.push_back(i);
  }
  return kept;
}

// What has become of scores, and who was taken.
struct Taken {
  std::vector<float> scores;
  std::vector<size_t> order;
};

float factor_of(const Problem& problem, float quotient) {
  const float iou = quotient > 0 ? std::min(quotient, 1.0F) : 0;
  if (problem.choice<Method>("method") == Method::kGaussian) {
    return exp_of(-product(iou, iou) / static_cast<float>(problem.number("sigma")));
  }
  return iou > static_cast<float>(problem.number("iou_threshold")) ? 1 - iou : 1;
}

Taken taken_of(const Problem& problem) {
  const auto least = static_cast<float>(problem.number("score_threshold"));
  const auto count = static_cast<size_t>(problem.tensor(kScores).extent(0));
  Taken result;
  std::vector<Corners> boxes;
  std::vector<size_t> left;
  for (size_t i = 0; i < count; ++i) {
    boxes.push_back(corners_of(problem, static_cast<int64_t>(i)));
    result.scores.push_back(
        static_cast<float>(element(problem.tensor(kScores), static_cast<int64_t>(i))));
    left.push_back(i);
  }
  const auto is_less = [&](size_t i, size_t j) {
    const float a = result.scores[i];
    const float b = result.scores[j];
    return std::isnan(b) ? !std::isnan(a) : a < b;
  };
  while (!left.empty()) {
    const auto best = std::ranges::max_element(left, is_less);  // of equals the first
    const size_t taken = *best;
    if (result.scores[taken] < least) break;
    result.order.push_back(taken);
    left.erase(best);
    for (const size_t i : left) {
      const float factor = factor_of(problem, quotient_of(boxes[taken], boxes[i]));
      result.scores[i] = product(result.scores[i], factor);
    }
  }
  return result;
}

// ---- Inputs -------------------------------------------------------------------------------------

// A detector's: some eight boxes around each object, of a size and at a place that differ a little.
// Few boxes are the hard ones: the corners of a grid, so that many are equal, and quotients lie on
// the threshold; some are no boxes, infinite or NaN.
double coordinate(int64_t count, int64_t i, int corner, uint64_t seed) {
  const int axis = corner % 2;
  const auto random = [&](int64_t of, int which) {
    return random_uniform(seed + static_cast<uint64_t>(which) * 2 + static_cast<uint64_t>(axis),
                          static_cast<uint64_t>(of));
  };
  if (count <= 400) {
    const double low = std::floor(random(i, 0) * std::sqrt(static_cast<double>(count)));
    const double size = std::floor(random(i, 1) * 4);
    if (i % 41 == 40 && corner == i / 41 % 4) return std::numeric_limits<double>::quiet_NaN();
    if (i % 59 == 58 && corner >= 2) return std::numeric_limits<double>::infinity();
    if (i % 23 == 22 && corner >= 2) return low - size;
    return corner < 2 ? low : low + size;
  }
  const int64_t object = static_cast<int64_t>(random_bits(seed, static_cast<uint64_t>(i)) %
                                              static_cast<uint64_t>(count / 8));
  const double size = (20 + 100 * random(object, 1)) * (0.9 + 0.2 * random(i, 2));
  const double middle = 1000 * random(object, 3) + 0.1 * size * random(i, 4);
  return corner < 2 ? middle - size / 2 : middle + size / 2;
}

}  // namespace

namespace {

// What both operations have.
Call boxes_of(const Problem& problem) {
  const Tensor& boxes = problem.tensor(kBoxes);
  const Tensor& scores = problem.tensor(kScores);
  const Tensor& kept = problem.tensor(kKept);
  Call call;
  call.count = scores.extent(0);
  call.boxes = boxes.as<const float>();
  call.box_stride = boxes.stride(0);
  call.corner_stride = boxes.stride(1);
  call.scores = scores.as<const float>();
  call.score_stride = scores.stride(0);
  call.kept = kept.as<int64_t>();
  call.kept_stride = kept.stride(0);
  call.found = problem.tensor(kFound).as<int64_t>();
  call.threshold = static_cast<float>(problem.number("iou_threshold"));
  return call;
}

void check_boxes(std::string_view name, const Tensor& boxes, const Tensor& scores) {
  require(boxes.rank == 2 && boxes.extent(1) == 4 && boxes.dtype == DType::kF32, name,
          " takes boxes of f32 [N, 4], not ", boxes);
  const int64_t count = boxes.extent(0);
  require(scores.rank == 1 && scores.extent(0) == count && scores.dtype == DType::kF32, name,
          " takes scores of f32 [", count, "], not ", scores);
  require(count <= std::numeric_limits<uint32_t>::max() - 1, name, " takes up to 2^32 - 2 boxes, ",
          "not ", count);
}

void check_threshold(const Problem& problem) {
  const double threshold = problem.number("iou_threshold");
  require(threshold >= 0 && threshold <= 1, problem.operation->name,
          " takes an iou_threshold from 0 to 1, not ", threshold);
}

void make_boxes(const Case& chosen, DType dtype, Problem& problem) {
  const int64_t count = chosen.extents[0];
  problem.tensor(kBoxes) = Tensor::dense(dtype, {count, 4});
  problem.tensor(kScores) = Tensor::dense(dtype, {count});
  if ((chosen.extents[1] & kStrided) == 0) return;
  for (const int i : {kBoxes, kScores}) problem.tensor(i).strides[0] = 6;
}

void fill_boxes(const Problem& problem, int index, uint64_t seed) {
  const int64_t count = problem.tensor(kScores).extent(0);
  fill_with(problem.tensor(index), [&](int64_t i) -> double {
    if (index == kBoxes) return coordinate(count, i / 4, static_cast<int>(i % 4), seed);
    const double u = random_uniform(seed, static_cast<uint64_t>(i));
    if (count > 400) return u;
    return i % 37 == 36 ? std::numeric_limits<double>::quiet_NaN() : std::floor(u * 50) / 50;
  });
}

}  // namespace

Call NmsIndices::call(const Problem& problem) {
  Call call = boxes_of(problem);
  const Tensor& classes = problem.tensor(kClasses);
  if (classes.exists()) {
    call.classes = classes.as<const int64_t>();
    call.class_stride = classes.stride(0);
  }
  return call;
}

void NmsIndices::infer(Problem& problem) {
  const Tensor& boxes = problem.tensor(kBoxes);
  const Tensor& scores = problem.tensor(kScores);
  const Tensor& classes = problem.tensor(kClasses);
  check_boxes(kName, boxes, scores);
  const int64_t count = boxes.extent(0);
  require(!classes.exists() ||
              (classes.rank == 1 && classes.extent(0) == count && classes.dtype == DType::kI64),
          "nms_indices takes classes of i64 [", count, "], not ", classes);
  check_threshold(problem);
  problem.tensor(kKept) = Tensor::dense(DType::kI64, {count});
  problem.tensor(kFound) = Tensor::dense(DType::kI64, {});
}

void NmsIndices::make(const Case& chosen, DType dtype, Problem& problem) {
  make_boxes(chosen, dtype, problem);
  const int64_t options = chosen.extents[1];
  if ((options & kHasClasses) == 0) return;
  problem.tensor(kClasses) = Tensor::dense(DType::kI64, {chosen.extents[0]});
  if ((options & kStrided) != 0) problem.tensor(kClasses).strides[0] = 6;
}

// Each pair is compared once, of which a kernel that knows better may leave out any: the bytes are
// those of the tensors, the flops those of all pairs.
Cost NmsIndices::cost(const Problem& problem) {
  const auto count = static_cast<double>(problem.tensor(kScores).extent(0));
  return {.bytes = least_traffic(problem), .flops = count * count / 2 * 13, .at_most = true};
}

Tolerance NmsIndices::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}

// Each box depends on all before it.
int64_t NmsIndices::items(const Problem& problem, const Parameter& output) {
  const bool is_empty = output.name == "kept" && problem.tensor(kScores).extent(0) == 0;
  return is_empty ? 0 : 1;
}

void NmsIndices::fill(const Problem& problem, int index, uint64_t seed) {
  if (index != kClasses) return fill_boxes(problem, index, seed);
  fill_with(problem.tensor(index), [&](int64_t i) {
    return std::floor(random_uniform(seed, static_cast<uint64_t>(i)) * 3) - 1;
  });
}

void NmsIndices::reference(const Problem& problem, Slice /*slice*/,
                           std::span<double* const> expected) {
  const std::vector<int64_t> kept = kept_of(problem);
  if (expected[kFound] != nullptr) *expected[kFound] = static_cast<double>(kept.size());
  if (expected[kKept] == nullptr) return;
  std::fill_n(expected[kKept], problem.tensor(kScores).extent(0), -1.0);
  std::ranges::copy(kept, expected[kKept]);
}

// ---- soft_nms
// ------------------------------------------------------------------------------------

SoftCall SoftNms::call(const Problem& problem) {
  const Tensor& decayed = problem.tensor(kDecayed);
  return {boxes_of(problem),
          problem.choice<Method>("method"),
          static_cast<float>(problem.number("sigma")),
          static_cast<float>(problem.number("score_threshold")),
          decayed.as<float>(),
          decayed.stride(0)};
}

void SoftNms::infer(Problem& problem) {
  const Tensor& boxes = problem.tensor(kBoxes);
  const Tensor& scores = problem.tensor(kScores);
  check_boxes(kName, boxes, scores);
  check_threshold(problem);
  const double sigma = problem.number("sigma");
  const auto as_f32 = static_cast<float>(sigma);
  require(as_f32 > 0 && std::isfinite(as_f32), kName,
          " takes a sigma that is above 0 and finite in f32, not ", sigma);
  const double least = problem.number("score_threshold");
  require(std::isfinite(static_cast<float>(least)), kName,
          " takes a score_threshold that is finite in f32, not ", least);
  const int64_t count = boxes.extent(0);
  problem.tensor(kDecayed) = Tensor::dense(DType::kF32, {count});
  problem.tensor(kKept) = Tensor::dense(DType::kI64, {count});
  problem.tensor(kFound) = Tensor::dense(DType::kI64, {});
}

void SoftNms::make(const Case& chosen, DType dtype, Problem& problem) {
  make_boxes(chosen, dtype, problem);
}

// As if all were taken: each is compared with all that are left.
Cost SoftNms::cost(const Problem& problem) {
  const auto count = static_cast<double>(problem.tensor(kScores).extent(0));
  return {.bytes = least_traffic(problem), .flops = count * count / 2 * 13, .at_most = true};
}

Tolerance SoftNms::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) { return {}; }

// Each box depends on all before it.
int64_t SoftNms::items(const Problem& problem, const Parameter& output) {
  const bool is_empty = output.name != "count" && problem.tensor(kScores).extent(0) == 0;
  return is_empty ? 0 : 1;
}

void SoftNms::fill(const Problem& problem, int index, uint64_t seed) {
  fill_boxes(problem, index, seed);
}

void SoftNms::reference(const Problem& problem, Slice /*slice*/,
                        std::span<double* const> expected) {
  const Taken taken = taken_of(problem);
  double* const decayed = expected[kDecayed];
  double* const kept = expected[kKept];
  double* const count = expected[kFound];
  if (count != nullptr) *count = static_cast<double>(taken.order.size());
  if (decayed != nullptr) std::ranges::copy(taken.scores, decayed);
  if (kept == nullptr) return;
  std::fill_n(kept, taken.scores.size(), -1.0);
  std::ranges::copy(taken.order, kept);
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

Case boxes(int64_t count, double threshold, int64_t options = 0, int offset = 0) {
  return {.extents = {count, options}, .offset = offset, .attributes = {Value(threshold)}};
}

// `by`: the threshold of overlaps, or sigma.
Case soft(int64_t count, Method method, double by, double least, int64_t options = 0) {
  const Value absent = {};
  const bool is_linear = method == Method::kLinear;
  return {.extents = {count, options},
          .attributes = {is_linear ? Value(by) : absent, is_linear ? absent : Value(by),
                         Value(least), Value::choice(static_cast<int>(method))}};
}

}  // namespace

Cases NmsIndices::cases() {
  static const std::array kSmoke = {
      boxes(40, 0.5),
      boxes(90, 0.3, kHasClasses | kStrided, 1),
  };
  // Around the 64 and 128 of a tile, the 256 of a block; more tiles than are looked at together;
  // the ends of the threshold's range.
  static const std::array kVerify = {
      boxes(0, 0.5),
      boxes(1, 0.5),
      boxes(2, 0.0),
      boxes(63, 0.25, kHasClasses),
      boxes(64, 0.5),
      boxes(65, 0.7, kStrided),
      boxes(128, 0.0),
      boxes(129, 1.0),
      boxes(255, 1.0 / 3, 0, 3),
      boxes(256, 0.4, kHasClasses),
      boxes(300, 0.5),
      boxes(700, 0.3, kHasClasses),
      boxes(1100, 0.5),
  };
  static const std::array kBench = {
      boxes(1000, 0.5),
      boxes(8192, 0.5),
      boxes(32768, 0.5),
  };
  return {kSmoke, kVerify, kBench};
}

Cases SoftNms::cases() {
  using enum Method;
  static const std::array kSmoke = {
      Case{.extents = {40}},
      soft(90, kGaussian, 0.5, 0.2, kStrided),
  };
  // Around the 256 and the 1024 of a block, and several boxes a thread; all are taken, and none;
  // the ends of the threshold's range, and a sigma of which all that is overlapped ends at 0.
  static const std::array kVerify = {
      soft(0, kLinear, 0.3, 0.001),           Case{.extents = {33}},
      soft(1, kGaussian, 0.5, 0.001),         soft(2, kLinear, 0.0, 2),
      soft(64, kGaussian, 0.01, 0),           soft(70, kLinear, 0.5, -1),
      soft(255, kLinear, 0.0, 0.8),           soft(256, kGaussian, 1e-5, 0.9),
      soft(257, kLinear, 1.0, 0.9, kStrided), soft(1023, kGaussian, 0.5, 0.98),
      soft(1025, kLinear, 0.3, 0.98),         soft(2100, kGaussian, 2, 0.99),
  };
  static const std::array kBench = {
      soft(1000, kLinear, 0.3, 0.001),
      soft(1000, kGaussian, 0.5, 0.001),
      soft(6000, kGaussian, 0.5, 0.001),
  };
  return {kSmoke, kVerify, kBench};
}

}  // namespace ws::nms
