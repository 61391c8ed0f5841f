#include "kernels/linear/07_copy_engine_adds.cuh"

namespace ws::linear {

inline constexpr Seed kCopyEngineAddsSeeds[] = {
    {.name = "gemm_gradient_accumulation_f32", .operation = "gemm_accumulate"},
};
extern const Rung kCopyEngineAdds;
constinit const Rung kCopyEngineAdds = rung_of<CopyEngineAdds, kHalves, GemmAccumulate>({
    .name = "copy_engine_adds",
    .from = "wgmma",
    .idea = "a tile of sums leaves as a reduction that L2 carries out: no SM reads c",
    .arch = Arch::kSm90a,
    .seeds = kCopyEngineAddsSeeds,
});

}  // namespace ws::linear
