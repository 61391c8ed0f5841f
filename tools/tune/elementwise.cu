// Threads of a block and loads of a thread of elementwise/compact_front.
#include "kernels/elementwise/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::elementwise {
namespace {

const tune::Candidates kCandidates{"elementwise/compact_front", kFrontCandidates};

}  // namespace
}  // namespace ws::elementwise
