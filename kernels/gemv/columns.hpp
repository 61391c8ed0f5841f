// What the rungs share that walk down columns of A.
#pragma once

#include "catalogue/parts.hpp"
#include "kernels/gemv/dispatch.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/load.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/tile.hpp"
#include "warpsmith/warp/shuffle.hpp"

#if WS_DEVICE_CODE
namespace ws::gemv {

template <class T>
struct ColumnArguments {
  const T* a;
  const T* x;
  T* y;
  int64_t m;
  int64_t k;
  int64_t pitch;  // from one k to the next
  int64_t x_step;
  int64_t y_step;

  explicit ColumnArguments(const Call& call)
      : a(a_of<T>(call)),
        x(x_of<T>(call)),
        y(y_of<T>(call)),
        m(call.m),
        k(call.k),
        pitch(call.column),
        x_step(call.x_step),
        y_step(call.y_step) {}
  ColumnArguments() = default;
};

template <int kWidth>
using ColumnSums = thread::Tile<float, kWidth>;

// The columns from `column` on that 16 bytes hold, times x: rows first, first + step, ... below
// last, kLoads of them in flight.
template <int kLoads, class T>
__device__ __forceinline__ ColumnSums<row::kWidest<T>> multiply_columns(const ColumnArguments<T>& g,
                                                                        int64_t column,
                                                                        int64_t first, int64_t last,
                                                                        int step) {
  constexpr int kWidth = row::kWidest<T>;
  ColumnSums<kWidth> sums{};
  const T* a = g.a + column;
  for (int64_t k = first; k < last; k += kLoads * step) {
    row::Packed<T, kWidth> of_a[kLoads];
    row::Packed<T, 1> of_x[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t row = k + i * step;
      of_a[i] = row::load_or_zeros<kWidth>(a + row * g.pitch, row < last);
      of_x[i] = row::load_or_zeros<1>(g.x + row * g.x_step, row < last);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        sums[e] = thread::fma(of_a[i][e], of_x[i][0], sums[e]);
      }
    }
  }
  return sums;
}

// The sums of a block's threads, `across` (a power of two, up to 32) of which stand side by side
// over kWidth columns each, thread t over those of thread t % across; and of all blocks that share
// these columns. Added up by shuffles, through shared memory, and through the workspace, always in
// the same order. What the threads of warp w hold may stand shift_of(w) columns further to the left
// than their place says: the last kWidth sums of a group are incomplete then.
template <int kThreads, int kWidth>
struct SumDown {
  static constexpr int kWarps = kThreads / kWarpSize;
  static_assert(kThreads % (kWarpSize * kWidth) == 0, "a thread for each column");
  struct Storage {
    SharedArray<float, kWarps * kWarpSize * kWidth> sums;
    SharedArray<uint32_t, 1> order;
  };

  struct InPlace {
    __device__ __forceinline__ int operator()(int /*warp*/) const { return 0; }
  };

  // write(i, sum) for the i-th of across * kWidth columns, each by one thread of the last block.
  template <class Write, class ShiftOf = InPlace>
  __device__ __forceinline__ static void run(Storage& shared, ColumnSums<kWidth> sums, int across,
                                             const Parts<float>& parts, int64_t group,
                                             uint32_t part, const Write& write,
                                             const ShiftOf& shift_of = {}) {
    const int t = thread_index();
    const int columns = across * kWidth;
    for (int distance = kWarpSize / 2; distance >= across; distance /= 2) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) sums[e] += warp::shuffle_xor(sums[e], distance);
    }
    if (lane_index() < across) {
      constexpr int kStored = kWidth < 4 ? kWidth : 4;  // 16 bytes at a time
#pragma unroll
      for (int e = 0; e < kWidth; e += kStored) {
        Vec<float, kStored> some;
#pragma unroll
        for (int i = 0; i < kStored; ++i) some[i] = sums[e + i];
        shared.sums.template store<kStored>(warp_index() * columns + lane_index() * kWidth + e,
                                            some);
      }
    }
    ptx::barrier_sync();
    float sum = t < columns ? of_column(shared, kWarps, columns, shift_of) : 0.0F;

    if (parts.parts > 1) {
      const int64_t base = group * parts.parts;
      if (t < columns) parts.leave((base + part) * columns + t, sum);
      if (!parts.came_last(group, shared.order)) return;
      const int column = t & (columns - 1);
      const int ranks = kThreads / columns;
      sum = 0;
#pragma unroll 8
      for (int p = t / columns; p < parts.parts; p += ranks) {
        sum += parts.take((base + p) * columns + column);
      }
      if (ranks > 1) {
        shared.sums[t] = sum;
        ptx::barrier_sync();
        if (t < columns) sum = of_column(shared, ranks, columns, InPlace{});
      }
    }
    if (t < columns) write(t, sum);
  }

 private:
  // The thread's column, of `count` times `columns` sums.
  template <class ShiftOf>
  __device__ __forceinline__ static float of_column(Storage& shared, int count, int columns,
                                                    const ShiftOf& shift_of) {
    float sum = 0;
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
      sum += shared.sums[i * columns + ((thread_index() + shift_of(i)) & (columns - 1))];
    }
    return sum;
  }
};

}  // namespace ws::gemv
#endif
