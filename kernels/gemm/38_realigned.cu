#include "kernels/gemm/38_realigned.cuh"

namespace ws::gemm {

extern const Rung kRealigned;
constinit const Rung kRealigned = rung_of<Realigned, kHalves, Gemm>({
    .name = "realigned",
    .from = "split_k",
    .idea = "unaligned rows are copied once into aligned ones: any size on the tensor cores",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
