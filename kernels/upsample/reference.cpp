// Resampling on the host in double precision, and what rungs are checked on.
#include <algorithm>

#include "catalogue/fill.hpp"
#include "kernels/upsample/operations.hpp"

namespace ws::upsample {
namespace {

// ---- Calls --------------------------------------------------------------------------------------

// So that a pixel's number times a step is one, too.
constexpr int64_t kMostPixels = int64_t{1} << 31;
constexpr double kLeastScale = 0x1p-30;

bool is_forward(const Problem& problem) { return problem.operation->index_of("y") >= 0; }
bool is_bilinear(const Problem& problem) {
  return problem.operation->attributes.data() == kBilinearAttributes.data();
}

// Where a tensor has its channels; rows and columns are the other two behind the images.
int channel_dim(const Problem& problem) { return problem.flag("channels_last") ? 3 : 1; }
int row_dim(const Problem& problem) { return problem.flag("channels_last") ? 1 : 2; }

Strides strides_of(const Problem& problem, const Tensor& tensor) {
  const int row = row_dim(problem);
  return {.image = tensor.stride(0),
          .channel = tensor.stride(channel_dim(problem)),
          .row = tensor.stride(row),
          .column = tensor.stride(row + 1)};
}

Axis axis_of(const Problem& problem, std::string_view scale, int64_t from, int64_t to) {
  if (is_bilinear(problem) && problem.flag("align_corners")) {
    const float step = to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1) : 0.0F;
    return {.from = from, .to = to, .step = step, .shift = 0};
  }
  const Value& told = problem.attribute(scale);
  return {.from = from,
          .to = to,
          .step = told.is_absent() ? static_cast<float>(from) / static_cast<float>(to)
                                   : static_cast<float>(1 / told.as_float()),
          .shift = is_bilinear(problem) || problem.flag("exact") ? 0.5F : 0.0F};
}

template <class OperationCall>
OperationCall call_of(const Problem& problem) {
  const Tensor& in = problem.tensor(0);
  const Tensor& out = problem.tensor(1);
  const Tensor& x = OperationCall::kIsForward ? in : out;
  const Tensor& y = OperationCall::kIsForward ? out : in;
  const int row = row_dim(problem);
  OperationCall call{};
  call.dtype = in.dtype;
  call.images = in.extent(0);
  call.channels = in.extent(channel_dim(problem));
  call.rows = axis_of(problem, "scale_height", x.extent(row), y.extent(row));
  call.columns = axis_of(problem, "scale_width", x.extent(row + 1), y.extent(row + 1));
  call.in = in.data;
  call.out = out.data;
  call.in_strides = strides_of(problem, in);
  call.out_strides = strides_of(problem, out);
  return call;
}

// ---- Reference ----------------------------------------------------------------------------------

// Row-major places of a tensor [N, C, H, W] or [N, H, W, C].
class Places {
 public:
  Places(const Problem& problem, const Tensor& tensor)
      : is_last_(problem.flag("channels_last")),
        channels_(tensor.extent(channel_dim(problem))),
        rows_(tensor.extent(row_dim(problem))),
        columns_(tensor.extent(row_dim(problem) + 1)) {}

  struct Place {
    int64_t image, channel, row, column;
  };
  Place at(int64_t index) const {
    Place place{};
    const auto take = [&](int64_t extent) {
      const int64_t found = index % extent;
      index /= extent;
      return found;
    };
    if (is_last_) place.channel = take(channels_);
    place.column = take(columns_);
    place.row = take(rows_);
    if (!is_last_) place.channel = take(channels_);
    place.image = index;
    return place;
  }
  int64_t index(const Place& place) const {
    if (is_last_) {
      return ((place.image * rows_ + place.row) * columns_ + place.column) * channels_ +
             place.channel;
    }
    return ((place.image * channels_ + place.channel) * rows_ + place.row) * columns_ +
           place.column;
  }

 private:
  bool is_last_;
  int64_t channels_, rows_, columns_;
};

}  // namespace

