#include "kernels/linear/10_three_tf32_gated.cuh"

namespace ws::linear {

extern const Rung kThreeTf32Gated;
constinit const Rung kThreeTf32Gated = rung_of<ThreeTf32Gated, DTypes{DType::kF32}, SwigluLinear>({
    .name = "three_tf32_gated",
    .from = "wgmma_gated",
    .idea = "f32 as a sum of two TF32 numbers: a gate's tile and its partner's in one",
    .arch = Arch::kSm90a,
});

bool three_tf32_gated_pays(const GatedCall& call) { return ThreeTf32Gated::pays(call); }

}  // namespace ws::linear
