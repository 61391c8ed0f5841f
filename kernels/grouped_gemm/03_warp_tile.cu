#include "kernels/grouped_gemm/03_warp_tile.cuh"

namespace ws::grouped_gemm {

extern const Rung kWarpTile;
constinit const Rung kWarpTile =
    rung_of<WarpTile, DTypes{DType::kF32}, GroupedGemm, GroupedGemmWeight>({
        .name = "warp_tile",
        .from = "any_layout",
        .idea = "a block looks its tile up in the offsets, with a sum over 32 groups at once",
    });

}  // namespace ws::grouped_gemm
