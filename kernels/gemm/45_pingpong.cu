#include "kernels/gemm/45_pingpong.cuh"

namespace ws::gemm {

template void run_pingpong<half>(const Call&, Stream);

extern const Rung kPingpong;
constinit const Rung kPingpong = rung_of<Pingpong, kHalves, Gemm>({
    .name = "pingpong",
    .from = "warp_specialized",
    .idea = "each warpgroup has a tile: one multiplies while the other stores",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
