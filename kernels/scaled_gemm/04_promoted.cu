#include "kernels/scaled_gemm/04_promoted.cuh"

namespace ws::scaled_gemm {

extern const Rung kPromoted;
constinit const Rung kPromoted = rung_of<Promoted, ScaledMm>({
    .name = "promoted",
    .from = "wgmma",
    .idea = "each 128 of K is scaled and added to f32 sums in registers: block scales, full sums",
    .arch = Arch::kSm90a,
});

}  // namespace ws::scaled_gemm
