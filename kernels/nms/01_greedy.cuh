// Idea: as it is defined: of the boxes that are left find the best, keep it, strike out what it
//   overlaps, and again. One block, a thread every 256th box; nothing is sorted.
// Traffic: all boxes and scores once for each that is kept, from the L2, by one SM.
// Limits: none.
#pragma once

#include "kernels/nms/sorted.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::nms {

#if WS_DEVICE_CODE
struct GreedyKernel {
  static constexpr int kThreads = 256;
  using Best = block::AllReduce<uint64_t, kThreads>;
  struct Arguments {
    Call call;
    Quotient is_above;
    uint8_t* struck;  // a thread's own are seen by nobody else
  };
  struct SharedStorage {
    Best::Storage best;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [call, is_above, struck] = arguments;
    const auto larger = [](uint64_t a, uint64_t b) { return a < b ? b : a; };
    Best best_of(shared.best);
    for (int64_t i = thread_index(); i < call.count; i += kThreads) thread::store(struck + i, 0);
    int64_t found = 0;
    while (true) {
      uint64_t key = 0;
      for (int64_t i = thread_index(); i < call.count; i += kThreads) {
        if (thread::load(struck + i) == 0) key = larger(key, key_of(call, i));
      }
      key = best_of(key, larger);
      if (key == 0) break;
      const int64_t best = topk::Key<uint64_t>::place(key);
      if (thread_index() == 0) thread::store(call.kept + found * call.kept_stride, best);
      ++found;
      const Box box = box_of(call, best);
      for (int64_t i = thread_index(); i < call.count; i += kThreads) {
        const bool is_rival =
            call.classes == nullptr || thread::load(call.classes + i * call.class_stride) ==
                                           thread::load(call.classes + best * call.class_stride);
        const Box other = box_of(call, i);
        const float inter = box.common_with(other);
        const float all = (box.area() + other.area()) - inter;
        if (i == best || (is_rival && is_above(inter, all))) thread::store(struck + i, 1);
      }
    }
    finish(call, found, kThreads);
  }
};
#endif

struct Greedy {
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.count <= 0xFFFFFFFE, "takes up to 2^32 - 2 boxes, not ", call.count);
  }
  static Workspace workspace(const Call& call) {
    return {.bytes = static_cast<size_t>(call.count)};
  }
  static void run(const Call& call, const Context& context) {
    launch<GreedyKernel>(
        {.threads = GreedyKernel::kThreads}, context.stream,
        {call, Quotient(call.threshold), static_cast<uint8_t*>(context.workspace)});
  }
};

inline constexpr Rung kGreedy = rung_of<Greedy, NmsIndices>({
    .name = "greedy",
    .idea = "one block finds the best that is left, strikes out what it overlaps, and again",
});

}  // namespace ws::nms
