// Non-maximum suppression: of boxes that overlap, the one with the best score.
//
//   nms_indices   kept[0], kept[1], ... in the order of scores; -1 behind them; and how many
//   soft_nms      the same, and scores: a box that is overlapped is worth less, and not struck out
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
//
// soft_nms (Bodla et al., 2017) takes the box with the largest score as long as that is not below a
// threshold, and multiplies the scores of all that it has not taken, also of those that it never
// will, by what depends on their overlap with it, iou, the quotient above: from 0, which a NaN is
// too, to 1.
//
//   linear     1 - iou where iou > threshold, else 1
//   gaussian   exp(-(iou * iou) / sigma)
//
// Products, quotients and differences are of f32, each rounded by itself; exp is that of decay.hpp,
// the same bits everywhere. So scores do not depend on the rung, nor do ties.
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

enum class Method : uint8_t { kLinear, kGaussian };
inline constexpr std::string_view kMethods[] = {"linear", "gaussian"};

struct SoftCall : Call {
  Method method = Method::kLinear;
  float sigma = 1;
  float least = 0;  // score of a box that is taken
  float* decayed = nullptr;
  int64_t decayed_stride = 1;
};

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

struct SoftNms {
  static constexpr std::string_view kName = "soft_nms";
  static constexpr std::string_view kSummary =
      "boxes by their scores, which each that is taken lowers for those that it overlaps";
  static constexpr std::string_view kSource =
      "Bodla et al., Soft-NMS: Improving Object Detection With One Line of Code, 2017, "
      "arXiv:1704.04503";
  static constexpr std::string_view kFormula =
      "decayed[j] = scores[j] * product over kept i before j of 1 - iou(boxes[i], boxes[j])";
  static constexpr std::string_view kSeedPrefix = "soft_nms";
  static constexpr Parameter kParameters[] = {
      {.name = "boxes", .doc = "[N, 4], f32, any strides: x1, y1, x2, y2"},
      {.name = "scores", .doc = "[N], f32, any stride"},
      {.name = "decayed",
       .role = Parameter::Role::kOut,
       .doc = "[N], f32: what each score has become; of a box that is kept, when it was taken",
       .shape = "(boxes.shape[0],)"},
      {.name = "kept",
       .role = Parameter::Role::kOut,
       .doc = "[N], i64: indices of the boxes that are kept, in their order, then -1",
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
       .standard = 0.3,
       .doc = "from 0 to 1: linear, what is more than that lowers a score"},
      {.name = "sigma",
       .kind = Value::Kind::kFloat,
       .standard = 0.5,
       .doc = "above 0: gaussian, the larger the less a score is lowered"},
      {.name = "score_threshold",
       .kind = Value::Kind::kFloat,
       .standard = 0.001,
       .doc = "a box is kept if its score is not below when it is its turn"},
      {.name = "method",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = kMethods,
       .doc = "by which a score is lowered"},
  };
  // options: a sum of Options.
  static constexpr std::string_view kExtentNames[] = {"N", "options"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = {DType::kF32};
  // In torch, to the last bit: what decay.hpp rounds once is made in f64 and rounded.
  static constexpr std::string_view kTorch = R"(
boxes, scores = boxes.float(), scores.float()
def exp(x):
    n = (x * 1.4426950216293335).round().double()
    r = (x.double() - n * 0.693145751953125).float()
    r = (r.double() - n * 1.428606765330187e-06).float().double()
    factors = [1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0]
    total, *rest = torch.tensor(factors, dtype=torch.float32, device=x.device)
    for one in rest:
        total = (total.double() * r + one.double()).float()
    return torch.where(x > -104, (total.double() * torch.exp2(n)).float(), 0.0)
low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
sides = (high - low).clamp(min=0)
inter = sides[..., 0] * sides[..., 1]
area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
iou = inter / ((area[:, None] + area) - inter)
iou = torch.where(iou > 0, iou, 0.0).clamp(max=1)
if method == 'linear':
    factor = torch.where(iou > iou_threshold, 1 - iou, 1.0)
else:
    factor = exp(-(iou * iou) / sigma)
places = torch.arange(len(scores), device=boxes.device)
taken = torch.zeros_like(places, dtype=torch.bool)
going = torch.ones((), dtype=torch.bool, device=boxes.device)
decayed, order = scores, []
for _ in range(len(scores)):
    rest = torch.where(taken, float('-inf'), decayed)
    best = rest.argmax()
    going = going & ~(rest[best] < score_threshold)
    taken = taken | (going & (places == best))
    decayed = torch.where(going & ~taken, decayed * factor[best], decayed)
    order.append(torch.where(going, best, -1))
kept = torch.stack(order) if order else places
return decayed, kept, taken.sum())";

  using Call = SoftCall;
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
