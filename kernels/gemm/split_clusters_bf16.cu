#include "kernels/gemm/49_split_clusters.cuh"

namespace ws::gemm {

template void run_split_clusters<bf16>(const Call&, const ClustersPlan&, void*, Stream);

}  // namespace ws::gemm
