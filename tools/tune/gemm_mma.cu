// Tiles, stages, blocks of an SM of gemm/mma_pipeline.
#include "kernels/gemm/mma_candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::gemm {
namespace {

const tune::Candidates kMma{"gemm/mma_pipeline", kMmaCandidates};

}  // namespace
}  // namespace ws::gemm
