// Idea: an addition that needs the one before it waits four clocks for it; a thread that has four
//   sums under way never waits. Unrolling makes the room, and alone it does not help with that.
// From one_chain to unrolled: 32 terms a turn: the loop's own instructions, and the computing of
//   coefficients, are gone. The chain is as long as before.
// From there on: 2, 4, 8 sums, each of every 2nd, 4th, 8th term, put together at the end.
// Traffic: every element once.
// Limits: terms a multiple of 8. Other warps hide the waiting too: a lesson for one warp a
//   scheduler, 128 threads an SM.
#pragma once

#include "kernels/lessons/launch_each.hpp"

namespace ws::lessons {

struct OneChainKernel {
  static constexpr int kThreads = 128;
  static constexpr int kPerBlock = kThreads;
  using Arguments = Call;
  struct SharedStorage {};

  // By Horner's rule, from the last term on.
  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.count) return;
    const float x = thread::load(a.x + i);
    float sum = 0;
#pragma unroll 1
    for (auto k = static_cast<uint32_t>(a.rounds); k-- > 0;) {
      sum = thread::fma(sum, x, static_cast<float>(1 + k % Unrolling::kPeriod));
    }
    thread::store(a.y + i, sum);
  }
};

template <int kChains>
struct ChainsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kPerBlock = kThreads;
  using Arguments = Call;
  struct SharedStorage {};

  // Sum c has the terms c, c + kChains, ...: a polynomial in x^kChains.
  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.count) return;
    const float x = thread::load(a.x + i);
    float step = x;
#pragma unroll
    for (int n = 1; n < kChains; n *= 2) step *= step;
    float sums[kChains] = {};
#pragma unroll 4
    for (int turn = a.rounds / Unrolling::kPeriod; turn > 0; --turn) {
#pragma unroll
      for (int k = Unrolling::kPeriod - 1; k >= 0; --k) {
        sums[k % kChains] = thread::fma(sums[k % kChains], step, static_cast<float>(1 + k));
      }
    }
    float sum = sums[kChains - 1];
#pragma unroll
    for (int c = kChains - 2; c >= 0; --c) sum = thread::fma(sum, x, sums[c]);
    thread::store(a.y + i, sum);
  }
};

inline constexpr Rung kOneChain = rung_of<LaunchEach<OneChainKernel>, Unrolling>({
    .name = "one_chain",
    .idea = "a term a turn of the loop, added to one sum",
    .file = "04_unrolling.cuh",
});
inline constexpr Rung kUnrolled = rung_of<LaunchEach<ChainsKernel<1>>, Unrolling>({
    .name = "unrolled",
    .from = "one_chain",
    .idea = "32 terms a turn, known to the compiler, still added to one sum",
    .file = "04_unrolling.cuh",
});
inline constexpr Rung kTwoChains = rung_of<LaunchEach<ChainsKernel<2>>, Unrolling>({
    .name = "two_chains",
    .from = "unrolled",
    .idea = "two sums, whose additions do not wait for each other",
    .file = "04_unrolling.cuh",
});
inline constexpr Rung kFourChains = rung_of<LaunchEach<ChainsKernel<4>>, Unrolling>({
    .name = "four_chains",
    .from = "two_chains",
    .idea = "four sums: an addition is done when its turn comes again",
    .file = "04_unrolling.cuh",
});
inline constexpr Rung kEightChains = rung_of<LaunchEach<ChainsKernel<8>>, Unrolling>({
    .name = "eight_chains",
    .from = "four_chains",
    .idea = "eight sums: more than there is to wait for",
    .file = "04_unrolling.cuh",
});

}  // namespace ws::lessons
