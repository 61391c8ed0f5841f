// The rope family: its one table of rungs, in teaching order.
#include "kernels/rope/01_naive.cuh"
#include "kernels/rope/02_pack.cuh"
#include "kernels/rope/03_block_per_position.cuh"
#include "kernels/rope/04_tables.cuh"
#include "kernels/rope/05_any_layout.cuh"

namespace ws::rope {

// Rungs of units of their own.
extern const Rung kHalves, kSharedRow, kAngles;

namespace {

constexpr Operation kOperations[] = {operation_of<Rope>(), operation_of<RopeQk>()};

constexpr const Rung* kRungs[] = {
    &kNaive, &kPack, &kBlockPerPosition, &kTablesRung, &kAnyLayout, &kHalves, &kSharedRow, &kAngles,
};

// A head a thread beats four, on an H200: in f32, where a head has as many bytes as its row of the
// tables (by 4 % where heads are first; else they are within 2 %, now the one ahead and now the
// other); and where each sequence has one token, and blocks are few.
bool prefers_halves(const Call& call) { return call.dtype == DType::kF32 || call.positions <= 1; }

}  // namespace

std::span<const Rung* const> Rope::by_worth(const Call& call) {
  static constexpr const Rung* kByWorth[] = {&kSharedRow, &kAngles, &kHalves, &kAnyLayout};
  static constexpr const Rung* kHalvesFirst[] = {&kHalves, &kSharedRow, &kAngles, &kAnyLayout};
  return prefers_halves(call) ? kHalvesFirst : kByWorth;
}
std::span<const Rung* const> RopeQk::by_worth(const Call& call) {
  static constexpr const Rung* kByWorth[] = {&kSharedRow, &kAngles, &kHalves, &kAnyLayout};
  static constexpr const Rung* kHalvesFirst[] = {&kHalves, &kSharedRow, &kAngles, &kAnyLayout};
  return prefers_halves(call) ? kHalvesFirst : kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "rope",
    .summary = "rotary position embedding, from tables or computed, of queries and keys",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::rope
