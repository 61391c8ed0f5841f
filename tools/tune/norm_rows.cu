// Shapes of norm/row_in_registers.
#include "kernels/norm/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::norm {
namespace {

const tune::Candidates kOfRows{"norm/row_in_registers", kRowCandidates};

}  // namespace
}  // namespace ws::norm
