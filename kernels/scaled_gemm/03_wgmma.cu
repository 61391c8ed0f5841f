#include "kernels/scaled_gemm/03_wgmma.cuh"

namespace ws::scaled_gemm {

extern const Rung kWgmma;
constinit const Rung kWgmma = rung_of<Wgmma, IntMm, ScaledMm>({
    .name = "wgmma",
    .from = "any_layout",
    .idea = "8-bit wgmma under warp specialisation: twice the products of 16 bits a second",
    .arch = Arch::kSm90a,
});

}  // namespace ws::scaled_gemm
