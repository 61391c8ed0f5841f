// Idea: a block owns a row; its threads take neighbouring elements and merge through shared memory.
// From naive: a warp's load is 32 elements side by side, all of what it fetches is used, and the
// second read mostly comes from the caches.
// Traffic: two reads.
// Limits: contiguous rows; targets alone, no weights, label_smoothing or z_loss.
#pragma once

#include "kernels/cross_entropy/rows.hpp"

namespace ws::cross_entropy {

#if WS_DEVICE_CODE
template <class T>
struct BlockPerRowKernel {
  static constexpr int kThreads = 256;
  using Arguments = Rows<T>;
  using AllReduce = block::AllReduce<float, kThreads>;
  struct SharedStorage {
    typename AllReduce::Storage partials;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t row = block_index();
    const Target target = a.target(row, thread_index() == 0);
    if (!target.is_right) return;
    if (target.is_ignored) {
      if (thread_index() == 0) a.store_numbers(row, 0, 0);
      return;
    }
    const T* x = a.logits + row * a.columns;
    AllReduce all_reduce(shared.partials);

    float max = -INFINITY;
    for (int64_t i = thread_index(); i < a.columns; i += kThreads) {
      max = fmaxf(max, to_float(thread::load(x + i)));
    }
    max = all_reduce(max, [](float l, float r) { return fmaxf(l, r); });
    const float shift = max == -INFINITY ? 0 : max;
    float sum = 0;
    for (int64_t i = thread_index(); i < a.columns; i += kThreads) {
      sum += thread::fast_exp(to_float(thread::load(x + i)) - shift);
    }
    sum = all_reduce(sum, [](float l, float r) { return l + r; });
    if (thread_index() != 0) return;
    const float lse = max + logf(sum);
    a.store_numbers(row, lse - to_float(thread::load(x + target.index)), lse);
  }
};

struct BlockPerRow {
  static bool supports(const Call& call, Why& why) {
    return is_dense_and_plain(call, why) &&
           why.unless(call.rows.rows <= kMostBlocks, "takes up to ", kMostBlocks, " rows");
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BlockPerRowKernel<T>;
      launch<Kernel>({.blocks = call.rows.rows, .threads = Kernel::kThreads}, context.stream,
                     rows_of<T>(call, "cross_entropy_forward/block_per_row"));
    });
  }
};

inline constexpr Rung kBlockPerRow = rung_of<BlockPerRow, CrossEntropyForward>(
    {.name = "block_per_row",
     .from = "naive",
     .idea = "a block a row: coalesced loads, two passes"});
#endif

}  // namespace ws::cross_entropy
