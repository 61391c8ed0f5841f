#include "kernels/gemm/55_batched_mma.cuh"

namespace ws::gemm {

extern const Rung kBatchedMma;
constinit const Rung kBatchedMma = rung_of<BatchedMma, kHalves, Bmm>({
    .name = "batched_mma",
    .from = "batched_naive",
    .idea = "a small tile by mma.sync, whose code is there before its data",
});

}  // namespace ws::gemm