void Common::infer(Problem& problem) {
  const std::string_view name = problem.operation->name;
  const Tensor& in = problem.tensor(0);
  if (!kDTypes.has(in.dtype) || in.rank != 4) [[unlikely]] {
    throw InvalidArgument(concatenate(name, " takes f32, f16 or bf16 of 4 dimensions, got ", in));
  }
  const int row = row_dim(problem);
  const int64_t height = problem.integer("height");
  const int64_t width = problem.integer("width");
  const int64_t most = is_bilinear(problem) ? LinearAxis::kMost : kMostPixels;
  const auto is_size = [&](int64_t size) { return size >= 1 && size <= most; };
  if (!is_size(height) || !is_size(width) || !is_size(in.extent(row)) ||
      !is_size(in.extent(row + 1))) [[unlikely]] {
    throw InvalidArgument(concatenate(name, ": sizes are from 1 to ", most, ", not ", height, " x ",
                                      width, " of ", in));
  }
  for (const std::string_view scale : {"scale_height", "scale_width"}) {
    const Value& told = problem.attribute(scale);
    const double value = told.is_absent() ? 1 : told.as_float();
    if (!(value >= kLeastScale && value <= 1 / kLeastScale)) [[unlikely]] {
      throw InvalidArgument(concatenate(name, ": ", scale, " is from 2^-30 to 2^30, not ", value));
    }
  }
  const int64_t channels = in.extent(channel_dim(problem));
  problem.tensor(1) = problem.flag("channels_last")
                          ? Tensor::dense(in.dtype, {in.extent(0), height, width, channels})
                          : Tensor::dense(in.dtype, {in.extent(0), channels, height, width});
}

// In another order of memory where it is swapped: the channels inside, or not.
void Common::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto& e = chosen.extents;
  const int64_t pitch = e[3] + chosen.padding;
  const bool is_last = problem.flag("channels_last");
  Tensor& x = problem.tensor(0);
  x = is_last ? Tensor::dense(dtype, {e[0], e[2], e[3], e[1]})
              : Tensor::dense(dtype, {e[0], e[1], e[2], e[3]});
  if (is_last == (e[4] == 0)) {
    const int64_t pixel = e[1] + chosen.padding;
    const Strides s{
        .image = e[2] * e[3] * pixel, .channel = 1, .row = e[3] * pixel, .column = pixel};
    x.strides = is_last ? decltype(x.strides){s.image, s.row, s.column, s.channel}
                        : decltype(x.strides){s.image, s.channel, s.row, s.column};
  } else {
    const Strides s{
        .image = e[1] * e[2] * pitch, .channel = e[2] * pitch, .row = pitch, .column = 1};
    x.strides = is_last ? decltype(x.strides){s.image, s.row, s.column, s.channel}
                        : decltype(x.strides){s.image, s.channel, s.row, s.column};
  }
}

int64_t Common::items(const Problem& problem, const Parameter& output) {
  return problem[output.name].elements();
}
// What is made smaller need not be read whole.
Cost Common::cost(const Problem& problem) {
  const int row = row_dim(problem);
  const auto shrinks = [&](int d) {
    return problem.tensor(1).extent(d) < problem.tensor(0).extent(d);
  };
  const bool skips = is_forward(problem) && (shrinks(row) || shrinks(row + 1));
  // An element of y, or of its gradient: four products and as many sums, one sum, or a copy.
  const Tensor& y = problem.tensor(is_forward(problem) ? 1 : 0);
  const double flops = is_bilinear(problem) ? 8 : is_forward(problem) ? 0 : 1;
  return {.bytes = least_traffic(problem),
          .flops = flops * static_cast<double>(y.elements()),
          .at_most = skips};
}

// ---- Operations ---------------------------------------------------------------------------------

ForwardCall UpsampleNearest2d::call(const Problem& problem) {
  return call_of<ForwardCall>(problem);
}
BackwardCall UpsampleNearest2dBackward::call(const Problem& problem) {
  return call_of<BackwardCall>(problem);
}

ForwardCall UpsampleBilinear2d::call(const Problem& problem) {
  return call_of<ForwardCall>(problem);
}
BackwardCall UpsampleBilinear2dBackward::call(const Problem& problem) {
  return call_of<BackwardCall>(problem);
}

