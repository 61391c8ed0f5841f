// Idea: an access of 16 bytes is eight f16. A slice of 16 of K is then one load of A and one of B
//   a thread, and a thread's columns are groups of eight neighbours: C is stored by 16 bytes too.
// From conflict_free: half the global accesses, and half the barriers. Each group of eight of B
//   lies in shared memory as two of four, 64 apart, so neither stores nor loads share a bank; the
//   products are still those of f32, each element converted once, on its way to shared memory.
// Traffic: as conflict_free.
// Limits: f16 (f32 has loads of 16 bytes from register_tile on); dense row-major, layout nn.
#pragma once

#include "kernels/gemm/quad_tile.hpp"
#include "kernels/gemm/slice_share.hpp"
#include "warpsmith/ptx/barrier.hpp"

namespace ws::gemm {

struct WideLoadKernel {
  static constexpr int kSlice = 16;
  using Tile = QuadTile<8, 8>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kMinBlocks = 2;

  using Arguments = PlainArguments<half>;
  struct SharedStorage {
    SharedArray<float, kSlice * Tile::kPaddedM> a;
    SharedArray<float, kSlice * Tile::kTileN> b;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const TilePlace first = tile_place(g.n, Tile::kTileM, Tile::kTileN);
    Tile tile;
    SliceShare<half, Tile, kSlice> share;
    for (int slice = 0; slice < g.k; slice += kSlice) {
      share.load(g, first, slice);
      share.store(shared.a.span(), shared.b.span());
      ptx::barrier_sync();
      tile.multiply_add<kSlice>(shared.a.span(), shared.b.span());
      ptx::barrier_sync();
    }
    tile.write(g, first.row, first.column);
  }
};

struct WideLoad {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    using Tile = WideLoadKernel::Tile;
    launch_tiles<WideLoadKernel, half>(call, Tile::kTileM, Tile::kTileN, context.stream);
  }
};

inline constexpr Seed kWideLoadSeeds[] = {
    {.name = "hgemm_t_8x8_sliced_k_f16x8_pack"},
    {.name = "hgemm_t_8x8_sliced_k_f16x8_pack_bcf"},
};
inline constexpr Rung kWideLoad = rung_of<WideLoad, DTypes{DType::kF16}, Gemm>({
    .name = "wide_load",
    .from = "conflict_free",
    .idea = "f16 by 16 bytes: eight elements an access, slices twice as long",
    .seeds = kWideLoadSeeds,
});

}  // namespace ws::gemm
