// What rungs of twice the size share: a thread's strip of rows, of planes or of channels that lie
// side by side, and a row of it with a neighbour on both sides.
#pragma once

#include "kernels/upsample/02_twice.cuh"
#include "kernels/upsample/07_channels.cuh"

namespace ws::upsample {

// Of the small image a thread has kColumns columns, each of kLanes channels: 16 bytes of a row of
// the large one, or of channels 16 bytes of two columns.
template <class T, bool kHasChannelsInside>
struct TwiceTile {
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int kLanes = kHasChannelsInside ? kWidth : 1;
  static constexpr int kColumns = kHasChannelsInside ? 1 : kWidth / 2;
};

// kColumns pixels of a row from `first` on, the one before, and the one behind. Beyond a row's ends
// stand pixels that it has: the first where kMirrored is 0, or the second where it is 1, and the
// last.
template <class T, int kColumns, int kLanes, int kMirrored>
class Window {
 public:
  // Of which row a window is, by a column: the same for all rows.
  struct Ends {
    bool at_start;
    bool at_end;
    int64_t step;  // from column to column, in elements
    int64_t left;  // from the first to the neighbours
    int64_t right;

    __device__ __forceinline__ Ends(bool at_start, bool at_end, int64_t step)
        : at_start(at_start),
          at_end(at_end),
          step(step),
          left(at_start ? (at_end && kColumns == 1 ? 0 : kMirrored * step) : -step),
          right((at_end ? kColumns - 1 : kColumns) * step) {}
  };

  static __device__ __forceinline__ Window load(const T* first, const Ends& ends) {
    Window window;
    if constexpr (kLanes == 1) {
      // At distances that are in the instruction; what lies beyond is in the vector.
      window.middle_[0] = thread::load<kColumns>(first);
      window.left_[0] = window.middle_[0][kMirrored];
      window.right_[0] = window.middle_[0][kColumns - 1];
      if (!ends.at_start) window.left_ = thread::load<1>(first - 1);
      if (!ends.at_end) window.right_ = thread::load<1>(first + kColumns);
    } else {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        window.middle_[c] = thread::load<kLanes>(first + c * ends.step);
      }
      window.left_ = thread::load<kLanes>(first + ends.left);
      window.right_ = thread::load<kLanes>(first + ends.right);
    }
    return window;
  }
  // Of columns -1 to kColumns.
  __device__ __forceinline__ float at(int column, int lane) const {
    if (column < 0) return to_float(left_[lane]);
    if (column == kColumns) return to_float(right_[lane]);
    return to_float(kLanes == 1 ? middle_[0][column] : middle_[column][lane]);
  }

 private:
  Vec<T, kLanes == 1 ? kColumns : kLanes> middle_[kLanes == 1 ? 1 : kColumns];
  Vec<T, kLanes> left_;
  Vec<T, kLanes> right_;
};

// The small image's rows in strips, and how both images lie.
struct TwiceStrips {
  int64_t threads;
  thread::Divider lanes;    // vectors of a pixel; 1 of planes
  thread::Divider columns;  // threads along a row, but for these
  thread::Divider strips;   // of an image or a plane; the last may be short
  int rows_a_strip;
  int rows;
  uint32_t small_row;  // in bytes
  uint32_t large_row;
  Strides small;
  Strides large;

  struct Spot {
    int64_t image;
    int row;
    int column;  // in threads
    int lane;    // in vectors
  };
  __device__ __forceinline__ Spot spot_of(int64_t i) const {
    const auto vector = static_cast<uint32_t>(i);
    const uint32_t pixel = lanes.quotient(vector);
    const uint32_t strip = columns.quotient(pixel);
    const uint32_t image = strips.quotient(strip);
    return {image, static_cast<int>(strip - image * strips.divisor()) * rows_a_strip,
            static_cast<int>(pixel - strip * columns.divisor()),
            static_cast<int>(vector - pixel * lanes.divisor())};
  }
};

// Kernel<T, kHasChannelsInside> has a Tile, kRows of the small image a strip, and kThreads.
template <template <class T, bool kHasChannelsInside> class Kernel>
struct TwiceOf {
  template <class OperationCall>
  static bool supports(const OperationCall& call, Why& why) {
    if (!has_inside(call)) return doubles_in_vectors(call, why);
    return why.unless(call.rows.doubles() && call.columns.doubles(), "doubles, not ",
                      call.rows.from, " x ", call.columns.from, " to ", call.rows.to, " x ",
                      call.columns.to) &&
           why.unless(bytes_of(call, call.in_strides.row) < kMostBytes &&
                          bytes_of(call, call.out_strides.row) < kMostBytes,
                      "takes rows of less than ", kMostBytes, " bytes") &&
           ChannelsOf<Copies>::supports(call, why);
  }
  template <class OperationCall>
  static void run(const OperationCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      if (has_inside(call)) {
        launch_of<Kernel<T, true>, T>(call, context);
      } else {
        launch_of<Kernel<T, false>, T>(call, context);
      }
    });
  }

 private:
  static constexpr int64_t kMostBytes = int64_t{1} << 32;

  static int64_t bytes_of(const Call& call, int64_t elements) {
    return elements * static_cast<int64_t>(size_of(call.dtype));
  }
  // One channel is a plane, too.
  static bool has_inside(const Call& call) {
    return call.channels > 1 && call.in_strides.channel == 1 && call.out_strides.channel == 1;
  }
  template <class K, class T, class OperationCall>
  static void launch_of(const OperationCall& call, const Context& context) {
    constexpr bool kIsInside = K::Tile::kLanes > 1;
    const bool is_forward = OperationCall::kIsForward;
    const int64_t lanes = kIsInside ? call.channels / K::Tile::kLanes : 1;
    const int64_t columns = call.columns.from / K::Tile::kColumns;
    const int64_t strips = divide_up(call.rows.from, int64_t{K::kRows});
    const int64_t images = kIsInside ? call.images : call.planes();
    Strides small = is_forward ? call.in_strides : call.out_strides;
    Strides large = is_forward ? call.out_strides : call.in_strides;
    if (!kIsInside) {
      small = plane_of(call.rows.from, call.columns.from);
      large = plane_of(call.rows.to, call.columns.to);
    }
    const TwiceStrips shape{.threads = images * strips * columns * lanes,
                            .lanes = thread::Divider(lanes),
                            .columns = thread::Divider(columns),
                            .strips = thread::Divider(strips),
                            .rows_a_strip = K::kRows,
                            .rows = static_cast<int>(call.rows.from),
                            .small_row = static_cast<uint32_t>(bytes_of(call, small.row)),
                            .large_row = static_cast<uint32_t>(bytes_of(call, large.row)),
                            .small = small,
                            .large = large};
    launch<K>({.blocks = divide_up(shape.threads, K::kThreads), .threads = K::kThreads},
              context.stream, {static_cast<const T*>(call.in), static_cast<T*>(call.out), shape});
  }
  static Strides plane_of(int64_t rows, int64_t columns) {
    return {.image = rows * columns, .channel = 0, .row = columns, .column = 1};
  }
};

}  // namespace ws::upsample
