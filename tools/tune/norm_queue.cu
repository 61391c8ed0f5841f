// Shapes of norm/cluster_queue.
#include "kernels/norm/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::norm {
namespace {

const tune::Candidates kOfQueue{"norm/cluster_queue", kQueueCandidates};

}  // namespace
}  // namespace ws::norm
