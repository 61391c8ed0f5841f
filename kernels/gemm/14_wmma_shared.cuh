// Idea: eight warps, four down and two across, bring slices of A and B to shared memory and take
//   their fragments from there.
// From wmma_naive: an element read from the caches serves 32 or 64 products, not 16; and tails are
//   zeros in shared memory, so that every M, N and K goes.
// Traffic: M N K (1 / 64 + 1 / 32) elements from L2. For each product two fragments are read from
//   shared memory, whose rows are padded by 16 bytes.
// Limits: f16 and bf16; dense row-major matrices, layout nn.
#pragma once

#include "kernels/gemm/plain.hpp"
#include "kernels/gemm/wmma_output.hpp"

namespace ws::gemm {

// A warp computes kDown by kAcross fragments. Shared with the rung above.
template <class T, int kDown, int kAcross>
struct WmmaSharedKernel {
  using Product = ptx::Wmma<T, 16, 16, 16>;
  static constexpr int kWarpsN = 2;
  static constexpr int kWarps = 8;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kMinBlocks = 2;
  static constexpr int kTileM = kWarps / kWarpsN * kDown * 16;
  static constexpr int kTileN = kWarpsN * kAcross * 16;
  static constexpr int kSlice = 16;  // of K
  // Elements from row to row of the slices in shared memory.
  static constexpr int kPitchA = kSlice + 8;
  static constexpr int kPitchB = kTileN + 8;

  using Arguments = PlainArguments<T>;
  struct SharedStorage {
    SharedArray<T, kTileM * kPitchA, 128> a;
    SharedArray<T, kSlice * kPitchB, 128> b;
    WmmaOutput<Product, kWarps> output;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const TilePlace first = tile_place(g.n, kTileM, kTileN);
    const int row = warp_index() / kWarpsN * kDown * 16;
    const int column = warp_index() % kWarpsN * kAcross * 16;
    typename Product::Sums sums[kDown][kAcross];
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) Product::clear(sums[i][j]);
    }
    for (int slice = 0; slice < g.k; slice += kSlice) {
      load_slices<kTileM, kTileN, kSlice, kThreads>(shared.a.span(), kPitchA, shared.b.span(),
                                                    kPitchB, g, first, slice);
      ptx::barrier_sync();
      typename Product::A a[kDown];
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        Product::load(a[i], shared.a.pointer((row + i * 16) * kPitchA), kPitchA);
      }
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        typename Product::B b;
        Product::load(b, shared.b.pointer(column + j * 16), kPitchB);
#pragma unroll
        for (int i = 0; i < kDown; ++i) Product::multiply_add(sums[i][j], a[i], b);
      }
      ptx::barrier_sync();
    }
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        const int at_row = first.row + row + i * 16;
        const int at_column = first.column + column + j * 16;
        shared.output.write(sums[i][j], g.c + int64_t{at_row} * g.n + at_column, g.n, g.m - at_row,
                            g.n - at_column, g.c_by_four);
      }
    }
  }

  static void run(const Call& call, Stream stream) {
    launch_tiles<WmmaSharedKernel, T>(call, kTileM, kTileN, stream);
  }
};

struct WmmaShared {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype,
                       [&]<class T>() { WmmaSharedKernel<T, 1, 1>::run(call, context.stream); });
  }
};

inline constexpr Seed kWmmaSharedSeeds[] = {
    {.name = "hgemm_wmma_m16n16k16_mma4x2", .dtypes = {DType::kF16}},
};
inline constexpr Rung kWmmaShared = rung_of<WmmaShared, kHalves, Gemm>({
    .name = "wmma_shared",
    .from = "wmma_naive",
    .idea = "eight warps take their fragments from slices in shared memory",
    .seeds = kWmmaSharedSeeds,
});

}  // namespace ws::gemm
