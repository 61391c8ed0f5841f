#include "kernels/gemm/09_copy_engine.cuh"

namespace ws::gemm {

extern const Rung kCopyEngine;
constinit const Rung kCopyEngine = rung_of<CopyEngine, DTypes{DType::kF32}, Gemm>({
    .name = "copy_engine",
    .from = "warp_tile",
    .idea = "TMA fills the stages, mbarriers instead of barriers: the warps only multiply",
    .arch = Arch::kSm90,
});

}  // namespace ws::gemm
