#include "kernels/gemm/50_shifted.cuh"

namespace ws::gemm {

template void run_shifted<half>(const Call&, const ShiftedPlan&, Stream);

extern const Rung kShifted;
constinit const Rung kShifted = rung_of<Shifted, kHalves, Gemm>({
    .name = "shifted",
    .from = "mma_pipeline",
    .idea = "rows that start anywhere are shifted together in registers on their way to mma.sync",
    .arch = Arch::kSm90,
});

}  // namespace ws::gemm
