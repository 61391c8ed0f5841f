// Idea: boxes are sorted by runs of 4096 keys and merges of two (topk's), instead of counting for
//   each box who comes before it.
// From product: N log N comparisons and a few launches, where N^2 were half as much work as the
// pairs.
// Traffic: 8 bytes a key, both ways for each doubling; then that of product.
// Limits: those of product.
#pragma once

#include "kernels/nms/tiles.hpp"
#include "kernels/topk/runs.hpp"

namespace ws::nms {

#if WS_DEVICE_CODE
struct PutKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Call call;
    Sorted sorted;
    const uint64_t* keys;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t rank = block_index() * kThreads + thread_index();
    if (rank >= a.call.count) return;
    a.sorted.put(a.call, rank, topk::Key<uint64_t>::place(thread::load(a.keys + rank)));
  }
};

// `keys`: room for two of each box.
inline void sort_by_runs(const Call& call, const Sorted& sorted, uint64_t* keys, Stream stream) {
  RowLayout<topk::kOperands> scores;
  scores.columns = call.count;
  scores.data[topk::kX] = const_cast<float*>(call.scores);
  scores.inner[topk::kX] = call.score_stride;
  const uint64_t* const in_order =
      topk::sort_rows<float>(scores, {.first = 0, .rows = 1}, 0, keys, keys + call.count, stream);
  launch<PutKernel>(
      {.blocks = divide_up(call.count, PutKernel::kThreads), .threads = PutKernel::kThreads},
      stream, {call, sorted, in_order});
}
#endif

struct SortedRuns {
  static bool supports(const Call& call, Why& why) { return is_tiled(call, why); }
  // The keys lie where the words of tiles will, or there is more than these need.
  static Workspace workspace(const Call& call) {
    return {.bytes = Sorted::bytes(call, std::max(words_of_tiles(call), 2 * call.count))};
  }
  static void run(const Call& call, const Context& context) {
    const Sorted sorted(call, context.workspace);
    sort_by_runs(call, sorted, sorted.words, context.stream);
    run_tiles<Product>(call, sorted, context.stream);
  }
};

inline constexpr Rung kSortedRuns = rung_of<SortedRuns, NmsIndices>({
    .name = "sorted_runs",
    .from = "product",
    .idea = "sorted by runs and merges, N log N, in the place of ranks, N^2",
});

}  // namespace ws::nms
