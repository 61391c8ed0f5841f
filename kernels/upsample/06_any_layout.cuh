// Idea: any strides, one kernel for copies of a pixel and for their sum.
// From naive: a thread's place in both tensors follows from image, channel, row and column; those
// that lie side by side in the result are neighbours, channels or columns.
// Traffic: each element once where neighbours lie side by side.
// Limits: none.
#pragma once

#include "kernels/upsample/images.hpp"

namespace ws::upsample {

__device__ __forceinline__ int64_t offset(const Strides& s, int64_t image, int64_t channel,
                                          int64_t row, int64_t column) {
  return image * s.image + channel * s.channel + row * s.row + column * s.column;
}

struct Spot {
  int64_t image;
  int64_t channel;
  int64_t row;
  int64_t column;
};
// Of a number in the result, whose neighbours are channels or columns.
__device__ __forceinline__ Spot spot_of(int64_t number, const Call& a, int64_t rows,
                                        int64_t columns) {
  const auto take = [&](int64_t extent) {
    const int64_t whole = number / extent;
    const int64_t found = number - whole * extent;
    number = whole;
    return found;
  };
  const bool channels_inside = a.out_strides.channel < a.out_strides.column;
  Spot spot{};
  if (channels_inside) spot.channel = take(a.channels);
  spot.column = take(columns);
  spot.row = take(rows);
  if (!channels_inside) spot.channel = take(a.channels);
  spot.image = number;
  return spot;
}

template <class T, bool kIsForward>
struct AnyLayoutKernel {
  static constexpr int kThreads = 256;
  using Arguments = Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t rows = kIsForward ? a.rows.to : a.rows.from;
    const int64_t columns = kIsForward ? a.columns.to : a.columns.from;
    const int64_t number = block_index() * kThreads + thread_index();
    if (number >= a.planes() * rows * columns) return;
    const auto [image, channel, row, column] = spot_of(number, a, rows, columns);
    T* to = static_cast<T*>(a.out) + offset(a.out_strides, image, channel, row, column);
    if constexpr (kIsForward) {
      const int64_t from =
          offset(a.in_strides, image, channel, a.rows.source(row), a.columns.source(column));
      thread::store(to, thread::load(static_cast<const T*>(a.in) + from));
    } else {
      const T* grad = static_cast<const T*>(a.in) + offset(a.in_strides, image, channel, 0, 0);
      const int64_t first = a.columns.first_of(column);
      const int64_t last = a.columns.end_of(column);
      const int64_t last_row = a.rows.end_of(row);
      float sum = 0;
      for (int64_t k = a.rows.first_of(row); k < last_row; ++k) {
        for (int64_t l = first; l < last; ++l) {
          sum += to_float(thread::load(grad + k * a.in_strides.row + l * a.in_strides.column));
        }
      }
      thread::store(to, from_float<T>(sum));
    }
  }
};

struct AnyLayout {
  template <class OperationCall>
  static void run(const OperationCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      constexpr bool kIsForward = OperationCall::kIsForward;
      using Kernel = AnyLayoutKernel<T, kIsForward>;
      const int64_t pixels =
          kIsForward ? call.rows.to * call.columns.to : call.rows.from * call.columns.from;
      launch<Kernel>({.blocks = divide_up(call.planes() * pixels, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};

inline constexpr Rung kAnyLayout =
    rung_of<AnyLayout, UpsampleNearest2d, UpsampleNearest2dBackward>({
        .name = "any_layout",
        .from = "naive",
        .idea = "any strides, a pixel's copies and their sum",
    });

}  // namespace ws::upsample
