// Idea: a tile of warps. Eight warps, two down and four across, share slices of A and B in shared
//   memory, and each computes 64 x 32 of C: 16 products of fragments that it reads once.
// From mma_naive: an element read from the caches serves 128 products, one read from shared memory
//   64 or 32; rows are padded by 16 bytes, so that lanes that read pairs of A share no bank.
// Traffic: M N K (1 / 128 + 1 / 128) elements from L2. Pairs of B lie in two rows, two loads of two
//   bytes each: 32 shared loads for 16 products.
// Limits: f16 and bf16; dense row-major matrices, layout nn.
#pragma once

#include "kernels/gemm/20_mma_naive.cuh"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/tile/mma_fragments.hpp"

namespace ws::gemm {

// Load::fragments(fragments, a, b, row, column) reads a warp's fragments of a slice: rows of A from
// `row`, columns of B from `column` on. Shared with the rung above.
template <class T, class Load>
struct MmaTileKernel {
  static constexpr int kTile = 128;  // rows and columns of C
  static constexpr int kSlice = 16;  // of K
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 2;
  // Elements from row to row of the slices in shared memory.
  static constexpr int kPitchA = kSlice + 8;
  static constexpr int kPitchB = kTile + 8;
  using Fragments = tile::MmaFragments<T, 64, 32>;

  using Arguments = PlainArguments<T>;
  struct SharedStorage {
    SharedArray<T, kTile * kPitchA> a;
    SharedArray<T, kSlice * kPitchB> b;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const TilePlace first = tile_place(g.n, kTile, kTile);
    const int row = warp_index() / 4 * 64;
    const int column = warp_index() % 4 * 32;
    typename Fragments::Sums sums = {};
    for (int slice = 0; slice < g.k; slice += kSlice) {
      load_slices<kTile, kTile, kSlice, kThreads>(shared.a.span(), kPitchA, shared.b.span(),
                                                  kPitchB, g, first, slice);
      ptx::barrier_sync();
      Fragments fragments;
      Load::template fragments<kPitchA, kPitchB>(fragments, shared.a.span(), shared.b.span(), row,
                                                 column);
      fragments.multiply_add(sums);
      ptx::barrier_sync();
    }
    Fragments::for_each_pair(sums, [&](int i, int j, float left, float right) {
      i += first.row + row;
      j += first.column + column;
      if (i < g.m) store_pair(g.c + int64_t{i} * g.n + j, g.n - j, g.c_by_four, left, right);
    });
  }

  static void run(const Call& call, Stream stream) {
    launch_tiles<MmaTileKernel, T>(call, kTile, kTile, stream);
  }
};

// The elements of each register by ordinary loads.
struct LoadPairs {
  template <int kPitchA, int kPitchB, class T, class Fragments>
  __device__ __forceinline__ static void fragments(Fragments& fragments, SharedSpan<T> a,
                                                   SharedSpan<T> b, int row, int column) {
    const int group = lane_index() / 4;
    const int pair = lane_index() % 4 * 2;
#pragma unroll
    for (int i = 0; i < Fragments::kDown; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int at = (row + i * 16 + group + r % 2 * 8) * kPitchA + pair + r / 2 * 8;
        fragments.a[i][r] = std::bit_cast<uint32_t>(a.template load<2>(at));
      }
    }
#pragma unroll
    for (int j = 0; j < Fragments::kAcross; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int at = (pair + r * 8) * kPitchB + column + j * 8 + group;
        const T low = b[at];
        const T high = b[at + kPitchB];
        fragments.b[j][r] = pair_bits(low, high);
      }
    }
  }
};

struct MmaTile {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype,
                       [&]<class T>() { MmaTileKernel<T, LoadPairs>::run(call, context.stream); });
  }
};

inline constexpr Seed kMmaTileSeeds[] = {
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4", .dtypes = {DType::kF16}},
};
inline constexpr Rung kMmaTile = rung_of<MmaTile, kHalves, Gemm>({
    .name = "mma_tile",
    .from = "mma_naive",
    .idea = "eight warps share slices in shared memory; a warp computes 64 x 32 in 16 products",
    .seeds = kMmaTileSeeds,
});

}  // namespace ws::gemm
