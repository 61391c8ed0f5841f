// A block's part of the product on the CUDA cores as conflict_free lays it out, f32 in shared
// memory: for the rungs from there on that take plain matrices.
#pragma once

#include "kernels/gemm/plain.hpp"

#if WS_DEVICE_CODE
namespace ws::gemm {

// A block's tile of 128 x 16 kColumns of C, by 16 x 16 threads: eight rows by kColumns columns
// each, rows in groups of four that lie 64 apart, columns in groups of kRun: four, or the eight of
// 16 bytes of f16.
template <int kColumns, int kRun = 4>
struct QuadTile {
  using Element = float;  // in shared memory
  static constexpr int kThreads = 256;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 16 * kColumns;
  static constexpr int kPaddedM = kTileM + 4;
  static constexpr int kStepA = kPaddedM;  // elements of a step of K in shared memory
  static constexpr int kStepB = kTileN;

  __device__ __forceinline__ static int row(int i) {
    return i / 4 * 64 + thread_index() / 16 * 4 + i % 4;
  }
  __device__ __forceinline__ static int column(int j) {
    return j / kRun * 16 * kRun + thread_index() % 16 * kRun + j % kRun;
  }
  // Where a row of B has column j in shared memory: groups of four are 64 apart in any case.
  __device__ __forceinline__ static int place(int j) {
    return j / 4 * 64 + thread_index() % 16 * 4 + j % 4;
  }

  // Puts kRun neighbours of a row of A, or of B, as f32 where multiply_add looks for them.
  template <class T>
  __device__ __forceinline__ static void store_a(SharedSpan<float> a, int row, int k,
                                                 const Vec<T, kRun>& piece WS_AND_PLACE) {
    const Vec<float, kRun> wide = thread::convert<float>(piece);
#pragma unroll
    for (int p = 0; p < kRun; ++p) {
      a.template store<1>((k + p) * kPaddedM + row, Vec<float, 1>{wide[p]} WS_PASS_AND_PLACE);
    }
  }
  template <class T>
  __device__ __forceinline__ static void store_b(SharedSpan<float> b, int k, int column,
                                                 const Vec<T, kRun>& piece WS_AND_PLACE) {
    const Vec<float, kRun> wide = thread::convert<float>(piece);
    const int group =
        kRun == 4 ? column : column / (16 * kRun) * (16 * kRun) + column % (16 * kRun) / kRun * 4;
#pragma unroll
    for (int j = 0; j < kRun; j += 4) {
      const Vec<float, 4> four = {wide[j], wide[j + 1], wide[j + 2], wide[j + 3]};
      b.template store<4>(k * kTileN + group + j / 4 * 64, four WS_PASS_AND_PLACE);
    }
  }

  // Adds the products of kSlice steps of K: a[step][row], rows kPaddedM long, and b[step][place].
  // Written out for 16 steps: instructions beyond 34 KB would not stay in their cache.
  template <int kSlice>
  __device__ __forceinline__ void multiply_add(SharedSpan<float> a, SharedSpan<float> b) {
#pragma unroll(kSlice < 16 ? kSlice : 16)
    for (int p = 0; p < kSlice; ++p) {
      Vec<float, 4> down[2];
      Vec<float, 4> across[kColumns / 4];
#pragma unroll
      for (int i = 0; i < 8; i += 4) down[i / 4] = a.template load<4>(p * kPaddedM + row(i));
#pragma unroll
      for (int j = 0; j < kColumns; j += 4) {
        across[j / 4] = b.template load<4>(p * kTileN + place(j));
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          sums[i][j] += down[i / 4][i % 4] * across[j / 4][j % 4];
        }
      }
    }
  }

  // Writes the tile of C whose first element is at (first_row, first_column).
  template <class T>
  __device__ __forceinline__ void write(const PlainArguments<T>& g, int first_row,
                                        int first_column) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (first_row + row(i) >= g.m) continue;
      T* const c = g.c + int64_t{first_row + row(i)} * g.n + first_column;
#pragma unroll
      for (int j = 0; j < kColumns; j += kRun) {
        Vec<float, kRun> run;
#pragma unroll
        for (int e = 0; e < kRun; ++e) run[e] = sums[i][j + e];
        store_piece(c + column(j), thread::convert<T>(run), g.n - first_column - column(j),
                    kRun == 4 ? g.c_by_four : g.c_aligned);
      }
    }
  }

  float sums[8][kColumns] = {};
};

}  // namespace ws::gemm
#endif
