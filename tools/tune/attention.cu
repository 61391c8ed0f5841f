#include "kernels/attention/candidates.hpp"
#include "tools/tune/candidates.hpp"

namespace ws::attention {
namespace {
const tune::Candidates kFlash{"attention/wgmma_speculative", kFlashCandidates};
}  // namespace
}  // namespace ws::attention
