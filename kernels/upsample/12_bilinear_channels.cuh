// Idea: channels that lie side by side, 16 bytes a thread; what a pixel lies between, or is a part
// of, is found once, by one thread of the block.
// From bilinear_naive: whole accesses; places and ranges lie in shared memory, as in channels.
// Traffic: each element once, four accesses in flight a thread; neighbours read the same pixels
// again, from the L1 and the L2.
// Limits: channels inside, in whole vectors, all of it aligned to 16 bytes.
#pragma once

#include "kernels/upsample/07_channels.cuh"

namespace ws::upsample {

template <bool kIsForward>
struct Corners;

// The pixel at or before a place, and how the other three and their weights follow.
template <>
struct Corners<true> {
  static constexpr int kEach = 1;

  int64_t to;
  int64_t from;
  int64_t right;
  int64_t lower;
  float of_right;
  float of_lower;

  static __device__ __forceinline__ Corners find(const Call& call, int64_t image, int i, int j) {
    const LinearAxis rows(call.rows);
    const LinearAxis columns(call.columns);
    const float row = rows.source(i);
    const float column = columns.source(j);
    const int upper = LinearAxis::before(row);
    const int left = LinearAxis::before(column);
    return {offset(call.out_strides, image, 0, i, j),
            offset(call.in_strides, image, 0, upper, left),
            (columns.after(column) - left) * call.in_strides.column,
            (rows.after(row) - upper) * call.in_strides.row,
            column - static_cast<float>(left),
            row - static_cast<float>(upper)};
  }
  template <int kWidth, class T>
  __device__ __forceinline__ Vec<T, kWidth> load(const Call& /*call*/, const T* x) const {
    const Vec<float, kWidth> a = thread::convert<float>(thread::load<kWidth>(x));
    const Vec<float, kWidth> b = thread::convert<float>(thread::load<kWidth>(x + right));
    const Vec<float, kWidth> c = thread::convert<float>(thread::load<kWidth>(x + lower));
    const Vec<float, kWidth> d = thread::convert<float>(thread::load<kWidth>(x + lower + right));
    Vec<float, kWidth> between;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      between[k] = (1 - of_lower) * ((1 - of_right) * a[k] + of_right * b[k]) +
                   of_lower * ((1 - of_right) * c[k] + of_right * d[k]);
    }
    return thread::convert<T>(between);
  }
};

// The first gradient of what a pixel is a part of, and how many follow.
template <>
struct Corners<false> {
  static constexpr int kEach = 1;

  int64_t to;
  int64_t from;
  int row;
  int column;
  int first_row;
  int first_column;
  int rows;
  int columns;

  static __device__ __forceinline__ Corners find(const Call& call, int64_t image, int row,
                                                 int column) {
    const LinearAxis vertical(call.rows);
    const LinearAxis horizontal(call.columns);
    const int first_row = vertical.first_with(row);
    const int first_column = horizontal.first_with(column);
    return {offset(call.out_strides, image, 0, row, column),
            offset(call.in_strides, image, 0, first_row, first_column),
            row,
            column,
            first_row,
            first_column,
            vertical.end_with(row) - first_row,
            horizontal.end_with(column) - first_column};
  }
  template <int kWidth, class T>
  __device__ __forceinline__ Vec<T, kWidth> load(const Call& call, const T* grad) const {
    const LinearAxis vertical(call.rows);
    const LinearAxis horizontal(call.columns);
    Vec<float, kWidth> sum{};
    for (int k = 0; k < rows; ++k, grad += call.in_strides.row) {
      const float of_row = LinearAxis::weight(vertical.source(first_row + k), row);
#pragma unroll 4
      for (int l = 0; l < columns; ++l) {
        const Vec<float, kWidth> read =
            thread::convert<float>(thread::load<kWidth>(grad + l * call.in_strides.column));
        const float weight =
            of_row * LinearAxis::weight(horizontal.source(first_column + l), column);
#pragma unroll
        for (int c = 0; c < kWidth; ++c) sum[c] += weight * read[c];
      }
    }
    return thread::convert<T>(sum);
  }
};

inline constexpr Rung kBilinearChannels =
    rung_of<ChannelsOf<Corners>, UpsampleBilinear2d, UpsampleBilinear2dBackward>({
        .name = "bilinear_channels",
        .from = "bilinear_naive",
        .idea = "channels that lie side by side, 16 bytes a thread",
    });

}  // namespace ws::upsample
