#include "kernels/linear/17_batched_mma.cuh"

namespace ws::linear {

extern const Rung kBatchedMma;
constinit const Rung kBatchedMma = rung_of<BatchedMma, kFloats, Baddbmm>({
    .name = "batched_mma",
    .from = "batched_any_layout",
    .idea = "small products by mma.sync, a tile of 32 x 32 a block; any before Hopper",
});

}  // namespace ws::linear
