#include "kernels/linear/13_batched_pingpong.cuh"

namespace ws::linear {

template void run_batched_pingpong<half, half, half>(const BatchedCall&, int, int, Stream);
template void run_batched_pingpong<half, half, float>(const BatchedCall&, int, int, Stream);
template void run_batched_pingpong<half, float, float>(const BatchedCall&, int, int, Stream);

extern const Rung kBatchedPingpong;
constinit const Rung kBatchedPingpong = rung_of<BatchedPingpong, kFloats, Baddbmm>({
    .name = "batched_pingpong",
    .from = "wgmma",
    .idea = "what is added is loaded under the products of another tile, of whichever is next",
    .arch = Arch::kSm90a,
});

double batched_pingpong_time(const BatchedCall& call) { return BatchedPingpong::time(call); }

}  // namespace ws::linear
