// Threads, blocks and loads of count_bins/streamed and count_bins/bytes.
#include "kernels/histogram/candidates.hpp"

#include "tools/tune/candidates.hpp"

namespace ws::histogram {
namespace {

const tune::Candidates kStreamed{"count_bins/streamed", kStreamedCandidates};
const tune::Candidates kBytes{"count_bins/bytes", kBytesCandidates};

}  // namespace
}  // namespace ws::histogram
