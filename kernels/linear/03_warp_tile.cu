#include "kernels/linear/03_warp_tile.cuh"

namespace ws::linear {

extern const Rung kWarpTile;
constinit const Rung kWarpTile = rung_of<WarpTile, DTypes{DType::kF32}, Addmm, GemmAccumulate>({
    .name = "warp_tile",
    .from = "naive",
    .idea = "the epilogue in the registers of the CUDA cores' tile: every layout in f32",
});

}  // namespace ws::linear
