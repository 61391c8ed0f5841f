// Tile shapes, clusters, stages of gemm/warp_specialized; tiles and splits of gemm/split_k.
#include "kernels/gemm/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::gemm {
namespace {

const tune::Candidates kCandidates{"gemm/warp_specialized", kWgmmaCandidates};
const tune::Candidates kSplits{"gemm/split_k", kSplitCandidates};

}  // namespace
}  // namespace ws::gemm
