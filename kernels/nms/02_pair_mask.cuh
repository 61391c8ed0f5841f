// Idea: boxes are sorted first; then whether two overlap can be told of all pairs at once, by all
//   SMs, a bit each. What is left for one block is to go through the rows of bits in order.
// From greedy: the arithmetic is done everywhere; a box is compared with each other once and not
// once for every box that is kept.
// Traffic: N^2 / 8 bytes of bits, written and, of boxes that are kept, read.
// Limits: up to 65536 boxes, for which the bits take 512 MB. Two barriers for a box that is kept.
// Long: three kernels, of which sorted.hpp has the first: ranks, pairs, and the walk.
#pragma once

#include "kernels/nms/sorted.hpp"
#include "warpsmith/ptx/barrier.hpp"

namespace ws::nms {

#if WS_DEVICE_CODE
// A thread compares a box with the 64 of a word; lanes have neighbouring boxes and the same word.
struct PairsKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Sorted sorted;
    Quotient is_above;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [sorted, is_above] = arguments;
    const int64_t index = block_index() * kThreads + thread_index();
    const int64_t first = index / sorted.count * 64;
    const int64_t mine = index % sorted.count;
    if (first >= sorted.count) return;
    const Box box = sorted.box(mine);
    const int64_t its_class = sorted.class_of(mine);
    uint64_t word = 0;
    for (int bit = 0; bit < 64 && first + bit < sorted.count; ++bit) {
      const Box other = sorted.box(first + bit);
      const float inter = box.common_with(other);
      const float all = (box.area() + other.area()) - inter;
      const bool is_rival = sorted.class_of(first + bit) == its_class;
      if (is_rival && is_above(inter, all)) word |= uint64_t{1} << bit;
    }
    thread::store(sorted.words + index, word);
  }
};

struct WalkKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMostWords = 1024;
  struct Arguments {
    Call call;
    Sorted sorted;
  };
  struct SharedStorage {
    SharedArray<uint64_t, kMostWords> suppressed;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [call, sorted] = arguments;
    const int64_t words = divide_up(call.count, 64);
    for (int64_t w = thread_index(); w < words; w += kThreads) shared.suppressed[w] = 0;
    ptx::barrier_sync();
    int64_t found = 0;
    for (int64_t i = 0; i < call.count; ++i) {
      const uint64_t word = shared.suppressed[i / 64];
      if ((word >> (i % 64) & 1) != 0) continue;
      ptx::barrier_sync();  // all have read before any writes
      if (thread_index() == 0) {
        thread::store(call.kept + found * call.kept_stride, thread::load(sorted.places + i));
      }
      ++found;
      for (int64_t w = i / 64 + thread_index(); w < words; w += kThreads) {
        const uint64_t before = shared.suppressed[w];
        shared.suppressed[w] = before | thread::load(sorted.words + w * call.count + i);
      }
      ptx::barrier_sync();
    }
    finish(call, found, kThreads);
  }
};
#endif

struct PairMask {
  static bool supports(const Call& call, Why& why) {
    constexpr int64_t kMost = 65536;
    return why.unless(call.count >= 1 && call.count <= kMost, "takes 1 to ", kMost, " boxes, not ",
                      call.count);
  }
  static Workspace workspace(const Call& call) {
    return {.bytes = Sorted::bytes(call, divide_up(call.count, 64) * call.count)};
  }
  static void run(const Call& call, const Context& context) {
    const Sorted sorted(call, context.workspace);
    sort_by_ranks(call, sorted, context.stream);
    launch<PairsKernel>(
        {.blocks = divide_up(divide_up(call.count, 64) * call.count, PairsKernel::kThreads),
         .threads = PairsKernel::kThreads},
        context.stream, {sorted, Quotient(call.threshold)});
    launch<WalkKernel>({.threads = WalkKernel::kThreads}, context.stream, {call, sorted});
  }
};

inline constexpr Seed kPairMaskSeeds[] = {{.name = "{}_f32"}};
inline constexpr Rung kPairMask = rung_of<PairMask, NmsIndices>({
    .name = "pair_mask",
    .from = "greedy",
    .idea = "sorted first; then a bit for each pair, everywhere at once, and a walk through them",
    .seeds = kPairMaskSeeds,
});

}  // namespace ws::nms
