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

}  // namespace

std::span<const Rung* const> Rope::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kSharedRow, &kAngles, &kHalves, &kAnyLayout};
  return kByWorth;
}
std::span<const Rung* const> RopeQk::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kSharedRow, &kAngles, &kAnyLayout};
  return kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "rope",
    .summary = "rotary position embedding, from tables or computed, of queries and keys",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::rope
