// Idea: a block owns a row, in registers; its warps merge their totals through shared memory.
// From warp_registers: eight warps hold eight times as much. kWidth shows what an access of 1, 2, 4
// or 8 elements is worth, of softmax: fewer instructions, and more bytes in flight for each.
// Traffic: one read, one write.
// Limits: 256 threads of 32 elements hold rows of up to 8192; forward.
#pragma once

#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/block/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

template <class T, class Op, int kWidth>
struct BlockPerRowKernel {
  static constexpr int kThreads = 256;
  static constexpr int kElementsPerThread = 32;
  using RowInRegisters = RowTile<T, Op, kWidth, kThreads, kElementsPerThread / kWidth>;
  using Total = typename Op::Total;
  using Arguments = Rows<T, Op>;
  struct SharedStorage {
    typename block::AllReduce<Total, kThreads>::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& rows) const {
    const typename RowInRegisters::RowOf row(rows, block_index());
    const RowInRegisters tile(row, thread_index());
    auto elements = tile.elements();
    const Total mine = Op::template begin<kWarpSize>(elements);
    block::AllReduce<Total, kThreads> all_reduce(shared.total);
    const Total total = all_reduce.of_warps(mine, typename Op::Merge{});
    tile.store(row, elements, Op::end(mine, total));
  }
};

template <int kWidth>
struct BlockPerRow {
  static constexpr int64_t kColumns = 8192;
  // 8 elements of f32 would be two accesses.
  static constexpr DTypes kTaken = kWidth > kWidest<float> ? kHalves : kFloats;

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.rows.columns <= kColumns, "a block's registers hold rows of up to ",
                      kColumns, " elements, not ", call.rows.columns) &&
           rows_supported(call, kWidth, why);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kTaken>(call.dtype, [&]<class T>() {
      using Kernel = BlockPerRowKernel<T, typename Call::RowOperation, kWidth>;
      launch<Kernel>({.blocks = call.rows.rows, .threads = Kernel::kThreads}, context.stream,
                     rows_of<T>(call));
    });
  }
};

template <int kWidth, class... Ops>
constexpr Rung block_per_row(Rung text) {
  text.file = "06_block_per_row.cuh";
  using Struct = BlockPerRow<kWidth>;
  return rung_of<Struct, Struct::kTaken, Ops...>(text);
}

// Seeds that do not subtract the maximum are answered by rungs that do.
inline constexpr Seed kBlockPerRowSeeds[] = {
    {.name = "softmax_f32_per_token", .operation = "softmax", .dtypes = {DType::kF32}},
    {.name = "safe_softmax_f32_per_token", .operation = "softmax", .dtypes = {DType::kF32}},
    {.name = "online_safe_softmax_f32_per_token", .operation = "softmax", .dtypes = {DType::kF32}},
    {.name = "safe_softmax_f16_f32_per_token", .operation = "softmax", .dtypes = {DType::kF16}},
    // A block a row too, v1 with several rows to a block.
    {.name = "fastertransformer_softmax_v1",
     .operation = "scale_mask_softmax",
     .dtypes = {DType::kF16}},
    {.name = "fastertransformer_softmax_v2",
     .operation = "scale_mask_softmax",
     .dtypes = {DType::kF16}},
};
inline constexpr Seed kBlockPerRowX2Seeds[] = {
    {.name = "safe_softmax_f16x2_f32_per_token", .operation = "softmax", .dtypes = {DType::kF16}},
};
inline constexpr Seed kBlockPerRowX4Seeds[] = {
    {.name = "softmax_f32x4_per_token", .operation = "softmax", .dtypes = {DType::kF32}},
    {.name = "safe_softmax_f32x4_per_token", .operation = "softmax", .dtypes = {DType::kF32}},
    {.name = "online_safe_softmax_f32x4_pack_per_token",
     .operation = "softmax",
     .dtypes = {DType::kF32}},
};
inline constexpr Seed kBlockPerRowX8Seeds[] = {
    {.name = "safe_softmax_f16x8_pack_f32_per_token",
     .operation = "softmax",
     .dtypes = {DType::kF16}},
};
inline constexpr Rung kBlockPerRow = block_per_row<1, Softmax, LogSoftmax, ScaleMaskSoftmax>(
    {.name = "block_per_row",
     .from = "warp_registers",
     .idea = "a block a row, in registers, warps merged through shared memory; 1 element an access",
     .seeds = kBlockPerRowSeeds});
inline constexpr Rung kBlockPerRowX2 = block_per_row<2, Softmax>({.name = "block_per_row_x2",
                                                                  .from = "block_per_row",
                                                                  .idea = "2 elements an access",
                                                                  .seeds = kBlockPerRowX2Seeds});
inline constexpr Rung kBlockPerRowX4 =
    block_per_row<4, Softmax>({.name = "block_per_row_x4",
                               .from = "block_per_row_x2",
                               .idea = "4 elements an access: 16 bytes of f32",
                               .seeds = kBlockPerRowX4Seeds});
inline constexpr Rung kBlockPerRowX8 =
    block_per_row<8, Softmax>({.name = "block_per_row_x8",
                               .from = "block_per_row_x4",
                               .idea = "8 elements an access: 16 bytes of f16 or bf16",
                               .seeds = kBlockPerRowX8Seeds});

}  // namespace ws::softmax
#endif
