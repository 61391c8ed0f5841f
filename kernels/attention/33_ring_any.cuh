// Idea: what a query has met before is one key more. Its score is lse, its value out: so the online
//   softmax begins with both as it finds them in memory, and goes on over the keys of this part.
// From any: out and lse are read first; a merge needs no arithmetic that is not there already.
// Traffic: any's, and out and lse once more.
// Limits: none of the operation's. CUDA cores.
#pragma once

#include "kernels/attention/05_any.cuh"
#include "kernels/attention/ring.hpp"

namespace ws::attention {

struct RingAny {
  static void run(const RingCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      constexpr const char* kName = "attention/ring_any";
      using Kernel = AnyKernel<T, float, true>;
      launch<Kernel>({.blocks = divide_up(call.batch * call.heads * call.queries, Kernel::kWarps),
                      .threads = Kernel::kThreads},
                     context.stream,
                     {call, Sequences(call, kName), AnyRows::of<T>(call.q), AnyRows::of<T>(call.k),
                      AnyRows::of<T>(call.v), ScalesOf<T>(call, kName)});
    });
  }
};

inline constexpr Seed kRingSeeds[] = {
    {.name = "ring_attention", .operation = "ring_attention_step"}};
inline constexpr Rung kRingAny = rung_of<RingAny, RingAttentionStep>({
    .name = "ring_any",
    .from = "any",
    .idea = "what was met before is one key more: its score is lse, its value out",
    .seeds = kRingSeeds,
});

}  // namespace ws::attention
