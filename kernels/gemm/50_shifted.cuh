// Idea: rows that start anywhere are put straight on their way to shared memory. A thread loads the
//   two pieces of 16 bytes that its eight elements lie in, shifts them together in registers, and
//   stores them where ldmatrix wants them; the next slice's are in flight under the products.
// From realigned: nothing is copied first, so a thin product reads its long operand once. From
//   mma_pipeline: loads of 16 bytes where there were copies of 4, or elements. Blocks of a cluster
//   have a part of K each, as in split_k.
// Traffic: A and B once from memory where one side is a tile wide; a piece twice, from L1.
// Limits: sm_90 (clusters); strides of 1 in each matrix. By mma.sync: for few flops a byte.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "kernels/gemm/plan.hpp"
#include "kernels/gemm/shifted_pieces.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/tile/mma_fragments.hpp"

namespace ws::gemm {

// Long: the products, and the exchange of sums between the parts of K, share the block's places.
template <class T, Contiguous kA, Contiguous kB, class Policy>
struct ShiftedKernel : Policy {
  static constexpr Arch kArch = Arch::kSm90;
  using Policy::kTileK, Policy::kTileM, Policy::kTileN, Policy::kThreads;
  static constexpr bool kARunsAlongK = kA == Contiguous::kColumns;
  static constexpr bool kBRunsAlongK = kB == Contiguous::kRows;
  using PiecesA = ShiftedPieces<T, kARunsAlongK, kTileM, kTileK, kThreads>;
  using PiecesB = ShiftedPieces<T, kBRunsAlongK, kTileN, kTileK, kThreads>;
  using TileA = typename PiecesA::Tile;
  using TileB = typename PiecesB::Tile;
  using Fragments = tile::MmaFragments<T, Policy::kWarpTileM, Policy::kWarpTileN>;
  using LaneOffsets =
      typename Fragments::template LaneOffsets<TileA, kARunsAlongK, TileB, kBRunsAlongK>;
  static constexpr int kSumsStride = kTileN + 8;  // lanes of a pair's store meet few conflicts

  struct Arguments {
    Runs<T> a;
    Runs<T> b;
    T* c;
    int64_t c_row, c_column;  // strides
    int m, n, slices;
    tile::PreparedRaster raster;
  };
  struct SharedStorage {
    SharedArray<T, 2 * TileA::kElements, 128> a;
    SharedArray<T, 2 * TileB::kElements, 128> b;
    SharedArray<float, kTileM * kSumsStride, 128> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const int part = cluster_rank();
    const int parts = cluster_size();
    const tile::TileIndex tile = g.raster.at(static_cast<int>(block_index()) / parts);
    const int row = tile.m * kTileM;
    const int column = tile.n * kTileN;
    const int warp_row = warp_index() / Policy::kWarpsN * Policy::kWarpTileM;
    const int warp_column = warp_index() % Policy::kWarpsN * Policy::kWarpTileN;
    typename Fragments::Sums sums = {};
    multiply(shared, g, row, column, g.slices * part / parts, g.slices * (part + 1) / parts,
             LaneOffsets(warp_row, warp_column), sums);
    const SharedSpan<float> mine{shared.sums.pointer(), kTileM * kSumsStride};
    Fragments::for_each_pair(sums, [&](int i, int j, float first, float second) {
      mine.template store<2>((warp_row + i) * kSumsStride + warp_column + j,
                             Vec<float, 2>{first, second});
    });
    if (parts == 1) {
      ptx::barrier_sync();
    } else {
      ptx::cluster_sync();
    }
    write(mine, g, row, column, part, parts);
    if (parts > 1) {    // others may still read this block's sums
      ptx::syncwarp();  // lanes that had no column left
      ptx::cluster_sync();
    }
  }

