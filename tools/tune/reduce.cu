// Threads, loads and parts of reduce/one_pass and reduce/columns.
#include "kernels/reduce/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::reduce {
namespace {

const tune::Candidates kOnePass{"reduce/one_pass", kOnePassCandidates};
const tune::Candidates kColumns{"reduce/columns", kColumnsCandidates};

}  // namespace
}  // namespace ws::reduce
