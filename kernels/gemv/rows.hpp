// What the rungs share that read rows 16 bytes at a time.
#pragma once

#include "kernels/gemv/dispatch.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/load.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/tile.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::gemv {

// The arguments of a kernel over rows of A that start at multiples of 16 bytes.
template <class T>
struct RowArguments {
  const T* a;
  const T* x;
  T* y;
  int64_t m;
  int k;
  int64_t pitch;  // from row to row
  int64_t y_step;

  explicit RowArguments(const Call& call)
      : a(a_of<T>(call)),
        x(x_of<T>(call)),
        y(y_of<T>(call)),
        m(call.m),
        k(static_cast<int>(call.k)),
        pitch(call.row),
        y_step(call.y_step) {}
  RowArguments() = default;
};

// The products of two vectors, added up among themselves first: chains of additions stay short.
template <class T, int N>
__device__ __forceinline__ float dot(const row::Packed<T, N>& a, const row::Packed<T, N>& x) {
  float sum = a[0] * x[0];
#pragma unroll
  for (int e = 1; e < N; ++e) sum = thread::fma(a[e], x[e], sum);
  return sum;
}

template <int kRows>
using Sums = thread::Tile<float, kRows>;

struct AddSums {
  template <int kRows>
  __device__ __forceinline__ Sums<kRows> operator()(const Sums<kRows>& p,
                                                    const Sums<kRows>& q) const {
    Sums<kRows> sum;
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] = p[r] + q[r];
    return sum;
  }
};

// kRows rows of A times x, by `ranks` threads of which this is number `rank`: vectors rank,
// rank + ranks, ... of [first, last), kVectors of each row in flight; each vector of x is loaded
// once for all rows.
template <int kRows, int kVectors, Cache kCache, class T>
__device__ __forceinline__ Sums<kRows> multiply_rows(const T* const (&rows)[kRows], const T* x,
                                                     int first, int last, int rank, int ranks) {
  constexpr int kWidth = row::kWidest<T>;
  Sums<kRows> sums{};
  for (int v = first + rank; v < last; v += kVectors * ranks) {
    row::Packed<T, kWidth> a[kRows][kVectors];
    row::Packed<T, kWidth> factor[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int vector = v + i * ranks;
      const int64_t at = int64_t{vector} * kWidth;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        a[r][i] = row::load_or_zeros<kWidth, kCache>(rows[r] + at, vector < last);
      }
      factor[i] = row::load_or_zeros<kWidth>(x + at, vector < last);
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[r] += dot(a[r][i], factor[i]);
    }
  }
  return sums;
}

// Adds what is left of the rows behind their last vectors.
template <int kRows, class T>
__device__ __forceinline__ void multiply_tails(Sums<kRows>& sums, const T* const (&rows)[kRows],
                                               const T* x, int k, int rank) {
  const int at = k / row::kWidest<T> * row::kWidest<T> + rank;
  if (at >= k) return;
  const float factor = to_float(thread::load(x + at));
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    sums[r] = thread::fma(to_float(thread::load(rows[r] + at)), factor, sums[r]);
  }
}

// Where rows first, first + 1, ... start; those beyond the last are the last one again.
template <int kRows, class T>
__device__ __forceinline__ void find_rows(const T* (&rows)[kRows], const RowArguments<T>& g,
                                          int64_t first) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    rows[r] = g.a + (first + r < g.m ? first + r : g.m - 1) * g.pitch;
  }
}

// Thread r of `rank` writes row first + r.
template <int kRows, class T>
__device__ __forceinline__ void store_rows(const RowArguments<T>& g, int64_t first, int rank,
                                           const Sums<kRows>& sums) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (rank == r && first + r < g.m) {
      thread::store(g.y + (first + r) * g.y_step, from_float<T>(sums[r]));
    }
  }
}

}  // namespace ws::gemv
#endif