  __device__ __forceinline__ static void multiply(SharedStorage& shared, const Arguments& g,
                                                  int row, int column, int first, int last,
                                                  const LaneOffsets& lane,
                                                  typename Fragments::Sums& sums) {
    if (first == last) return;
    const auto tile_a = [&](int buffer) {
      return SharedSpan<T>{shared.a.pointer(buffer * TileA::kElements), TileA::kElements};
    };
    const auto tile_b = [&](int buffer) {
      return SharedSpan<T>{shared.b.pointer(buffer * TileB::kElements), TileB::kElements};
    };
    PiecesA a(g.a, row, first * kTileK);
    PiecesB b(g.b, column, first * kTileK);
    // The first round loads only: the loads stand here once, for they are most of the code.
    for (int slice = first - 1; slice < last; ++slice) {
      const int buffer = (slice - first) & 1;
      if (slice >= first) {
        a.store(tile_a(buffer));
        b.store(tile_b(buffer));
      }
      if (slice + 1 < last) {
        a.load();
        b.load();
      }
      if (slice < first) continue;
      // Who is here has read the other buffer, which is the next to be written.
      ptx::barrier_sync();
#pragma unroll
      for (int k = 0; k < kTileK; k += 16) {
        Fragments fragments;
#pragma unroll
        for (int i = 0; i < Fragments::kDown; ++i) {
          fragments.load(i, tile_a(buffer), tile_b(buffer), lane, k);
        }
        fragments.multiply_add(sums);
      }
    }
  }

  // This part's rows of the tile: the sums of all parts, in order, rounded.
  __device__ __forceinline__ static void write(SharedSpan<float> sums, const Arguments& g, int row,
                                               int column, int part, int parts) {
    const int first = kTileM * part / parts;
    const int rows = std::min(kTileM * (part + 1) / parts, g.m - row) - first;
#pragma unroll 1
    for (int at = thread_index(); at < rows * kTileN; at += kThreads) {
      const int i = first + at / kTileN;
      const int j = at % kTileN;
      if (column + j >= g.n) continue;
      float total = 0;
#pragma unroll 1
      for (int other = 0; other < parts; ++other) {
        const int index = i * kSumsStride + j;
        total +=
            parts == 1
                ? sums[index]
                : ptx::ld_shared_cluster<float>(ptx::map_shared_rank(sums.pointer(index), other));
      }
      T* const to = g.c + (row + i) * g.c_row + (column + j) * g.c_column;
      thread::store(to, from_float<T>(total));
    }
  }

  // `parts` blocks divide K.
  static void run(const Call& call, int parts, Stream stream) {
    const tile::Raster raster = raster_of(call, kTileM, kTileN);
    launch<ShiftedKernel>(
        {.blocks = int64_t{raster.count()} * parts, .threads = kThreads, .cluster = parts}, stream,
        {.a = Runs<T>(call.a),
         .b = Runs<T>(call.b),
         .c = call.c.as<T>(),
         .c_row = call.c.row,
         .c_column = call.c.column,
         .m = static_cast<int>(call.m),
         .n = static_cast<int>(call.n),
         .slices = static_cast<int>(divide_up(call.k, kTileK)),
         .raster = raster});
  }
};

// By the plan.
template <class T>
void run_shifted(const Call& call, const ShiftedPlan& plan, Stream stream) {
  with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
    ShiftedPolicies::with(plan.policy, [&]<class Policy>() {
      ShiftedKernel<T, kA, kB, Policy>::run(call, plan.parts, stream);
    });
  });
}
// Many kernels: 50_shifted.cu and shifted_bf16.cu have them.
extern template void run_shifted<half>(const Call&, const ShiftedPlan&, Stream);
extern template void run_shifted<bf16>(const Call&, const ShiftedPlan&, Stream);

// The call with its thinner operand as A.
inline Call thin_first(const Call& call) { return call.m > call.n ? transposed(call) : call; }

struct Shifted {
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to load") && runs_supported(call, why);
  }
  static void run(const Call& given, const Context& context) {
    const Call call = thin_first(given);
    const ShiftedPlan plan = plan_shifted(call);
    call.dtype == DType::kF16 ? run_shifted<half>(call, plan, context.stream)
                              : run_shifted<bf16>(call, plan, context.stream);
  }
};

}  // namespace ws::gemm
