// Threads and vectors of softmax/row_in_registers, and of softmax/cluster_queue its stages too.
#include "kernels/softmax/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::softmax {
namespace {

const tune::Candidates kRegisters{"softmax/row_in_registers", kRegistersCandidates};
const tune::Candidates kQueues{"softmax/cluster_queue", kQueueCandidates};

}  // namespace
}  // namespace ws::softmax
