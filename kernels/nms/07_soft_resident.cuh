// Idea: boxes stay in shared memory and scores in registers: a step is a look at what is there and
//   one maximum over the block.
// From soft_greedy: a step loaded every box and stored every score, four dependent accesses; it
// asks
//   nothing of global memory now but to note the index.
// Traffic: boxes and scores once. A step is some 15 instructions a box and a barrier.
// Limits: 6144 boxes, the 96 KB that a block may have everywhere.
#pragma once

#include "kernels/nms/decay.hpp"
#include "kernels/nms/sorted.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::nms {

inline constexpr int kMostResident = 6144;

#if WS_DEVICE_CODE
struct SoftResidentKernel {
  static constexpr int kThreads = 1024;
  static constexpr int kEach = kMostResident / kThreads;  // boxes of a thread
  using Best = block::AllReduce<uint64_t, kThreads>;
  using Arguments = SoftCall;
  struct SharedStorage {
    SharedArray<Box, kMostResident> boxes;
    Best::Storage best;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& call) const {
    const Decay decay(call);
    const auto larger = [](uint64_t a, uint64_t b) { return a < b ? b : a; };
    const auto count = static_cast<int>(call.count);
    float scores[kEach];
    uint32_t is_left = 0;  // a bit for each
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = e * kThreads + thread_index();
      if (i >= count) break;
      shared.boxes[i] = box_of(call, i);
      scores[e] = thread::load(call.scores + i * call.score_stride);
      is_left |= 1U << e;
    }

    Best best_of(shared.best);
    int64_t found = 0;
    while (true) {
      uint64_t key = 0;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        if ((is_left >> e & 1) != 0) {
          key = larger(key, key_of(scores[e], e * kThreads + thread_index()));
        }
      }
      key = best_of(key, larger);
      if (!is_worth(key, call.least)) break;
      const auto best = static_cast<int>(topk::Key<uint64_t>::place(key));
      if (thread_index() == 0) thread::store(call.kept + found * call.kept_stride, best);
      ++found;
      const Box box = shared.boxes[best];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int i = e * kThreads + thread_index();
        if (i == best) is_left &= ~(1U << e);
        if ((is_left >> e & 1) != 0) scores[e] = decay(scores[e], box, shared.boxes[i]);
      }
    }

#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = e * kThreads + thread_index();
      if (i < count) thread::store(call.decayed + i * call.decayed_stride, scores[e]);
    }
    finish(call, found, kThreads);
  }
};
#endif

struct SoftResident {
  static bool supports(const SoftCall& call, Why& why) {
    return why.unless(call.count <= kMostResident, "holds up to ", kMostResident, " boxes, not ",
                      call.count);
  }
  static void run(const SoftCall& call, const Context& context) {
    launch<SoftResidentKernel>({.threads = SoftResidentKernel::kThreads}, context.stream, call);
  }
};

inline constexpr Rung kSoftResident = rung_of<SoftResident, SoftNms>({
    .name = "soft_resident",
    .from = "soft_greedy",
    .idea = "boxes stay in shared memory, scores in registers: a step is one maximum of a block",
});

}  // namespace ws::nms
