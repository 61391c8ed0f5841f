// What a gradient of packed sequences leaves where there is no sequence.
#pragma once

#include "kernels/attention/backward.hpp"
#include "kernels/attention/sequences.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::attention {

// What PackedBackwardGrid's blocks leave to others: zeros in rows that no sequence has, and the
// word about sequences that are wrong. A warp looks at 32 rows of all queries, or of all keys.
template <class T>
struct BackwardNobodysKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    VarlenBackwardCall call;
    Sequences sequences;
    int64_t of_queries;  // warps
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const VarlenBackwardCall& call = a.call;
    const int64_t thread = block_index() * kThreads + thread_index();
    a.sequences.report_lengths(thread, grid_blocks() * kThreads);
    const int64_t warp = thread / kWarpSize;
    if (warp < a.of_queries) {
      clear<false>(a, warp, call.total_queries,
                   [&](int64_t row) { clear(call.dq, row, call.heads, call.head_dim); });
    } else {
      clear<true>(a, warp - a.of_queries, call.total_keys, [&](int64_t row) {
        clear(call.dk, row, call.kv_heads, call.head_dim);
        clear(call.dv, row, call.kv_heads, call.value_dim);
      });
    }
  }

 private:
  template <bool kOfKeys, class F>
  __device__ __forceinline__ static void clear(const Arguments& a, int64_t warp, int64_t rows,
                                               F&& clear_row) {
    const int64_t first = warp * kWarpSize;
    const int64_t row = first + lane_index();
    const bool is_nobodys = row < rows && a.sequences.template owner_of<kOfKeys>(row).batch < 0;
    for (uint32_t left = ptx::vote_sync_ballot(kFullMask, is_nobodys); left != 0;
         left &= left - 1) {
      clear_row(first + ptx::lowest_bit(left));
    }
  }
  __device__ __forceinline__ static void clear(const Heads& heads, int64_t row, int64_t count,
                                               int64_t columns) {
    for (int64_t i = lane_index(); i < count * columns; i += kWarpSize) {
      thread::store(heads.at<T>(0, i / columns, row) + i % columns * heads.column,
                    from_float<T>(0));
    }
  }
};

template <class T>
void clear_nobodys(const VarlenBackwardCall& call, const Sequences& sequences, Stream stream) {
  using Kernel = BackwardNobodysKernel<T>;
  const int64_t of_queries = divide_up(call.total_queries, kWarpSize);
  const int64_t warps = of_queries + divide_up(call.total_keys, kWarpSize);
  if (warps == 0) return;
  launch<Kernel>(
      {.blocks = divide_up(warps * kWarpSize, Kernel::kThreads), .threads = Kernel::kThreads},
      stream, {call, sequences, of_queries});
}

}  // namespace ws::attention
