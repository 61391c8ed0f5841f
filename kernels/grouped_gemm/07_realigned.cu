#include "kernels/grouped_gemm/07_realigned.cuh"

namespace ws::grouped_gemm {

extern const Rung kRealigned;
constinit const Rung kRealigned = rung_of<Realigned, kHalves, GroupedGemm, GroupedGemmWeight>({
    .name = "realigned",
    .from = "wgmma",
    .idea = "unaligned rows are copied once into aligned ones, those of all groups in one launch",
    .arch = Arch::kSm90a,
});

}  // namespace ws::grouped_gemm
