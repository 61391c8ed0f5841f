// Idea: fragments ahead. While the tensor cores work on one step of K, the fragments of the next
//   are read, between the products and across the end of a stage.
// From mma_bands: the tensor cores wait for no ldmatrix. With that, 64 x 64 of C for a warp, in a
//   tile of 128 x 256; every layout, for ldmatrix turns matrices for nothing; and C goes through
//   shared memory, so that whole lines of it are written.
// Traffic: M N K (1 / tile_m + 1 / tile_n) elements from L2, each operand from memory about once:
//   tiles run in bands (tile::Raster). Shared memory is swizzled: ldmatrix meets no bank conflict.
// Limits: mma.sync reaches about 63 % of Hopper's tensor rate. Rows aligned to 16 bytes take the
//   wide tile; to 4 or 2 smaller ones, narrower copies. A stride of each matrix must be 1.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "kernels/gemm/policies.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/tile/mma_fragments.hpp"
#include "warpsmith/tile/staged_copy.hpp"

namespace ws::gemm {

// Long: copies, products and the write of C share the stages; apart, their order would be hidden.
template <class T, Contiguous kA, Contiguous kB, class Policy>
struct MmaPipelineKernel : Policy {
  using Policy::kStages, Policy::kTileK, Policy::kTileM, Policy::kTileN, Policy::kThreads;
  static constexpr bool kARunsAlongK = kA == Contiguous::kColumns;
  static constexpr bool kBRunsAlongK = kB == Contiguous::kRows;
  using CursorA = tile::OperandCursor<T, kARunsAlongK, kTileM, kTileK, kThreads>;
  using CursorB = tile::OperandCursor<T, kBRunsAlongK, kTileN, kTileK, kThreads>;
  using TileA = typename CursorA::Tile;
  using TileB = typename CursorB::Tile;
  using TileC = tile::SwizzledTile<kTileM, kTileN>;
  using Fragments = tile::MmaFragments<T, Policy::kWarpTileM, Policy::kWarpTileN>;
  using LaneOffsets =
      typename Fragments::template LaneOffsets<TileA, kARunsAlongK, TileB, kBRunsAlongK>;
  using Sums = typename Fragments::Sums;

  using Arguments = CopiedArguments<T>;
  struct SharedStorage {
    SharedArray<T, kStages * Policy::kStageElements, 128> memory;  // stages of A and B; then C

    __device__ __forceinline__ SharedSpan<T> a(int stage) {
      return {memory.pointer(stage * Policy::kStageElements), TileA::kElements};
    }
    __device__ __forceinline__ SharedSpan<T> b(int stage) {
      return {memory.pointer(stage * Policy::kStageElements + TileA::kElements), TileB::kElements};
    }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    multiply(shared, g, static_cast<int>(block_index()));
  }

  __device__ __forceinline__ static void multiply(SharedStorage& shared, const Arguments& g,
                                                  int index) {
    const tile::TileIndex tile = g.raster.at(index);
    const int row = tile.m * kTileM;
    const int column = tile.n * kTileN;
    const int warp_row = warp_index() / Policy::kWarpsN * Policy::kWarpTileM;
    const int warp_column = warp_index() % Policy::kWarpsN * Policy::kWarpTileN;
    Sums sums = {};
    if (g.k > 0) {
      const int bytes = Policy::kOnlyAligned ? 16 : g.copy_bytes;
      multiply(shared, bytes, CursorA(g.a, g.a_leading, row, g.m, g.k, bytes),
               CursorB(g.b, g.b_leading, column, g.n, g.k, bytes), warp_row, warp_column, sums);
    }
    ptx::barrier_sync();  // all fragments are read: the stages are free
    const SharedSpan<T> staged{shared.memory.pointer(), TileC::kElements};
    Fragments::for_each_pair(sums, [&](int i, int j, float first, float second) {
      staged.template store<2>(TileC::offset(warp_row + i, warp_column + j),
                               Vec<T, 2>{from_float<T>(first), from_float<T>(second)});
    });
    ptx::barrier_sync();
    T* c = g.c + row * g.c_leading + column;
    const int columns = std::min(int{kTileN}, g.n - column);
    if (g.c_aligned && columns % 8 == 0) {
      write<8>(c, g.c_leading, staged, std::min(int{kTileM}, g.m - row), columns);
    } else {
      write<1>(c, g.c_leading, staged, std::min(int{kTileM}, g.m - row), columns);
    }
  }

  __device__ __forceinline__ static void multiply(SharedStorage& shared, int bytes, CursorA a,
                                                  CursorB b, int warp_row, int warp_column,
                                                  Sums& sums) {
    const auto copy_next = [&](int stage) {
      if constexpr (Policy::kOnlyAligned) {
        tile::copy_both<16>(a, shared.a(stage), b, shared.b(stage));
      } else {
        tile::copy_both(a, shared.a(stage), b, shared.b(stage), bytes);
      }
      ptx::cp_async_commit_group();
    };
    const LaneOffsets lane(warp_row, warp_column);
    const auto load = [&](Fragments& fragments, int part, int stage, int k) {
      fragments.load(part, shared.a(stage), shared.b(stage), lane, k);
    };
    int left = (a.k_left + kTileK - 1) / kTileK;
    for (int stage = 0; stage < kStages - 1; ++stage) copy_next(stage);
    ptx::cp_async_wait_group<kStages - 2>();
    ptx::barrier_sync();
    Fragments fragments[2];
#pragma unroll
    for (int part = 0; part < Fragments::kDown; ++part) load(fragments[0], part, 0, 0);
    for (int reading = 0; left > 0; --left) {
      const int writing = (reading + kStages - 1) % kStages;  // the stage read before this one
#pragma unroll
      for (int k = 0; k < kTileK; k += 16) {
        // The fragments of the next step load while the tensor cores work on this one's. After the
        // last step they come from the next stage: its copies must have landed, for all threads;
        // and then nobody reads the stage before any more.
        const bool last = k + 16 == kTileK;
        if (last && left > 1) {
          ptx::cp_async_wait_group<kStages - 2>();
          ptx::barrier_sync();
          reading = (reading + 1) % kStages;
        }
        fragments[k / 16 % 2].multiply_add(sums, [&](int part) {
          if (!last || left > 1) {
            load(fragments[(k / 16 + 1) % 2], part, reading, (k + 16) % kTileK);
          }
        });
        if (k == 0) copy_next(writing);
      }
    }
  }

  // The block writes its tile of C row by row, kWidth elements at a time.
  template <int kWidth>
  __device__ __forceinline__ static void write(T* c, int64_t leading, SharedSpan<T> staged,
                                               int rows, int columns) {
#pragma unroll 4
    for (int at = thread_index() * kWidth; at < kTileM * kTileN; at += kThreads * kWidth) {
      const int i = at / kTileN;
      const int j = at % kTileN;
      if (i < rows && j < columns) {
        thread::store(c + i * leading + j, staged.template load<kWidth>(TileC::offset(i, j)));
      }
    }
  }

  static void run(const Call& call, int copy_bytes, Stream stream) {
    const tile::Raster raster = raster_of(call, kTileM, kTileN);
    launch<MmaPipelineKernel>({.blocks = raster.count(), .threads = kThreads}, stream,
                              {call, raster, copy_bytes});
  }
};

struct MmaPipeline {
  static bool supports(const Call& call, Why& why) { return runs_supported(call, why); }
  static void run(const Call& call, const Context& context);
};

}  // namespace ws::gemm
