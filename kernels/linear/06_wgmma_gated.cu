#include "kernels/linear/06_wgmma_gated.cuh"

namespace ws::linear {

extern const Rung kWgmmaGated;
constinit const Rung kWgmmaGated = rung_of<WgmmaGated, kHalves, SwigluLinear>({
    .name = "wgmma_gated",
    .from = "wgmma",
    .idea = "a tile is 128 gates and the 128 sums that they gate; each of two blocks copies a half",
    .arch = Arch::kSm90a,
});

}  // namespace ws::linear
