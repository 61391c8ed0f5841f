// Non-maximum suppression: of boxes that overlap, the one with the best score.
//
//   nms_indices   kept[0], kept[1], ... in the order of scores; -1 behind them; and how many
//
// Boxes are gone through in the order of their scores, the largest first, of equals the one with
// the lower index. A box is kept unless one that was kept before it, of its own class, overlaps it
// by more than the threshold.
//
// What "by more" means is told to the last bit, and does not depend on the rung: all is in f32,
// each of these rounded by itself:
//
//   area  = (x2 - x1) * (y2 - y1)
//   inter = max(min(x2, x2') - max(x1, x1'), 0) * max(min(y2, y2') - max(y1, y1'), 0)
//   inter / ((area + area') - inter) > threshold
//
// The threshold is rounded to f32, too. A NaN among the scores is larger than any number, and all
// NaN are equal. A box with a NaN among its coordinates has an area that is NaN: nothing is more
// than that, so the box is kept, and suppresses none. What is no box (x2 < x1) and what has an
// infinite side is what this arithmetic makes of it.
#pragma once

#include "catalogue/row.hpp"

namespace ws::nms {

// Strides in elements.
struct Call {
  int64_t count = 0;
  const float* boxes = nullptr;
  int64_t box_stride = 4;
  int64_t corner_stride = 1;
  const float* scores = nullptr;
  int64_t score_stride = 1;
  const int64_t* classes = nullptr;  // null: all are of one
  int64_t class_stride = 1;
  int64_t* kept = nullptr;
  int64_t kept_stride = 1;
  int64_t* found = nullptr;  // how many
  float threshold = 0;
};

// What a case has beyond its extents, a sum of these. Strided: boxes and scores are columns of one
// matrix, as a detector writes them.
enum Options : uint8_t { kHasClasses = 1, kStrided = 2 };

struct NmsIndices {
  static constexpr std::string_view kName = "nms_indices";
  static constexpr std::string_view kSummary =
      "of boxes that overlap, the one with the best score: their indices and how many";
  static constexpr std::string_view kSource = "torchvision.ops.nms";
  static constexpr std::string_view kFormula =
      "kept: i, best score first, with iou(boxes[i], boxes[j]) <= iou_threshold of all kept before";
  static constexpr std::string_view kSeedPrefix = "nms";
  static constexpr Parameter kParameters[] = {
      {.name = "boxes", .doc = "[N, 4], f32, any strides: x1, y1, x2, y2"},
      {.name = "scores", .doc = "[N], f32, any stride"},
      {.name = "classes",
       .optional = true,
       .doc = "[N], i64, any stride: boxes of different ones do not suppress each other"},
      {.name = "kept",
       .role = Parameter::Role::kOut,
       .doc = "[N], i64: indices of the boxes that are kept, best score first, then -1",
       .shape = "(boxes.shape[0],)",
       .torch_dtype = "torch.int64"},
      {.name = "count",
       .role = Parameter::Role::kOut,
       .doc = "of the boxes that are kept, i64, of rank 0",
       .shape = "()",
       .torch_dtype = "torch.int64"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "iou_threshold",
       .kind = Value::Kind::kFloat,
       .doc = "from 0 to 1: what is more than that suppresses"},
  };
  // options: a sum of Options.
  static constexpr std::string_view kExtentNames[] = {"N", "options"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = {DType::kF32};
  static constexpr std::string_view kTorch = R"(
order = torch.sort(scores, descending=True, stable=True).indices
b = boxes[order]
low = torch.maximum(b[:, None, :2], b[None, :, :2])
high = torch.minimum(b[:, None, 2:], b[None, :, 2:])
sides = (high - low).clamp(min=0)
inter = sides[..., 0] * sides[..., 1]
area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
overlap = inter / ((area[:, None] + area) - inter) > iou_threshold
if classes is not None:
    overlap = overlap & (classes[order][:, None] == classes[order])
suppressed = torch.zeros(len(scores), dtype=torch.bool, device=boxes.device)
for i in range(len(scores)):
    suppressed = suppressed | (overlap[i] & ~suppressed[i] &
                               (torch.arange(len(scores), device=boxes.device) > i))
kept = order[~suppressed]
padded = torch.full_like(order, -1)
padded[:len(kept)] = kept
return padded, torch.tensor(len(kept), device=boxes.device))";
  static constexpr PythonPeer kPythonPeers[] = {
      {"torchvision",
       "torchvision.ops.nms(boxes, scores, iou_threshold) if classes is None else "
       "refuse('is timed without classes')"},
  };

  using Call = nms::Call;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::nms
