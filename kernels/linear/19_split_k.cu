#include "kernels/linear/19_split_k.cuh"

namespace ws::linear {

template void run_split_k<half>(const Call&, Stream);

extern const Rung kSplitK;
constinit const Rung kSplitK = rung_of<SplitK, kFloats, Addmm>({
    .name = "split_k",
    .from = "wgmma",
    .idea = "few rows: a cluster's blocks divide K, and the epilogue comes as they add up",
    .arch = Arch::kSm90a,
});

}  // namespace ws::linear
