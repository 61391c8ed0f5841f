// Idea: of twice the size a pixel is a part of 4 x 4 elements, by weights that are always the same:
// a thread adds up each row of grad along, and of four such rows one of dx; two of them serve the
// next row as well.
// From bilinear_backward_bands: no ranges, no weights to find, no shared memory between both sums,
// and no barrier: all that a strip of four rows reads is asked for at once.
// Traffic: each element once, two rows more a strip of ten from the L2, in accesses of 16 bytes.
// Limits: as bilinear_twice.
#pragma once

#include <algorithm>

#include "kernels/upsample/twice_strips.hpp"

namespace ws::upsample {

template <class T, bool kHasChannelsInside>
struct BilinearBackwardTwiceKernel {
  using Tile = TwiceTile<T, kHasChannelsInside>;
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = kHasChannelsInside ? 4 : 6;
  static constexpr int kRows = 4;  // of dx
  static constexpr int kColumns = Tile::kColumns;
  static constexpr int kLanes = Tile::kLanes;
  static constexpr int kRead = 2 * kRows + 2;
  static constexpr int kAhead = kHasChannelsInside ? 4 : kRead;  // rows in flight
  struct Arguments {
    const T* grad;
    T* dx;
    TwiceStrips shape;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const TwiceStrips& shape = a.shape;
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= shape.threads) return;
    const TwiceStrips::Spot at = shape.spot_of(i);
    const int last = 2 * shape.rows - 1;
    // The outermost rows and columns have all of their pixel, 1/4 + 3/4: they stand twice.
    const int64_t step = kLanes == 1 ? 1 : shape.large.column;
    const typename Row::Ends ends(at.column == 0,
                                  at.column + 1 == static_cast<int>(shape.columns.divisor()), step);
    const T* grad =
        a.grad + at.image * shape.large.image + 2 * at.column * kColumns * step + at.lane * kLanes;
    const auto load = [&](int k) {
      const int row = std::clamp(2 * at.row + k - 1, 0, last);
      return Row::load(rows_below(grad, row, shape.large_row), ends);
    };

    Row rows[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) rows[k] = load(k);
    const auto next = [&](int k) {
      const Sums along = add_along(rows[k % kAhead]);
      if (k + kAhead < kRead) rows[k % kAhead] = load(k + kAhead);
      return along;
    };
    T* dx = a.dx + at.image * shape.small.image + at.row * shape.small.row +
            at.column * kColumns * (kLanes == 1 ? 1 : shape.small.column) + at.lane * kLanes;
    Sums first = next(0);
    Sums second = next(1);
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (at.row + k >= shape.rows) break;
      const Sums third = next(2 * k + 2);
      const Sums fourth = next(2 * k + 3);
      Sums sum;
#pragma unroll
      for (int c = 0; c < Sums::size(); ++c) {
        sum[c] = weighted(first[c], second[c], third[c], fourth[c]);
      }
      thread::store(dx, thread::convert<T>(sum));
      dx = rows_below(dx, 1, shape.small_row);
      first = third;
      second = fourth;
    }
  }

 private:
  using Row = Window<T, 2 * kColumns, kLanes, 0>;
  using Sums = Vec<float, kColumns * kLanes>;

  static __device__ __forceinline__ float weighted(float a, float b, float c, float d) {
    return 0.25F * a + 0.75F * b + 0.75F * c + 0.25F * d;
  }
  static __device__ __forceinline__ Sums add_along(const Row& row) {
    Sums sums;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int l = 0; l < kLanes; ++l) {
        sums[c * kLanes + l] = weighted(row.at(2 * c - 1, l), row.at(2 * c, l),
                                        row.at(2 * c + 1, l), row.at(2 * c + 2, l));
      }
    }
    return sums;
  }
};

inline constexpr Rung kBilinearBackwardTwice =
    rung_of<TwiceOf<BilinearBackwardTwiceKernel>, UpsampleBilinear2dBackward>({
        .name = "bilinear_backward_twice",
        .from = "bilinear_backward_bands",
        .idea = "twice the size: constant weights, ten rows of 16 bytes in flight, no barrier",
    });

}  // namespace ws::upsample
