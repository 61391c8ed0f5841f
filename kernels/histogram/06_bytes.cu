// The row of 06_bytes.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/histogram/06_bytes.cuh"

namespace ws::histogram {

// H200 2026-11-30, 2^28 values: 97 % of copy for all spreads.
using BytesChosen = StreamedPolicy<512, 2, 4>;

extern const Rung kBytes;
const Rung kBytes = rung_of<Bytes<BytesChosen>, DTypes{DType::kU8}, CountBins>(
    {.name = "bytes",
     .from = "streamed",
     .idea = "sixteen values a load, all of them counted: what is no bin shows in the counts"});

}  // namespace ws::histogram
