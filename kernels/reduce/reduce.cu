// The reduce family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/reduce/01_divergent.cuh"
#include "kernels/reduce/02_whole_warps.cuh"
#include "kernels/reduce/03_sequential.cuh"
#include "kernels/reduce/04_add_on_load.cuh"
#include "kernels/reduce/05_last_warp.cuh"
#include "kernels/reduce/06_unrolled.cuh"
#include "kernels/reduce/07_several_a_thread.cuh"
#include "kernels/reduce/08_shuffle.cuh"
#include "kernels/reduce/09_shuffle_pack.cuh"
#include "kernels/reduce/10_block_all_reduce.cuh"
#include "kernels/reduce/11_atomic_half.cuh"
#include "kernels/reduce/12_warp_per_row.cuh"
#include "kernels/reduce/13_block_per_row.cuh"

namespace ws::reduce {

extern const Rung kStrided;
extern const Rung kOnePass;
extern const Rung kStridedVectors;
extern const Rung kLanesPerRow;
extern const Rung kColumns;

namespace {

constexpr Operation kOperations[] = {
    operation_of<Sum>(),  operation_of<Mean>(),       operation_of<Prod>(),   operation_of<Amax>(),
    operation_of<Amin>(), operation_of<Argmax>(),     operation_of<Argmin>(), operation_of<Any>(),
    operation_of<All>(),  operation_of<VectorNorm>(), operation_of<Dot>(),
};

constexpr const Rung* kRungs[] = {
    &kDivergent,        &kWholeWarps,        &kSequential,       &kAddOnLoad,
    &kLastWarp,         &kUnrolled,          &kSeveralAThread,   &kShuffle,
    &kShufflePack,      &kBlockAllReduce,    &kBlockAllReduceX2, &kBlockAllReduceX4,
    &kBlockAllReduceX8, &kBlockAllReduceX16, &kAccF16,           &kAccF16X2,
    &kAccF16X8,         &kAccF16X16,         &kAccBf16,          &kAccBf16X2,
    &kAccBf16X8,        &kAtomicHalf,        &kAtomicHalfPacked, &kAtomicHalfFast,
    &kWarpPerRow,       &kBlockPerRow,       &kStrided,          &kOnePass,
    &kLanesPerRow,      &kColumns,           &kStridedVectors,
};

// Many short rows go to lanes of warps, others to blocks.
std::span<const Rung* const> best_for(const Reduction& call) {
  constexpr int64_t kShortBytes = 16 * 1024;
  constexpr int64_t kManyRows = 1024;
  static constexpr const Rung* kShort[] = {&kLanesPerRow, &kColumns, &kStridedVectors, &kStrided};
  static constexpr const Rung* kLong[] = {&kOnePass, &kColumns, &kStridedVectors, &kStrided};
  const bool is_short = call.count * static_cast<int64_t>(size_of(call.dtype)) <= kShortBytes;
  return is_short && call.outputs >= kManyRows ? std::span<const Rung* const>(kShort) : kLong;
}

}  // namespace

std::span<const Rung* const> Sum::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> Mean::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> Prod::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> Amax::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> Amin::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> Argmax::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> Argmin::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> Any::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> All::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> VectorNorm::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> Dot::by_worth(const Call& call) { return best_for(call); }

extern const Family kFamily;
const Family kFamily = {
    .name = "reduce",
    .summary = "Sums, extrema and tests over any dimensions, and the dot product",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::reduce
