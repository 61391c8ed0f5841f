#include "kernels/linear/14_batched_realigned.cuh"

namespace ws::linear {

template void run_batched_realigned<half>(const BatchedCall&, int, Stream);

extern const Rung kBatchedRealigned;
constinit const Rung kBatchedRealigned = rung_of<BatchedRealigned, kFloats, Baddbmm>({
    .name = "batched_realigned",
    .from = "batched_pingpong",
    .idea = "unaligned rows of all products are copied once into aligned ones",
    .arch = Arch::kSm90a,
});

double batched_realigned_time(const BatchedCall& call) { return BatchedRealigned::time(call); }

}  // namespace ws::linear
