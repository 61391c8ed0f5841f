// What the suppression is checked against: the definition, in f32 rounded step by step on the host;
// its shapes, inputs and cost, and the problems to verify and to time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/nms/operations.hpp"

namespace ws::nms {
namespace {

enum Operand : uint8_t { kBoxes, kScores, kClasses, kKept, kFound };

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

bool is_above(const Corners& a, const Corners& b, float threshold) {
  const float width = std::fmax(std::fmin(a.x2, b.x2) - std::fmax(a.x1, b.x1), 0.0F);
  const float height = std::fmax(std::fmin(a.y2, b.y2) - std::fmax(a.y1, b.y1), 0.0F);
  const float inter = product(width, height);
  return inter / ((a.area() + b.area()) - inter) > threshold;
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
      return are_rivals(i, j) && is_above(corners_of(problem, j), box, threshold);
    });
    if (!is_suppressed) kept.push_back(i);
  }
  return kept;
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

Call NmsIndices::call(const Problem& problem) {
  const Tensor& boxes = problem.tensor(kBoxes);
  const Tensor& scores = problem.tensor(kScores);
  const Tensor& classes = problem.tensor(kClasses);
  const Tensor& kept = problem.tensor(kKept);
  Call call;
  call.count = scores.extent(0);
  call.boxes = boxes.as<const float>();
  call.box_stride = boxes.stride(0);
  call.corner_stride = boxes.stride(1);
  call.scores = scores.as<const float>();
  call.score_stride = scores.stride(0);
  if (classes.exists()) {
    call.classes = classes.as<const int64_t>();
    call.class_stride = classes.stride(0);
  }
  call.kept = kept.as<int64_t>();
  call.kept_stride = kept.stride(0);
  call.found = problem.tensor(kFound).as<int64_t>();
  call.threshold = static_cast<float>(problem.number("iou_threshold"));
  return call;
}

void NmsIndices::infer(Problem& problem) {
  const Tensor& boxes = problem.tensor(kBoxes);
  const Tensor& scores = problem.tensor(kScores);
  const Tensor& classes = problem.tensor(kClasses);
  require(boxes.rank == 2 && boxes.extent(1) == 4 && boxes.dtype == DType::kF32,
          "nms_indices takes boxes of f32 [N, 4], not ", boxes);
  const int64_t count = boxes.extent(0);
  require(scores.rank == 1 && scores.extent(0) == count && scores.dtype == DType::kF32,
          "nms_indices takes scores of f32 [", count, "], not ", scores);
  require(!classes.exists() ||
              (classes.rank == 1 && classes.extent(0) == count && classes.dtype == DType::kI64),
          "nms_indices takes classes of i64 [", count, "], not ", classes);
  require(count <= std::numeric_limits<uint32_t>::max() - 1, "nms_indices takes up to 2^32 - 2 ",
          "boxes, not ", count);
  const double threshold = problem.number("iou_threshold");
  require(threshold >= 0 && threshold <= 1, "nms_indices takes an iou_threshold from 0 to 1, not ",
          threshold);
  problem.tensor(kKept) = Tensor::dense(DType::kI64, {count});
  problem.tensor(kFound) = Tensor::dense(DType::kI64, {});
}

void NmsIndices::make(const Case& chosen, DType dtype, Problem& problem) {
  const int64_t count = chosen.extents[0];
  const int64_t options = chosen.extents[1];
  problem.tensor(kBoxes) = Tensor::dense(dtype, {count, 4});
  problem.tensor(kScores) = Tensor::dense(dtype, {count});
  if ((options & kHasClasses) != 0) {
    problem.tensor(kClasses) = Tensor::dense(DType::kI64, {count});
  }
  if ((options & kStrided) != 0) {
    problem.tensor(kBoxes).strides[0] = 6;
    for (const int i : {kScores, kClasses}) problem.tensor(i).strides[0] = 6;
  }
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
  const Tensor& tensor = problem.tensor(index);
  const int64_t count = problem.tensor(kScores).extent(0);
  fill_with(tensor, [&](int64_t i) -> double {
    if (index == kBoxes) return coordinate(count, i / 4, static_cast<int>(i % 4), seed);
    const double u = random_uniform(seed, static_cast<uint64_t>(i));
    if (index == kClasses) return std::floor(u * 3) - 1;
    if (count > 400) return u;
    return i % 37 == 36 ? std::numeric_limits<double>::quiet_NaN() : std::floor(u * 50) / 50;
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

// ---- Cases ------------------------------------------------------------------------------------

namespace {

Case boxes(int64_t count, double threshold, int64_t options = 0, int offset = 0) {
  return {.extents = {count, options}, .offset = offset, .attributes = {Value(threshold)}};
}

}  // namespace

Cases NmsIndices::cases() {
  static const std::array kSmoke = {
      boxes(40, 0.5),
      boxes(90, 0.3, kHasClasses | kStrided, 1),
  };
  // Around the 64 of a tile, the 256 of a block; more tiles than are looked at together; the ends
  // of the threshold's range.
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
      boxes(1100, 0.5),
  };
  static const std::array kBench = {
      boxes(1000, 0.5),
      boxes(8192, 0.5),
      boxes(32768, 0.5),
  };
  return {kSmoke, kVerify, kBench};
}

}  // namespace ws::nms
