// The row of 05_streamed.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/histogram/05_streamed.cuh"

namespace ws::histogram {

// Three blocks of 512 hold 64 KB of bins each, and have 96 KB in flight. H200 2026-11-30, 2^28
// values: 106 % of copy for all spreads.
using StreamedChosen = StreamedPolicy<512, 3, 4>;

extern const Rung kStreamed;
const Rung kStreamed =
    rung_of<Streamed<StreamedChosen>, kWords | kFloats, CountBins, Histc, CountBetween>(
        {.name = "streamed",
         .from = "copy_per_lane",
         .idea = "four loads in flight a thread, one launch, as many copies as there is room for"});

}  // namespace ws::histogram
