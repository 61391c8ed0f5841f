#include "kernels/gemm/44_batched_wgmma.cuh"

namespace ws::gemm {

template void run_batched_wgmma<half>(const BatchedCall&, int, Stream);
template void run_batched_wgmma<bf16>(const BatchedCall&, int, Stream);

extern const Rung kBatchedWgmma;
constinit const Rung kBatchedWgmma = rung_of<BatchedWgmma, kHalves, Bmm>({
    .name = "batched_wgmma",
    .from = "warp_specialized",
    .idea = "tensor maps of three dimensions: a product is a coordinate of the copy engine",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
