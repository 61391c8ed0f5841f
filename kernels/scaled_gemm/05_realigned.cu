#include "kernels/scaled_gemm/05_realigned.cuh"

namespace ws::scaled_gemm {

extern const Rung kRealigned;
constinit const Rung kRealigned = rung_of<Realigned, IntMm, ScaledMm>({
    .name = "realigned",
    .from = "promoted",
    .idea = "operands are turned or realigned once, C too: any layout and size on tensor cores",
    .arch = Arch::kSm90a,
});

}  // namespace ws::scaled_gemm
