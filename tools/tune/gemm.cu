// Tile shapes, clusters, stages of gemm/warp_specialized.
#include "kernels/gemm/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::gemm {
namespace {

const tune::Candidates kCandidates{"gemm/warp_specialized", kWgmmaCandidates};

}  // namespace
}  // namespace ws::gemm
