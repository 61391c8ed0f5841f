// Threads, rows, loads and blocks of the rungs of gemv for speed.
#include "kernels/gemv/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::gemv {
namespace {

const tune::Candidates kSeveral{"gemv/several_rows", kSeveralRowsCandidates};
const tune::Candidates kShort{"gemv/short_rows", kShortRowsCandidates};
const tune::Candidates kSplit{"gemv/split_rows", kSplitRowsCandidates};
const tune::Candidates kColumns{"gemv/split_columns", kSplitColumnsCandidates};
const tune::Candidates kShifted{"gemv/shifted_columns", kShiftedColumnsCandidates};

}  // namespace
}  // namespace ws::gemv
