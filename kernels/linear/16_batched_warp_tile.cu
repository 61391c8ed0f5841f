#include "kernels/linear/16_batched_warp_tile.cuh"

namespace ws::linear {

extern const Rung kBatchedWarpTile;
constinit const Rung kBatchedWarpTile = rung_of<BatchedWarpTile, DTypes{DType::kF32}, Baddbmm>({
    .name = "batched_warp_tile",
    .from = "batched_any_layout",
    .idea = "a tile of 64 x 64 of a product, finished in registers, on the CUDA cores",
});

}  // namespace ws::linear
