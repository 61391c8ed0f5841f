// Resampling of images by nearest pixels or between them, and gradients. reference.cpp has how they
// are checked. Nearest:
//
//   y[n, c, i, j] = x[n, c, source(i), source(j)]
//   source(i) = min(floor(i * step), size - 1), exact: min(floor((i + 0.5) * step), size - 1)
//
// in f32, as torch.nn.functional.interpolate has it on a GPU: step is 1 / scale where a scale is
// told, else the ratio of the sizes. The gradient of an element is the sum of those of its copies,
// gathered, in one order: every run gives the same bits. Bilinear, with k and l the pixels at or
// before source(i) and source(j), w and v how far behind them these are:
//
//   y[n, c, i, j] = (1 - w) * ((1 - v) * x[k, l] + v * x[k, l + 1])
//                 + w * ((1 - v) * x[k + 1, l] + v * x[k + 1, l + 1])
//   source(i) = (i + 0.5) * step - 0.5, within the pixels; align_corners: i * step
//
// in f32 as well, rounded once: a multiplication and an addition in one.
#pragma once

#include <array>
#include <cmath>

#include "catalogue/row.hpp"
#include "warpsmith/device.hpp"

namespace ws::upsample {

// ---- Calls --------------------------------------------------------------------------------------

// Of a tensor that is seen as [image, channel, row, column], in elements.
struct Strides {
  int64_t image;
  int64_t channel;
  int64_t row;
  int64_t column;
};

// Rows or columns: which of `from` one of `to` copies.
struct Axis {
  int64_t from;
  int64_t to;
  float step;
  float shift;  // 0.5: exact

  __host__ __device__ int64_t source(int64_t i) const {
    const auto at = static_cast<int64_t>(::floorf((static_cast<float>(i) + shift) * step));
    return at < from - 1 ? at : from - 1;
  }
  // The first that copies `source` or what lies behind it; `to` where none does. Sources never go
  // back: a guess is right but for what f32 rounds.
  __host__ __device__ int64_t first_of(int64_t wanted) const {
    const float guess = ::ceilf(static_cast<float>(wanted) / step - shift);
    int64_t i = guess < static_cast<float>(to) ? static_cast<int64_t>(guess) : to;
    if (i < 0) i = 0;
    while (i > 0 && source(i - 1) >= wanted) --i;
    while (i < to && source(i) < wanted) ++i;
    return i;
  }
  // Past the last that copies it.
  __host__ __device__ int64_t end_of(int64_t wanted) const {
    return wanted == from - 1 ? to : first_of(wanted + 1);
  }
  bool doubles() const { return to == 2 * from && step == 0.5F; }
};

// The same axis where one of `to` lies between two of `from`: source(i) is in f32, which has the
// number of each pixel.
struct LinearAxis {
  static constexpr int64_t kMost = int64_t{1} << 24;

  int from;
  int to;
  float step;
  float shift;  // 0: align_corners

  __host__ __device__ explicit LinearAxis(const Axis& axis)
      : from(static_cast<int>(axis.from)),
        to(static_cast<int>(axis.to)),
        step(axis.step),
        shift(axis.shift) {}

  __host__ __device__ float source(int i) const {
    const float place = ::fmaf(static_cast<float>(i) + shift, step, -shift);
    return ::fminf(::fmaxf(place, 0.0F), static_cast<float>(from - 1));
  }
  // The pixel at or before a source, and the one behind it.
  __host__ __device__ static int before(float source) { return static_cast<int>(source); }
  __host__ __device__ int after(float source) const {
    const int next = static_cast<int>(source) + 1;
    return next < from ? next : from - 1;
  }
  // Of a pixel in a source that lies beside it.
  __host__ __device__ static float weight(float source, int pixel) {
    return 1 - ::fabsf(source - static_cast<float>(pixel));
  }
  // The first of `to` whose source is not before a pixel; `to` where none is. Sources never go
  // back: a guess is right but for what f32 rounds.
  __host__ __device__ int first_of(int pixel) const {
    const float guess = ::ceilf((static_cast<float>(pixel) + shift) / step - shift);
    int i = static_cast<int>(::fminf(::fmaxf(guess, 0.0F), static_cast<float>(to)));
    while (i > 0 && before(source(i - 1)) >= pixel) --i;
    while (i < to && before(source(i)) < pixel) ++i;
    return i;
  }
  // Which of `to` a pixel is a part of: from the first, to before the end.
  __host__ __device__ int first_with(int pixel) const {
    return pixel == 0 ? 0 : first_of(pixel - 1);
  }
  __host__ __device__ int end_with(int pixel) const {
    return pixel == from - 1 ? to : first_of(pixel + 1);
  }
};

// `from` and `to` of the axes are the forward's in both directions.
struct Call {
  DType dtype;
  int64_t images;
  int64_t channels;
  Axis rows;
  Axis columns;
  const void* in;  // x, or the gradient of y
  void* out;       // y, or the gradient of x
  Strides in_strides;
  Strides out_strides;

