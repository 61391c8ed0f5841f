// The kernels of a batch that store f32 of 16-bit operands.
#include "kernels/gemm/48_batched_realigned.cuh"
#include "kernels/gemm/51_batched_pingpong.cuh"

namespace ws::gemm {

template void run_batched_wgmma<half, BatchedPlainOutput<float>, BatchedWidePlainPolicies>(
    const BatchedCall&, int, Stream);
template void run_batched_wgmma<bf16, BatchedPlainOutput<float>, BatchedWidePlainPolicies>(
    const BatchedCall&, int, Stream);
template void run_batched_pingpong<half, float>(const BatchedCall&, int, int, Stream);
template void run_batched_pingpong<bf16, float>(const BatchedCall&, int, int, Stream);

}  // namespace ws::gemm
