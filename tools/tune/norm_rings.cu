// Shapes of norm/backward_cluster.
#include "kernels/norm/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::norm {
namespace {

const tune::Candidates kOfRings{"norm/backward_cluster", kRingCandidates};

}  // namespace
}  // namespace ws::norm
