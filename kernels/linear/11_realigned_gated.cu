#include "kernels/linear/11_realigned_gated.cuh"

namespace ws::linear {

extern const Rung kRealignedGated;
constinit const Rung kRealignedGated = rung_of<RealignedGated, kHalves, SwigluLinear>({
    .name = "realigned_gated",
    .from = "wgmma_gated",
    .idea = "unaligned rows are copied once into aligned ones, lanes store y",
    .arch = Arch::kSm90a,
});

}  // namespace ws::linear
