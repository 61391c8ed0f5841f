// Shapes of norm/backward_in_registers.
#include "kernels/norm/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::norm {
namespace {

const tune::Candidates kOfLanes{"norm/backward_in_registers", kLanesCandidates};

}  // namespace
}  // namespace ws::norm