namespace {

// A sum in f32, rounded once. Errors of one in order grow as its terms do, from some hundred on.
Tolerance of_sums(DType dtype, double terms = 1) {
  const double growth = std::max(1.0, terms / 64);
  switch (dtype) {
    case DType::kF16: return {.relative = 5.2e-4, .worst = 5.2e-4, .floor = 2e-2 * growth};
    case DType::kBf16: return {.relative = 4e-3, .worst = 4e-3, .floor = 2e-2 * growth};
    default: return {.relative = 1e-6 * growth, .worst = 4e-6, .floor = growth};
  }
}
// Of a gradient: the most copies that a pixel has, the last one all that are left.
Tolerance of_copies(const BackwardCall& call) {
  const auto most = [](const Axis& axis) {
    const auto to = static_cast<double>(axis.to);
    const double each = axis.step > 0 ? 1 / static_cast<double>(axis.step) : to;
    const double left = to - static_cast<double>(axis.from - 1) * each;
    return std::clamp(std::max(each, left), 1.0, std::max(1.0, to));
  };
  return of_sums(call.dtype, most(call.rows) * most(call.columns));
}

}  // namespace

// A copy is what it copies.
Tolerance UpsampleNearest2d::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}
Tolerance UpsampleNearest2dBackward::tolerance(const Problem& problem,
                                               const Parameter& /*output*/) {
  return of_copies(UpsampleNearest2dBackward::call(problem));
}
// Weights come from the same f32 sources as the rungs', so that only sums differ.
Tolerance UpsampleBilinear2d::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return of_sums(problem.dtype());
}
Tolerance UpsampleBilinear2dBackward::tolerance(const Problem& problem,
                                                const Parameter& /*output*/) {
  return of_copies(UpsampleBilinear2dBackward::call(problem));
}

void UpsampleNearest2d::reference(const Problem& problem, Slice slice,
                                  std::span<double* const> expected) {
  const ForwardCall call = UpsampleNearest2d::call(problem);
  const Places from(problem, problem["x"]);
  const Places to(problem, problem["y"]);
  for (int64_t i = slice.first; i < slice.last; ++i) {
    Places::Place place = to.at(i);
    place.row = call.rows.source(place.row);
    place.column = call.columns.source(place.column);
    expected[1][i - slice.first] = element(problem["x"], from.index(place));
  }
}

void UpsampleNearest2dBackward::reference(const Problem& problem, Slice slice,
                                          std::span<double* const> expected) {
  const BackwardCall call = UpsampleNearest2dBackward::call(problem);
  const Places from(problem, problem["grad"]);
  const Places to(problem, problem["dx"]);
  for (int64_t i = slice.first; i < slice.last; ++i) {
    const Places::Place wanted = to.at(i);
    Places::Place place = wanted;
    double sum = 0;
    for (place.row = 0; place.row < call.rows.to; ++place.row) {
      if (call.rows.source(place.row) != wanted.row) continue;
      for (place.column = 0; place.column < call.columns.to; ++place.column) {
        if (call.columns.source(place.column) != wanted.column) continue;
        sum += element(problem["grad"], from.index(place));
      }
    }
    expected[1][i - slice.first] = sum;
  }
}

namespace {

// How much of a pixel there is in an element of y, along an axis.
double part_of(const LinearAxis& axis, int64_t i, int64_t pixel) {
  const double source = axis.source(static_cast<int>(i));
  return std::max(0.0, 1 - std::abs(source - static_cast<double>(pixel)));
}

}  // namespace

void UpsampleBilinear2d::reference(const Problem& problem, Slice slice,
                                   std::span<double* const> expected) {
  const ForwardCall call = UpsampleBilinear2d::call(problem);
  const LinearAxis rows(call.rows);
  const LinearAxis columns(call.columns);
  const Places from(problem, problem["x"]);
  const Places to(problem, problem["y"]);
  for (int64_t i = slice.first; i < slice.last; ++i) {
    const Places::Place wanted = to.at(i);
    const auto row = static_cast<int64_t>(rows.source(static_cast<int>(wanted.row)));
    const auto column = static_cast<int64_t>(columns.source(static_cast<int>(wanted.column)));
    Places::Place place = wanted;
    double sum = 0;
    for (place.row = row; place.row <= std::min(row + 1, call.rows.from - 1); ++place.row) {
      for (place.column = column; place.column <= std::min(column + 1, call.columns.from - 1);
           ++place.column) {
        sum += part_of(rows, wanted.row, place.row) *
               part_of(columns, wanted.column, place.column) *
               element(problem["x"], from.index(place));
      }
    }
    expected[1][i - slice.first] = sum;
  }
}

