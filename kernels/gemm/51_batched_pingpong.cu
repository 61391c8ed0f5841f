#include "kernels/gemm/51_batched_pingpong.cuh"

namespace ws::gemm {

template void run_batched_pingpong<half>(const BatchedCall&, int, int, Stream);
template void run_batched_pingpong<bf16>(const BatchedCall&, int, int, Stream);

extern const Rung kBatchedTurns;
constinit const Rung kBatchedTurns = rung_of<BatchedPingpong, kHalves, Bmm>({
    .name = "batched_pingpong",
    .from = "batched_wgmma",
    .idea = "each warpgroup has a tile, of whichever product is next, and they take turns",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
