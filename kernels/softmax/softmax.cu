// The softmax family: its one table of rungs, in teaching order.
#include "kernels/softmax/01_naive.cuh"
#include "kernels/softmax/02_safe.cuh"
#include "kernels/softmax/03_online.cuh"
#include "kernels/softmax/04_warp_per_row.cuh"
#include "kernels/softmax/05_warp_registers.cuh"
#include "kernels/softmax/06_block_per_row.cuh"
#include "kernels/softmax/07_block_shared.cuh"
#include "kernels/softmax/08_block_uncached.cuh"
#include "kernels/softmax/09_grid_fence.cuh"
#include "kernels/softmax/10_row_in_registers.cuh"
#include "kernels/softmax/11_cluster_per_row.cuh"
#include "kernels/softmax/12_cluster_queue.cuh"

namespace ws::softmax {
namespace {

constexpr DTypes kF32 = {DType::kF32};
constexpr DTypes kF16 = {DType::kF16};

// Seeds that do not subtract the maximum are answered by rungs that do.
constexpr Seed kWarpRegistersSeeds[] = {
    {.name = "{}_warp"},
    {.name = "fused_scale_mask_softmax", .operation = "scale_mask_softmax", .dtypes = kF16},
    {.name = "fused_scale_mask_softmax_backward",
     .operation = "scale_mask_softmax_backward",
     .dtypes = kF16},
};
constexpr Seed kBlockPerRowSeeds[] = {
    {.name = "softmax_f32_per_token", .operation = "softmax", .dtypes = kF32},
    {.name = "safe_softmax_f32_per_token", .operation = "softmax", .dtypes = kF32},
    {.name = "online_safe_softmax_f32_per_token", .operation = "softmax", .dtypes = kF32},
    {.name = "safe_softmax_f16_f32_per_token", .operation = "softmax", .dtypes = kF16},
    // A block a row too, v1 with several rows to a block.
    {.name = "fastertransformer_softmax_v1", .operation = "scale_mask_softmax", .dtypes = kF16},
    {.name = "fastertransformer_softmax_v2", .operation = "scale_mask_softmax", .dtypes = kF16},
};
constexpr Seed kBlockPerRowX2Seeds[] = {
    {.name = "safe_softmax_f16x2_f32_per_token", .operation = "softmax", .dtypes = kF16},
};
constexpr Seed kBlockPerRowX4Seeds[] = {
    {.name = "softmax_f32x4_per_token", .operation = "softmax", .dtypes = kF32},
    {.name = "safe_softmax_f32x4_per_token", .operation = "softmax", .dtypes = kF32},
    {.name = "online_safe_softmax_f32x4_pack_per_token", .operation = "softmax", .dtypes = kF32},
};
constexpr Seed kBlockPerRowX8Seeds[] = {
    {.name = "safe_softmax_f16x8_pack_f32_per_token", .operation = "softmax", .dtypes = kF16},
};
constexpr Seed kBlockSharedSeeds[] = {{.name = "{}_block_smem"}};
constexpr Seed kBlockUncachedSeeds[] = {{.name = "{}_block_uncached"}};

constexpr Seed kGridFenceSeeds[] = {
    {.name = "softmax_f32", .operation = "softmax", .dtypes = kF32},
    {.name = "softmax_f32x4", .operation = "softmax", .dtypes = kF32},
};

constexpr std::string_view kBlockPerRowFile = "06_block_per_row.cuh";

constexpr Rung kRungs[] = {
    {.name = "naive",
     .idea = "a thread a row, exp(x) / sum(exp(x)) as the formula says",
     .dtypes = kFloats,
     .run = Naive::run,
     .supports = Naive::supports},
    {.name = "safe",
     .idea = "subtract the maximum first: right for every input, three reads",
     .dtypes = kFloats,
     .run = Safe::run,
     .supports = Safe::supports},
    {.name = "online",
     .idea = "maximum and sum in one pass: two reads",
     .dtypes = kFloats,
     .run = Online::run},
    {.name = "warp_per_row",
     .idea = "a warp a row: coalesced loads, totals merged by shuffles",
     .dtypes = kFloats,
     .run = WarpPerRow::run},
    {.name = "warp_registers",
     .idea = "the row stays in the warp's registers: one read, 16 bytes an access",
     .dtypes = kFloats,
     .run = WarpRegisters::run,
     .supports = WarpRegisters::supports,
     .seeds = kWarpRegistersSeeds},
    {.name = "block_per_row",
     .idea = "a block a row, in registers, warps merged through shared memory; 1 element an access",
     .dtypes = kFloats,
     .run = BlockPerRow<1>::run,
     .supports = BlockPerRow<1>::supports,
     .seeds = kBlockPerRowSeeds},
    {.name = "block_per_row_x2",
     .idea = "block_per_row with 2 elements an access",
     .dtypes = kFloats,
     .run = BlockPerRow<2>::run,
     .supports = BlockPerRow<2>::supports,
     .seeds = kBlockPerRowX2Seeds,
     .file = kBlockPerRowFile},
    {.name = "block_per_row_x4",
     .idea = "block_per_row with 4 elements an access: 16 bytes of f32",
     .dtypes = kFloats,
     .run = BlockPerRow<4>::run,
     .supports = BlockPerRow<4>::supports,
     .seeds = kBlockPerRowX4Seeds,
     .file = kBlockPerRowFile},
    {.name = "block_per_row_x8",
     .idea = "block_per_row with 8 elements an access: 16 bytes of f16 or bf16",
     .dtypes = kHalves,
     .run = BlockPerRow<8>::run,
     .supports = BlockPerRow<8>::supports,
     .seeds = kBlockPerRowX8Seeds,
     .file = kBlockPerRowFile},
    {.name = "block_shared",
     .idea = "the row staged in shared memory: rows of up to 96 KiB",
     .dtypes = kFloats,
     .run = BlockShared::run,
     .supports = BlockShared::supports,
     .seeds = kBlockSharedSeeds},
    {.name = "block_uncached",
     .idea = "the row read twice by its block: any length",
     .dtypes = kFloats,
     .run = BlockUncached::run,
     .supports = supports_widest,
     .seeds = kBlockUncachedSeeds},
    {.name = "grid_fence",
     .idea = "few long rows over the whole grid, which meets between total and output",
     .dtypes = kFloats,
     .run = GridFence::run,
     .supports = GridFence::supports,
     .workspace = GridFence::workspace,
     .seeds = kGridFenceSeeds},
    {.name = "row_in_registers",
     .idea = "8 to 512 threads a row, as the row asks for: many small blocks in address order",
     .dtypes = kFloats,
     .run = RowInRegisters::run,
     .supports = RowInRegisters::supports},
    {.name = "cluster_per_row",
     .idea = "a row over up to 16 blocks, totals merged through distributed shared memory",
     .dtypes = kFloats,
     .arch = Arch::kSm90,
     .run = ClusterPerRow::run,
     .supports = ClusterPerRow::supports},
    {.name = "cluster_queue",
     .idea = "clusters stay and draw the next row from a counter, so that addresses stay in order",
     .dtypes = kFloats,
     .arch = Arch::kSm90,
     .run = ClusterQueue::run,
     .supports = ClusterQueue::supports,
     .workspace = ClusterQueue::workspace},
};
static_assert(well_formed(kRungs));
static_assert(well_formed(kOperations));

consteval const Rung* rung(std::string_view name) {
  for (const Rung& r : kRungs) {
    if (r.name == name) return &r;
  }
  throw "no such rung";  // NOLINT: ends the compilation
}

// Rows that threads can hold stay in a block, longer ones in a cluster. What is longer still is
// read twice, by the whole grid where there are few rows; strided rows fall to a warp each. 16-bit
// gradients are read twice sooner: in a cluster, a block's part of two rows takes a whole SM.
const Rung* best(const Problem& problem, int capability) {
  constexpr int64_t kRowsThatFillTheDevice = 64;
  const bool few = layout_of(problem).rows < kRowsThatFillTheDevice;
  const Kind kind = kind_of(problem);
  const bool twice = is_backward(kind) && !is_masked(kind) && size_of(problem.tensor(0).dtype) == 2;
  const std::array<const Rung*, 8> by_worth = {
      rung("row_in_registers"),
      rung("cluster_queue"),
      few ? rung("grid_fence") : rung("block_shared"),
      rung("block_shared"),
      twice ? rung("block_uncached") : rung("cluster_per_row"),
      rung("block_uncached"),
      rung("grid_fence"),
      rung("warp_per_row"),
  };
  for (const Rung* r : by_worth) {
    if (supports(*r, problem, capability).empty()) return r;
  }
  return nullptr;
}

}  // namespace

extern const Family kFamily;
const Family kFamily = {
    .name = "softmax",
    .summary =
        "softmax, log_softmax and masked softmax over the last dimension, and their gradients",
    .operations = kOperations,
    .rungs = kRungs,
    .best = best,
};

}  // namespace ws::softmax