void UpsampleBilinear2dBackward::reference(const Problem& problem, Slice slice,
                                           std::span<double* const> expected) {
  const BackwardCall call = UpsampleBilinear2dBackward::call(problem);
  const LinearAxis rows(call.rows);
  const LinearAxis columns(call.columns);
  const Places from(problem, problem["grad"]);
  const Places to(problem, problem["dx"]);
  for (int64_t i = slice.first; i < slice.last; ++i) {
    const Places::Place wanted = to.at(i);
    Places::Place place = wanted;
    double sum = 0;
    for (place.row = 0; place.row < call.rows.to; ++place.row) {
      const double of_row = part_of(rows, place.row, wanted.row);
      if (of_row == 0) continue;
      for (place.column = 0; place.column < call.columns.to; ++place.column) {
        const double of_column = part_of(columns, place.column, wanted.column);
        if (of_column == 0) continue;
        sum += of_row * of_column * element(problem["grad"], from.index(place));
      }
    }
    expected[1][i - slice.first] = sum;
  }
}

// ---- Cases --------------------------------------------------------------------------------------

namespace {

// {height, width, scale_height, scale_width, exact or align_corners, channels_last}
constexpr std::array<Value, kMaxAttributes> to(int height, int width, bool exact = false,
                                               bool channels_last = false) {
  std::array<Value, kMaxAttributes> all{};
  all[0] = height;
  all[1] = width;
  all[4] = exact;
  all[5] = channels_last;
  return all;
}
constexpr std::array<Value, kMaxAttributes> scaled(int height, int width, double by, bool exact) {
  auto all = to(height, width, exact);
  all[2] = by;
  all[3] = by;
  return all;
}

constexpr Case kSmoke[] = {
    {.extents = {1, 2, 3, 8}, .attributes = to(6, 16)},
    {.extents = {2, 3, 5, 7}, .attributes = to(7, 16, true)},
    {.extents = {1, 16, 3, 5}, .attributes = to(8, 9, false, true)},
    {.extents = {1, 3, 4, 5, 1}, .attributes = to(3, 11)},
    {.extents = {1, 2, 5, 4}, .attributes = scaled(8, 7, 1.7, false)},
};
constexpr Case kVerify[] = {
    {.extents = {0, 2, 3, 4}, .attributes = to(6, 8)},
    {.extents = {1, 1, 1, 1}, .attributes = to(1, 1)},
    {.extents = {2, 2, 17, 40}, .attributes = to(34, 80, true)},
    {.extents = {1, 2, 9, 33}, .attributes = to(4, 24)},
    {.extents = {1, 1, 7, 3}, .attributes = to(21, 48, true)},
    {.extents = {1, 3, 1, 5}, .attributes = to(50, 1)},
    {.extents = {2, 24, 3, 3}, .attributes = to(6, 6, true, true)},
    {.extents = {1, 16, 4, 3, 1}, .attributes = to(5, 8, false, true)},
    {.extents = {1, 2, 3, 8}, .offset = 1, .attributes = to(6, 16)},
    {.extents = {1, 16, 3, 4}, .padding = 8, .attributes = to(7, 5, false, true)},
    {.extents = {1, 2, 6, 5}, .attributes = scaled(15, 12, 2.6, true)},
    {.extents = {1, 1, 8, 8}, .attributes = scaled(3, 3, 0.4, false)},
    {.extents = {1, 16, 9, 9}, .attributes = to(18, 17, false, true)},
    {.extents = {1, 4104, 1, 1}, .attributes = to(1, 2, false, true)},
    // Result rows by twos and odd; rows that none copies.
    {.extents = {2, 2, 37, 26}, .attributes = to(58, 40)},
    {.extents = {1, 2, 18, 6}, .attributes = to(77, 24, true)},
    {.extents = {1, 2, 40, 50}, .attributes = to(33, 32)},
};
constexpr Case kBench[] = {
    {.extents = {8, 64, 256, 256}, .attributes = to(512, 512)},
    {.extents = {8, 64, 256, 256}, .attributes = to(400, 400)},
    {.extents = {8, 64, 256, 256}, .attributes = to(512, 512, false, true)},
};

constexpr Case kBackwardSmoke[] = {
    {.extents = {1, 2, 6, 16}, .attributes = to(3, 8)},
    {.extents = {2, 3, 7, 16}, .attributes = to(5, 7, true)},
    {.extents = {1, 16, 8, 9}, .attributes = to(3, 5, false, true)},
    {.extents = {1, 3, 3, 11, 1}, .attributes = to(4, 5)},
    {.extents = {1, 2, 8, 7}, .attributes = scaled(5, 4, 1.7, false)},
    // More rows than grad has: none copies the first.
    {.extents = {1, 3, 2, 8}, .attributes = to(9, 4, true)},
};
constexpr Case kBackwardVerify[] = {
    {.extents = {0, 2, 6, 8}, .attributes = to(3, 4)},
    {.extents = {1, 1, 1, 1}, .attributes = to(1, 1)},
    {.extents = {2, 2, 34, 80}, .attributes = to(17, 40, true)},
    {.extents = {1, 2, 4, 24}, .attributes = to(9, 33)},
    {.extents = {1, 3, 50, 1}, .attributes = to(1, 5)},
    {.extents = {2, 24, 6, 6}, .attributes = to(3, 3, true, true)},
    {.extents = {1, 2, 6, 16}, .offset = 1, .attributes = to(3, 8)},
    {.extents = {1, 16, 7, 5}, .padding = 8, .attributes = to(3, 4, false, true)},
    {.extents = {1, 2, 15, 12}, .attributes = scaled(6, 5, 2.6, true)},
    {.extents = {1, 1, 3, 3}, .attributes = scaled(8, 8, 0.4, false)},
    {.extents = {3, 2, 26, 8}, .attributes = to(13, 5)},
    {.extents = {1, 1, 21, 48}, .attributes = to(7, 3, true)},
    {.extents = {1, 1, 7, 1536}, .attributes = to(3, 264)},
    {.extents = {1, 1, 2, 8}, .attributes = to(1, 4096)},
    {.extents = {1, 1, 1, 4104}, .attributes = to(1, 2)},
    {.extents = {1, 16, 18, 34}, .attributes = to(17, 17, false, true)},
    {.extents = {1, 8, 15, 10}, .attributes = to(3, 3, true, true)},
    {.extents = {1, 4104, 1, 2}, .attributes = to(1, 1, false, true)},
    // Planes by fours and one, rows of several stages.
    {.extents = {1, 5, 30, 800}, .attributes = to(13, 520)},
    // Several blocks of rows that few copy.
    {.extents = {1, 2, 7, 16}, .attributes = to(30, 10)},
    {.extents = {2, 3, 7, 16}, .attributes = to(30, 10, true)},
    {.extents = {1, 1, 8, 16}, .attributes = to(34, 20)},
    {.extents = {1, 1, 8, 16}, .attributes = to(34, 20, true)},
    // Strips of 16 rows, groups of 32 columns: of several planes, short ones, and by which of both
    // sides they need more; rows and columns that are made of nothing.
    {.extents = {3, 1, 39, 72}, .attributes = to(25, 48)},
    {.extents = {1, 2, 50, 200}, .attributes = to(37, 104, true)},
    {.extents = {1, 2, 70, 144}, .attributes = to(35, 72)},
    {.extents = {5, 1, 3, 24}, .attributes = to(2, 16)},
    {.extents = {2, 1, 8, 24}, .attributes = scaled(40, 80, 1.25, false)},
    {.extents = {1, 1, 20, 1624}, .attributes = to(9, 1040)},
};
constexpr Case kBackwardBench[] = {
    {.extents = {8, 64, 512, 512}, .attributes = to(256, 256)},
    {.extents = {8, 64, 400, 400}, .attributes = to(256, 256)},
    {.extents = {8, 64, 512, 512}, .attributes = to(256, 256, false, true)},
};

// Around strips of eight rows and vectors of columns; one row or column to or from many.
constexpr Case kBilinearSmoke[] = {
    {.extents = {1, 2, 3, 8}, .attributes = to(6, 16)},
    {.extents = {2, 1, 5, 7}, .attributes = to(9, 16, true)},
    {.extents = {1, 16, 3, 5}, .attributes = to(8, 9, false, true)},
    {.extents = {1, 3, 4, 5, 1}, .attributes = to(3, 11)},
    {.extents = {1, 2, 5, 4}, .attributes = scaled(8, 8, 1.7, false)},
};
constexpr Case kBilinearVerify[] = {
    {.extents = {0, 2, 3, 4}, .attributes = to(6, 8)},
    {.extents = {1, 1, 1, 1}, .attributes = to(1, 1)},
    {.extents = {1, 1, 1, 1}, .attributes = to(3, 8, true)},
    {.extents = {2, 2, 17, 20}, .attributes = to(34, 40, true)},
    {.extents = {1, 2, 9, 33}, .attributes = to(4, 24)},
    {.extents = {1, 1, 40, 24}, .attributes = to(3, 8)},
    {.extents = {1, 2, 7, 9}, .attributes = to(1, 8, true)},
    {.extents = {2, 24, 3, 3}, .attributes = to(6, 6, true, true)},
    {.extents = {1, 2, 3, 8}, .offset = 1, .attributes = to(6, 16)},
    {.extents = {1, 16, 3, 4}, .padding = 8, .attributes = to(7, 5, false, true)},
    {.extents = {1, 2, 6, 5}, .attributes = scaled(15, 16, 2.6, false)},
    {.extents = {1, 1, 8, 8}, .attributes = scaled(3, 8, 0.4, false)},
    {.extents = {1, 1, 8, 16}, .attributes = to(8, 16)},
    {.extents = {1, 16, 9, 9}, .attributes = to(18, 17, true, true)},
    {.extents = {1, 4104, 1, 1}, .attributes = to(1, 2, false, true)},
    // Twice the size: strips of four rows, one column, rows far apart.
    {.extents = {2, 2, 9, 24}, .attributes = to(18, 48)},
    {.extents = {1, 1, 1, 4}, .attributes = to(2, 8)},
    {.extents = {2, 24, 5, 3}, .attributes = to(10, 6, false, true)},
    {.extents = {1, 8, 1, 1}, .attributes = to(2, 2, false, true)},
    {.extents = {1, 16, 4, 2}, .padding = 8, .attributes = to(8, 4, false, true)},
    // Bands of four and of eight rows, several of a plane; three turns along a row.
    {.extents = {2, 1, 9, 128}, .attributes = to(23, 8)},
    {.extents = {1, 1, 2, 8}, .attributes = to(5, 1032)},
    // Planes by fours and one, rows of several stages.
    {.extents = {1, 5, 13, 520}, .attributes = to(30, 800)},
    // Strips of 16 rows, groups of 32 columns: of several planes, short ones, and by which of both
    // sides they need more.
    {.extents = {3, 1, 25, 48}, .attributes = to(39, 72)},
    {.extents = {1, 2, 37, 104}, .attributes = to(50, 200, true)},
    {.extents = {1, 2, 41, 24}, .attributes = to(33, 40)},
    {.extents = {1, 2, 24, 72}, .attributes = to(40, 48)},
    {.extents = {1, 2, 70, 144}, .attributes = to(35, 64, true)},
    {.extents = {5, 1, 3, 16}, .attributes = to(2, 24)},
    {.extents = {2, 1, 30, 16}, .attributes = scaled(9, 24, 1.5, false)},
    {.extents = {1, 1, 9, 1040}, .attributes = to(20, 1624)},
};
constexpr Case kBilinearBackwardSmoke[] = {
    {.extents = {1, 2, 6, 16}, .attributes = to(3, 8)},
    {.extents = {2, 1, 9, 16}, .attributes = to(5, 7, true)},
    {.extents = {1, 16, 8, 9}, .attributes = to(3, 5, false, true)},
    {.extents = {1, 3, 3, 11, 1}, .attributes = to(4, 5)},
    {.extents = {1, 2, 8, 8}, .attributes = scaled(5, 4, 1.7, false)},
};
constexpr Case kBilinearBackwardVerify[] = {
    {.extents = {0, 2, 6, 8}, .attributes = to(3, 4)},
    {.extents = {1, 1, 1, 1}, .attributes = to(1, 1)},
    {.extents = {1, 1, 3, 8}, .attributes = to(1, 1, true)},
    {.extents = {2, 2, 34, 40}, .attributes = to(17, 20, true)},
    {.extents = {1, 2, 4, 24}, .attributes = to(9, 33)},
    {.extents = {1, 1, 3, 8}, .attributes = to(40, 24)},
    {.extents = {1, 2, 1, 8}, .attributes = to(7, 9, true)},
    {.extents = {2, 24, 6, 6}, .attributes = to(3, 3, true, true)},
    {.extents = {1, 2, 6, 16}, .offset = 1, .attributes = to(3, 8)},
    {.extents = {1, 16, 7, 5}, .padding = 8, .attributes = to(3, 4, false, true)},
    {.extents = {1, 2, 15, 16}, .attributes = scaled(6, 5, 2.6, false)},
    {.extents = {1, 1, 3, 8}, .attributes = scaled(8, 8, 0.4, false)},
    {.extents = {1, 1, 42, 40}, .attributes = scaled(32, 32, 0.61, false)},
    {.extents = {1, 24, 40, 40}, .attributes = scaled(32, 32, 1.1, false)},
    {.extents = {1, 1, 21, 48}, .attributes = to(7, 3)},
    {.extents = {1, 1, 5, 1536}, .attributes = to(3, 264)},
    {.extents = {1, 1, 2, 8}, .attributes = to(1, 4096)},
    {.extents = {1, 1, 1, 4104}, .attributes = to(1, 2)},
    {.extents = {1, 16, 18, 34}, .attributes = to(17, 17, true, true)},
    {.extents = {1, 8, 15, 10}, .attributes = to(3, 3, false, true)},
    {.extents = {1, 4104, 1, 2}, .attributes = to(1, 1, false, true)},
    // Twice the size: strips of four rows, one column, rows far apart.
    {.extents = {2, 2, 18, 48}, .attributes = to(9, 24)},
    {.extents = {1, 1, 2, 8}, .attributes = to(1, 4)},
    {.extents = {2, 24, 10, 6}, .attributes = to(5, 3, false, true)},
    {.extents = {1, 8, 2, 2}, .attributes = to(1, 1, false, true)},
    {.extents = {1, 16, 8, 4}, .padding = 8, .attributes = to(4, 2, false, true)},
    // Two bands of four rows a block, the last with one, and that with one row.
    {.extents = {1, 13, 2, 2048}, .attributes = to(41, 6)},
    // Strips of 16 rows, groups of 32 columns: of several planes, short ones, and by which of both
    // sides they need more; rows and columns that are made of nothing.
    {.extents = {3, 1, 39, 72}, .attributes = to(25, 48)},
    {.extents = {1, 2, 50, 200}, .attributes = to(37, 104, true)},
    {.extents = {1, 2, 70, 144}, .attributes = to(35, 72)},
    {.extents = {1, 2, 80, 160}, .attributes = to(35, 72, true)},
    {.extents = {5, 1, 3, 24}, .attributes = to(2, 16)},
    {.extents = {2, 1, 8, 24}, .attributes = scaled(40, 80, 1.25, false)},
    {.extents = {1, 1, 20, 1624}, .attributes = to(9, 1040)},
    {.extents = {20, 2, 18, 24}, .attributes = to(12, 16)},
};

}  // namespace

Cases UpsampleBilinear2d::cases() { return {kBilinearSmoke, kBilinearVerify, kBench}; }
Cases UpsampleBilinear2dBackward::cases() {
  return {kBilinearBackwardSmoke, kBilinearBackwardVerify, kBackwardBench};
}
Cases UpsampleNearest2d::cases() { return {kSmoke, kVerify, kBench}; }
Cases UpsampleNearest2dBackward::cases() {
  return {kBackwardSmoke, kBackwardVerify, kBackwardBench};
}

}  // namespace ws::upsample
