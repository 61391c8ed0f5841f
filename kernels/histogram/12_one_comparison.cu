// The row of 12_one_comparison.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/histogram/12_one_comparison.cuh"

namespace ws::histogram {

extern const Rung kOneComparison;
const Rung kOneComparison =
    rung_of<OneComparison<StreamedPolicy<1024, 1, 4>>, kFloats, Histc, CountBetween>(
        {.name = "one_comparison",
         .from = "streamed",
         .idea = "a line through the edges finds the one to compare with; all once for each lane"});

}  // namespace ws::histogram
