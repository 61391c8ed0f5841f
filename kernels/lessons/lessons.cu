// The lessons: five small operations, and the ladder of each in teaching order.
#include "kernels/lessons/01_coalescing.cuh"
#include "kernels/lessons/02_bank_conflicts.cuh"
#include "kernels/lessons/03_warp_divergence.cuh"
#include "kernels/lessons/04_unrolling.cuh"
#include "kernels/lessons/05_occupancy.cuh"

namespace ws::lessons {
namespace {

constexpr Operation kOperations[] = {
    operation_of<Coalescing>(), operation_of<BankConflicts>(), operation_of<WarpDivergence>(),
    operation_of<Unrolling>(),  operation_of<Occupancy>(),
};

constexpr const Rung* kRungs[] = {
    &kStrided,     &kChunkPerThread, &kCoalesced, &kVectorized, &kByColumn,
    &kPadded,      &kSwizzled,       &kByLane,    &kByWarp,     &kBothPaths,
    &kOnePath,     &kOneChain,       &kUnrolled,  &kTwoChains,  &kFourChains,
    &kEightChains, &kOneBlock,       &kTwoBlocks, &kAllWarps,   &kLoadsInFlight,
};

}  // namespace

extern const Family kFamily;
const Family kFamily = {
    .name = "lessons",
    .summary = "Coalescing, bank conflicts, divergence, unrolling, occupancy: one at a time",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::lessons
