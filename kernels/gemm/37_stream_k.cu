#include "kernels/gemm/37_stream_k.cuh"

namespace ws::gemm {

extern const Rung kStreamK;
constinit const Rung kStreamK = rung_of<StreamK, kHalves, Gemm>({
    .name = "stream_k",
    .from = "warp_specialized",
    .idea = "the tiles of a last wave that is not full are cut along K: equal work for all blocks",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
