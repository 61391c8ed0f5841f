// Idea: four accesses of 16 bytes under way a thread, and the maximum moves once for all of their
// elements: one exponential and some six instructions an element.
// From online: an SM's 4 x 256 threads have 64 KiB in flight, twice what hides the way to memory;
// while one block merges its threads' totals, three others read.
// Traffic: one read, 16 bytes an access.
// Limits: elements side by side; not both weights and label_smoothing.
#pragma once

#include "kernels/cross_entropy/rows.hpp"

namespace ws::cross_entropy {

#if WS_DEVICE_CODE
template <class T>
struct VectorKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr int kTile = 4;
  using Arguments = Rows<T>;
  using AllReduce = block::AllReduce<Total, kThreads>;
  struct SharedStorage {
    typename AllReduce::Storage partials;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t row = block_index();
    const Target target = a.target(row, thread_index() == 0);
    if (!target.counts()) {
      if (target.is_ignored && thread_index() == 0) a.store_numbers(row, 0, 0);
      return;
    }
    const T* x = a.logits + row * a.stride;
    // Fetched now, for the end.
    const float logit = to_float(thread::load(x + target.index));
    const float weight = a.formula.weight_of(target.index);
    const Total mine = read_row<kThreads, kTile>(x, a.columns, a.formula);
    const Total total = AllReduce(shared.partials)(mine, Merge{a.formula.smooths()});
    if (thread_index() == 0) a.store_loss(row, total, logit, weight);
  }
};

struct Vector {
  static bool supports(const Call& call, Why& why) { return vectors_supported(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = VectorKernel<T>;
      launch<Kernel>({.blocks = call.rows.rows, .threads = Kernel::kThreads}, context.stream,
                     rows_of<T>(call, "cross_entropy_forward/vector"));
    });
  }
};

inline constexpr Rung kVector = rung_of<Vector, CrossEntropyForward>(
    {.name = "vector",
     .from = "online",
     .idea = "16 bytes an access, four under way; the maximum moves once for all of them"});
#endif

}  // namespace ws::cross_entropy