  __host__ __device__ int64_t planes() const { return images * channels; }
};
// The operations' own.
struct ForwardCall : Call {
  static constexpr bool kIsForward = true;
};
struct BackwardCall : Call {
  static constexpr bool kIsForward = false;
};

// ---- Tables -------------------------------------------------------------------------------------

constexpr std::array<Attribute, 6> attributes_with(const Attribute& how) {
  return {{{.name = "height", .kind = Value::Kind::kInt, .doc = "rows of the result, from 1 on"},
           {.name = "width", .kind = Value::Kind::kInt, .doc = "columns of the result, from 1 on"},
           {.name = "scale_height",
            .kind = Value::Kind::kFloat,
            .standard = Value::absent(),
            .doc = "of the forward, above 0: source(i) goes by it; left out, by the ratio of the "
                   "sizes"},
           {.name = "scale_width",
            .kind = Value::Kind::kFloat,
            .standard = Value::absent(),
            .doc = "the same of columns"},
           how,
           {.name = "channels_last",
            .kind = Value::Kind::kBool,
            .standard = false,
            .doc = "images are [N, H, W, C], else [N, C, H, W]"}}};
}
inline constexpr auto kNearestAttributes =
    attributes_with({.name = "exact",
                     .kind = Value::Kind::kBool,
                     .standard = false,
                     .doc = "the centre of a pixel decides, as torch's nearest-exact has it"});
inline constexpr auto kBilinearAttributes =
    attributes_with({.name = "align_corners",
                     .kind = Value::Kind::kBool,
                     .standard = false,
                     .doc = "the corners' centres stay where they are, and scales say nothing"});

inline constexpr std::string_view kExtents[] = {"images", "channels", "rows", "columns", "swapped"};

struct Common {
  static constexpr std::string_view kSource = "torch.nn.functional.interpolate";
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::span<const std::string_view> kExtentNames = kExtents;
  static constexpr int kOptionalExtents = 1;

  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cost cost(const Problem& problem);
  static int64_t items(const Problem& problem, const Parameter& output);
};

struct Forward : Common {
  static constexpr Parameter kParameters[] = {
      {.name = "x",
       .doc = "[N, C, H, W], channels_last [N, H, W, C]: f32, f16 or bf16, any strides"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "dtype of x, height and width for those of x",
       .shape = "(x.shape[0], height, width, x.shape[3]) if channels_last else (x.shape[0], "
                "x.shape[1], height, width)"}};
  using Call = ForwardCall;
};
struct Backward : Common {
  static constexpr Parameter kParameters[] = {
      {.name = "grad",
       .doc =
           "of the forward's result: [N, C, H, W], channels_last [N, H, W, C]: f32, f16 or bf16, "
           "any strides"},
      {.name = "dx",
       .role = Parameter::Role::kOut,
       .doc = "dtype of grad, height and width, those of the forward's x, for those of grad",
       .shape = "(grad.shape[0], height, width, grad.shape[3]) if channels_last else "
                "(grad.shape[0], grad.shape[1], height, width)"}};
  using Call = BackwardCall;
};

// ---- Operations ---------------------------------------------------------------------------------

struct UpsampleNearest2d : Forward {
  static constexpr auto& kAttributes = kNearestAttributes;
  static constexpr std::string_view kName = "upsample_nearest2d";
  static constexpr std::string_view kSummary = "images of another size, each pixel the nearest one";
  static constexpr std::string_view kFormula =
      "y[n, c, i, j] = x[n, c, min(floor(i / scale_height), H - 1), min(floor(j / scale_width), W "
      "- 1)]";
  static constexpr std::string_view kTorch = R"(
name = "_upsample_nearest_exact2d" if exact else "upsample_nearest2d"
t = x.permute(0, 3, 1, 2) if channels_last else x
y = getattr(torch.ops.aten, name)(t, [height, width], scale_height, scale_width)
return y.permute(0, 2, 3, 1) if channels_last else y)";
  static constexpr std::string_view kGradient = R"(
h, w = x.shape[1:3] if channels_last else x.shape[2:]
return (ops.upsample_nearest2d_backward(
    g, height=h, width=w, scale_height=scale_height, scale_width=scale_width, exact=exact,
    channels_last=channels_last),))";

  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);  // upsample.cu
};

