// Idea: twice the size has two weights, 3/4 and 1/4, and each row of x lies in the same four rows
// of the result: a thread takes four rows of x, and keeps its columns of three in registers.
// From bilinear_rows: no places, no weights to find; a column of x is read and converted once a
// row, not once for each column that mixes it, and by whole vectors. A quarter is folded into the
// columns' weights, so that between two rows lies one operation: 3 a + b.
// Traffic: each element once, two rows more a strip from the L2; accesses of 8 and 16 bytes, six
// rows at once in flight.
// Limits: twice the size; contiguous planes as twice, or channels inside as channels.
#pragma once

#include <algorithm>

#include "kernels/upsample/twice_strips.hpp"

namespace ws::upsample {

template <class T, bool kHasChannelsInside>
struct BilinearTwiceKernel {
  using Tile = TwiceTile<T, kHasChannelsInside>;
  static constexpr int kThreads = 128;
  static constexpr int kRows = 4;  // of x
  static constexpr int kColumns = Tile::kColumns;
  static constexpr int kLanes = Tile::kLanes;
  static constexpr int kWidth = Tile::kWidth;
  static constexpr int kRead = kRows + 2;
  static constexpr int kAhead = kHasChannelsInside ? 3 : kRead;  // rows in flight
  struct Arguments {
    const T* x;
    T* y;
    TwiceStrips shape;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const TwiceStrips& shape = a.shape;
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= shape.threads) return;
    const TwiceStrips::Spot at = shape.spot_of(i);
    const int last = shape.rows - 1;
    const int64_t step = kLanes == 1 ? 1 : shape.small.column;
    const typename Row::Ends ends(at.column == 0,
                                  at.column + 1 == static_cast<int>(shape.columns.divisor()), step);
    const Sides sides(ends);
    const T* x =
        a.x + at.image * shape.small.image + at.column * kColumns * step + at.lane * kLanes;
    const auto load = [&](int k) {
      // Above the first row is the second, of which there is nothing.
      const int row = at.row + k < 1 ? std::min(1, last) : std::min(at.row + k - 1, last);
      return Row::load(rows_below(x, row, shape.small_row), ends);
    };

    Row rows[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) rows[k] = load(k);
    const auto next = [&](int k) {
      const Mixed mixed = sides.mix(rows[k % kAhead]);
      if (k + kAhead < kRead) rows[k % kAhead] = load(k + kAhead);
      return mixed;
    };
    const int64_t large_step = kLanes == 1 ? 1 : shape.large.column;
    T* y = a.y + at.image * shape.large.image + 2 * at.row * shape.large.row +
           2 * at.column * kColumns * large_step + at.lane * kLanes;
    Mixed upper = next(0);
    Mixed here = next(1);
    if (at.row == 0) upper = nothing_of(upper, here);
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (at.row + k > last) break;
      Mixed lower = next(k + 2);
      if (at.row + k == last) lower = nothing_of(lower, here);
      store(y, here, upper, large_step);
      store(rows_below(y, 1, shape.large_row), here, lower, large_step);
      y = rows_below(y, 2, shape.large_row);
      upper = here;
      here = lower;
    }
  }

 private:
  using Row = Window<T, kColumns, kLanes, 1>;
  // A quarter of what lies at the columns of the result.
  using Mixed = Vec<float, 2 * kColumns * kLanes>;

  // Of the outermost columns of a thread: beyond the image there is nothing, which is zero times
  // a pixel that is there, as torch has it where that is not finite.
  struct Sides {
    float first;
    float of_left;
    float final;
    float of_right;

    __device__ __forceinline__ explicit Sides(const typename Row::Ends& ends)
        : first(ends.at_start ? 0.25F : 0.1875F),
          of_left(ends.at_start ? 0.0F : 0.0625F),
          final(ends.at_end ? 0.25F : 0.1875F),
          of_right(ends.at_end ? 0.0F : 0.0625F) {}

    __device__ __forceinline__ Mixed mix(const Row& row) const {
      Mixed mixed;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int l = 0; l < kLanes; ++l) {
          const float here = row.at(c, l);
          const bool starts = c == 0;
          const bool ends = c + 1 == kColumns;
          mixed[2 * c * kLanes + l] =
              (starts ? first : 0.1875F) * here + (starts ? of_left : 0.0625F) * row.at(c - 1, l);
          mixed[(2 * c + 1) * kLanes + l] =
              (ends ? final : 0.1875F) * here + (ends ? of_right : 0.0625F) * row.at(c + 1, l);
        }
      }
      return mixed;
    }
  };
  // What the outermost row is mixed with: itself.
  static __device__ __forceinline__ Mixed nothing_of(const Mixed& other, const Mixed& here) {
    Mixed sum;
#pragma unroll
    for (int c = 0; c < 2 * kColumns * kLanes; ++c) sum[c] = 0 * other[c] + here[c];
    return sum;
  }
  static __device__ __forceinline__ void store(T* y, const Mixed& here, const Mixed& beside,
                                               int64_t column) {
#pragma unroll
    for (int v = 0; v < Mixed::size() / kWidth; ++v) {
      Vec<float, kWidth> between;
#pragma unroll
      for (int c = 0; c < kWidth; ++c) {
        between[c] = 3 * here[v * kWidth + c] + beside[v * kWidth + c];
      }
      thread::store(y + v * column, thread::convert<T>(between));
    }
  }
};

inline constexpr Rung kBilinearTwice = rung_of<TwiceOf<BilinearTwiceKernel>, UpsampleBilinear2d>({
    .name = "bilinear_twice",
    .from = "bilinear_rows",
    .idea = "twice the size: two weights; four rows of x a thread, each mixed along once",
});

}  // namespace ws::upsample
