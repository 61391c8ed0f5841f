// Tile shapes, blocks of an SM, stages of gemm's CUDA-core rungs.
#include "kernels/gemm/simt_candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::gemm {
namespace {

const tune::Candidates kCopyEngine{"gemm/copy_engine", kCopyEngineCandidates};
const tune::Candidates kWarpTile{"gemm/warp_tile", kWarpTileCandidates};
const tune::Candidates kAsyncCopy{"gemm/async_copy", kAsyncCopyCandidates};
const tune::Candidates kDoubleBufferF16{"gemm/double_buffer", kDoubleBufferF16Candidates};
const tune::Candidates kAccF16Tiles{"gemm/acc_f16", kAccF16Candidates};

}  // namespace
}  // namespace ws::gemm
