// Idea: a small product waits, so wait once. The warps of a block divide K, and each has all that
//   it multiplies under way in one go, from memory into the registers of mma.sync.
// From mma_naive: a lane loads 16 bytes of K where it loaded two: both operands may walk K in
//   another order than the instruction's, as long as it is the same. Rows may start anywhere.
// Traffic: M N K (1 / tile_m + 1 / tile_n) elements from L2; sums of a tile once for each warp
//   through shared memory.
// Limits: f16 and bf16; strides of 1 in each matrix. For K of some hundreds: nothing is ahead.
#pragma once

#include "kernels/gemm/direct_fragments.hpp"
#include "kernels/gemm/direct_plan.hpp"
#include "kernels/gemm/dispatch.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::gemm {

template <class T, Contiguous kA, Contiguous kB, int kBytes, class Policy>
struct MmaDirectKernel : Policy {
  using Policy::kTileM, Policy::kTileN, Policy::kThreads, Policy::kWarps;
  using FragmentsA = DirectFragments<T, kA == Contiguous::kColumns, kTileM / 8, kBytes>;
  using FragmentsB = DirectFragments<T, kB == Contiguous::kRows, kTileN / 8, kBytes>;
  static constexpr int kDown = kTileM / 16;
  static constexpr int kAcross = kTileN / 8;
  static constexpr int kDepth = FragmentsA::kDepth;
  static constexpr int kPitch = kTileN + 4;
  static constexpr int kOfWarp = kTileM * kPitch;  // sums

  struct Arguments {
    Runs<T> a;
    Runs<T> b;
    T* c;
    int64_t c_row, c_column;  // strides
    int m, n, k;
    int tiles_m;
  };
  struct SharedStorage {
    SharedArray<float, kWarps * kOfWarp, 16> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const auto index = static_cast<int>(block_index());
    const int column = index / g.tiles_m * kTileN;
    const int row = index % g.tiles_m * kTileM;
    float sums[kDown][kAcross][4] = {};
#pragma unroll 1
    for (int k = warp_index() * kDepth; k < g.k; k += kWarps * kDepth) {
      FragmentsA a;
      FragmentsB b;
      a.load(g.a, row, k);
      b.load(g.b, column, k);
      multiply_add<T>(sums, a, b);
    }
    const SharedSpan<float> all{shared.sums.pointer(), kWarps * kOfWarp};
    put(all, sums);
    ptx::barrier_sync();
    write(all, g, row, column);
  }

  // A warp's sums to its place in shared memory.
  __device__ __forceinline__ static void put(SharedSpan<float> to,
                                             const float (&sums)[kDown][kAcross][4]) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = FragmentsA::outer_of(2 * i + e / 2, lane_index() / 4);
          const int column = FragmentsB::outer_of(j, lane_index() % 4 * 2 + e % 2);
          to[warp_index() * kOfWarp + row * kPitch + column] = sums[i][j][e];
        }
      }
    }
  }

  // The tile: the sums of all warps that had some of K, in order, rounded.
  __device__ __forceinline__ static void write(SharedSpan<float> sums, const Arguments& g, int row,
                                               int column) {
    const int warps = std::min((g.k + kDepth - 1) / kDepth, int{kWarps});
#pragma unroll
    for (int at = thread_index(); at < kTileM * kTileN; at += kThreads) {
      const int i = at / kTileN;
      const int j = at % kTileN;
      float total = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        if (warp < warps) total += sums[warp * kOfWarp + i * kPitch + j];
      }
      if (row + i < g.m && column + j < g.n) {
        thread::store(g.c + (row + i) * g.c_row + (column + j) * g.c_column, from_float<T>(total));
      }
    }
  }

  static void run(const Call& call, Stream stream) {
    const auto tiles_m = static_cast<int>(divide_up(call.m, kTileM));
    launch<MmaDirectKernel>({.blocks = tiles_m * divide_up(call.n, kTileN), .threads = kThreads},
                            stream,
                            {.a = direct_runs<T>(call.a),
                             .b = direct_runs<T>(call.b),
                             .c = call.c.as<T>(),
                             .c_row = call.c.row,
                             .c_column = call.c.column,
                             .m = static_cast<int>(call.m),
                             .n = static_cast<int>(call.n),
                             .k = static_cast<int>(call.k),
                             .tiles_m = tiles_m});
  }
};

struct MmaDirect {
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to load") && runs_supported(call, why);
  }
  static void run(const Call& call, const Context& context);
};

}  // namespace ws::gemm
