#include "kernels/gemm/43_batched_warp_tile.cuh"

namespace ws::gemm {

extern const Rung kBatchedWarpTile;
constinit const Rung kBatchedWarpTile = rung_of<BatchedWarpTile, DTypes{DType::kF32}, Bmm>({
    .name = "batched_warp_tile",
    .from = "warp_tile",
    .idea = "a tile's number says which product it is of; each product moves three pointers",
});

}  // namespace ws::gemm
