// Idea: as it is defined: find the best that is left, take it, lower the scores of the rest, and
//   again. One block, a thread every 256th box, scores where the result will be.
// From greedy: a box that is overlapped stays, with a lower score: nothing can be sorted before.
// Traffic: all boxes and scores for each that is taken, from the L2, by one SM.
// Limits: none.
#pragma once

#include "kernels/nms/decay.hpp"
#include "kernels/nms/sorted.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::nms {

#if WS_DEVICE_CODE
struct SoftGreedyKernel {
  static constexpr int kThreads = 256;
  using Best = block::AllReduce<uint64_t, kThreads>;
  struct Arguments {
    SoftCall call;
    uint8_t* taken;  // a thread's own are seen by nobody else, nor are its scores
  };
  struct SharedStorage {
    Best::Storage best;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [call, taken] = arguments;
    const Decay decay(call);
    const auto larger = [](uint64_t a, uint64_t b) { return a < b ? b : a; };
    const auto score_of = [&](int64_t i) { return call.decayed + i * call.decayed_stride; };
    Best best_of(shared.best);
    for (int64_t i = thread_index(); i < call.count; i += kThreads) {
      thread::store(taken + i, 0);
      thread::store(score_of(i), thread::load(call.scores + i * call.score_stride));
    }
    int64_t found = 0;
    while (true) {
      uint64_t key = 0;
      for (int64_t i = thread_index(); i < call.count; i += kThreads) {
        if (thread::load(taken + i) == 0) key = larger(key, key_of(thread::load(score_of(i)), i));
      }
      key = best_of(key, larger);
      if (!is_worth(key, call.least)) break;
      const int64_t best = topk::Key<uint64_t>::place(key);
      if (thread_index() == 0) thread::store(call.kept + found * call.kept_stride, best);
      ++found;
      const Box box = box_of(call, best);
      for (int64_t i = thread_index(); i < call.count; i += kThreads) {
        if (i == best) thread::store(taken + i, 1);
        if (thread::load(taken + i) != 0) continue;
        thread::store(score_of(i), decay(thread::load(score_of(i)), box, box_of(call, i)));
      }
    }
    finish(call, found, kThreads);
  }
};
#endif

struct SoftGreedy {
  static Workspace workspace(const SoftCall& call) {
    return {.bytes = static_cast<size_t>(call.count)};
  }
  static void run(const SoftCall& call, const Context& context) {
    launch<SoftGreedyKernel>({.threads = SoftGreedyKernel::kThreads}, context.stream,
                             {call, static_cast<uint8_t*>(context.workspace)});
  }
};

inline constexpr Rung kSoftGreedy = rung_of<SoftGreedy, SoftNms>({
    .name = "soft_greedy",
    .from = "greedy",
    .idea = "one block takes the best that is left, lowers the scores of the rest, and again",
});

}  // namespace ws::nms