struct UpsampleNearest2dBackward : Backward {
  static constexpr auto& kAttributes = kNearestAttributes;
  static constexpr std::string_view kName = "upsample_nearest2d_backward";
  static constexpr std::string_view kSummary =
      "gradient of upsample_nearest2d: each pixel the sum of those of its copies";
  static constexpr std::string_view kFormula =
      "dx[n, c, i, j] = sum of grad[n, c, k, l] over source(k) = i, source(l) = j";
  static constexpr std::string_view kTorch = R"(
name = "_upsample_nearest_exact2d_backward" if exact else "upsample_nearest2d_backward"
t = grad.permute(0, 3, 1, 2) if channels_last else grad
y = getattr(torch.ops.aten, name)(
    t, list(t.shape[2:]), [*t.shape[:2], height, width], scale_height, scale_width)
return y.permute(0, 2, 3, 1) if channels_last else y)";
  static constexpr std::string_view kGradient = R"(
h, w = grad.shape[1:3] if channels_last else grad.shape[2:]
return (ops.upsample_nearest2d(
    g, height=h, width=w, scale_height=scale_height, scale_width=scale_width, exact=exact,
    channels_last=channels_last),))";

  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct UpsampleBilinear2d : Forward {
  static constexpr auto& kAttributes = kBilinearAttributes;
  static constexpr std::string_view kName = "upsample_bilinear2d";
  static constexpr std::string_view kSummary =
      "images of another size, each pixel between the four around it";
  static constexpr std::string_view kFormula =
      "y[n, c, i, j] = sum of x[n, c, k, l] * max(0, 1 - |source(i) - k|) * max(0, 1 - |source(j) "
      "- "
      "l|)";
  static constexpr std::string_view kTorch = R"(
t = x.permute(0, 3, 1, 2) if channels_last else x
y = torch.ops.aten.upsample_bilinear2d(
    t, [height, width], align_corners, scale_height, scale_width)
return y.permute(0, 2, 3, 1) if channels_last else y)";
  static constexpr std::string_view kGradient = R"(
h, w = x.shape[1:3] if channels_last else x.shape[2:]
return (ops.upsample_bilinear2d_backward(
    g, height=h, width=w, scale_height=scale_height, scale_width=scale_width,
    align_corners=align_corners, channels_last=channels_last),))";

  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);  // upsample.cu
};

struct UpsampleBilinear2dBackward : Backward {
  static constexpr auto& kAttributes = kBilinearAttributes;
  static constexpr std::string_view kName = "upsample_bilinear2d_backward";
  static constexpr std::string_view kSummary =
      "gradient of upsample_bilinear2d: each pixel the weighted sum of what it is a part of";
  static constexpr std::string_view kFormula =
      "dx[n, c, i, j] = sum of grad[n, c, k, l] * max(0, 1 - |source(k) - i|) * max(0, 1 - "
      "|source(l) - j|)";
  static constexpr std::string_view kTorch = R"(
t = grad.permute(0, 3, 1, 2) if channels_last else grad
y = torch.ops.aten.upsample_bilinear2d_backward(
    t, list(t.shape[2:]), [*t.shape[:2], height, width], align_corners, scale_height, scale_width)
return y.permute(0, 2, 3, 1) if channels_last else y)";
  static constexpr std::string_view kGradient = R"(
h, w = grad.shape[1:3] if channels_last else grad.shape[2:]
return (ops.upsample_bilinear2d(
    g, height=h, width=w, scale_height=scale_height, scale_width=scale_width,
    align_corners=align_corners, channels_last=channels_last),))";

  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::upsample
