// Idea: a warp keeps its row in registers between the total and the output.
// From warp_per_row: memory is read once, 16 bytes at a time, all loads issued before the first is
// needed: a thread has up to 128 bytes in flight instead of 4.
// Traffic: one read, one write.
// Limits: what 32 threads can hold, 1024 elements and a little; elements side by side.
#pragma once

#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

template <class T, class Op>
struct WarpRegistersKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kColumns = 1024;
  using RowInRegisters = RowTile<T, Op, kWidest<T>, kWarpSize, kColumns / (kWarpSize * kWidest<T>)>;
  static_assert(RowInRegisters::kCapacity == kColumns);
  using Arguments = Rows<T, Op>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& rows) const {
    const int64_t r = block_index() * kWarps + warp_index();
    if (r >= rows.count) return;
    const typename RowInRegisters::RowOf row(rows, r);
    const RowInRegisters tile(row, lane_index());
    auto elements = tile.elements();
    const auto total = Op::template begin<kWarpSize>(elements);
    tile.store(row, elements, Op::end(total, total));
  }
};

struct WarpRegisters {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.rows.columns <= 1024,
                      "a warp's registers hold rows of up to 1024 elements, not ",
                      call.rows.columns) &&
           rows_supported(call, widest(call), why);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = WarpRegistersKernel<T, typename Call::RowOperation>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream, rows_of<T>(call));
    });
  }
};

inline constexpr Seed kWarpRegistersSeeds[] = {
    {.name = "{}_warp"},
    {.name = "fused_scale_mask_softmax",
     .operation = "scale_mask_softmax",
     .dtypes = {DType::kF16}},
    {.name = "fused_scale_mask_softmax_backward",
     .operation = "scale_mask_softmax_backward",
     .dtypes = {DType::kF16}},
};
inline constexpr Rung kWarpRegisters =
    rung_of<WarpRegisters, Softmax, LogSoftmax, ScaleMaskSoftmax, SoftmaxBackward,
            LogSoftmaxBackward, ScaleMaskSoftmaxBackward>(
        {.name = "warp_registers",
         .from = "warp_per_row",
         .idea = "the row stays in the warp's registers: one read, 16 bytes an access",
         .seeds = kWarpRegistersSeeds});

}  // namespace ws::softmax
#endif
