#include "kernels/gemm/49_split_clusters.cuh"

namespace ws::gemm {

template void run_split_clusters<half>(const Call&, const ClustersPlan&, void*, Stream);

extern const Rung kSplitClusters;
constinit const Rung kSplitClusters = rung_of<SplitClusters, kHalves, Gemm>({
    .name = "split_clusters",
    .from = "split_k",
    .idea = "K is divided among clusters that share what they load; sums are exchanged in L2",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
