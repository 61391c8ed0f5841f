#include "kernels/gemm/48_batched_realigned.cuh"

namespace ws::gemm {

template void run_batched_wgmma<half, BatchedPlainOutput<half>>(const BatchedCall&, int, Stream);
template void run_batched_wgmma<bf16, BatchedPlainOutput<bf16>>(const BatchedCall&, int, Stream);

extern const Rung kBatchedRealigned;
constinit const Rung kBatchedRealigned = rung_of<BatchedRealigned, kHalves, Bmm>({
    .name = "batched_realigned",
    .from = "batched_wgmma",
    .idea = "unaligned rows of all products are copied once into aligned ones",
    .arch = Arch::kSm90a,
});

double batched_realigned_time(const BatchedCall& call) { return BatchedRealigned::time(call); }

}  // namespace ws::gemm
