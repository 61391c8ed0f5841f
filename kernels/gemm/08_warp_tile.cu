#include "kernels/gemm/08_warp_tile.cuh"

namespace ws::gemm {

void WarpTile::run(const Call& call, const Context& context) {
  with_types<DTypes{DType::kF32}>(call, [&]<class, Contiguous kA, Contiguous kB>() {
    WarpTileKernel<kA, kB, WarpTileShape>::run(call, context.stream);
  });
}

extern const Rung kWarpTile;
constinit const Rung kWarpTile = rung_of<WarpTile, DTypes{DType::kF32}, Gemm>({
    .name = "warp_tile",
    .from = "async_copy",
    .idea = "warps of 4 x 8 lanes share what they read, swizzled runs along K: every layout",
});

}  // namespace ws::gemm
