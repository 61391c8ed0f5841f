#include "kernels/gemm/52_batched_shifted.cuh"

namespace ws::gemm {

template void run_batched_shifted<half>(const BatchedCall&, bool, int, Stream);
template void run_batched_shifted<bf16>(const BatchedCall&, bool, int, Stream);

extern const Rung kBatchedShifted;
constinit const Rung kBatchedShifted = rung_of<BatchedShifted, kHalves, Bmm>({
    .name = "batched_shifted",
    .from = "batched_realigned",
    .idea = "unaligned rows are shifted into place on their way to shared memory",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
