// Tile shapes, clusters, stages of gemm/warp_specialized and gemm/pingpong; tiles and splits of
// gemm/split_k; rows and loads of gemm/thin.
#include "kernels/gemm/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::gemm {
namespace {

const tune::Candidates kCandidates{"gemm/warp_specialized", kWgmmaCandidates};
const tune::Candidates kAlone{"gemm/pingpong", kPingpongCandidates};
const tune::Candidates kSplits{"gemm/split_k", kSplitCandidates};
const tune::Candidates kThins{"gemm/thin", kThinCandidates};

}  // namespace
}  // namespace ws::gemm
