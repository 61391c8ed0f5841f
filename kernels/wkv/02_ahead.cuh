// Idea: eight steps' keys and values are loaded before the first of them is used, and exponents are
// of 2, so that two numbers are brought together by one instruction.
// From naive: memory is waited for once in eight steps.
// Traffic: one read, one write.
// Limits: batch * channels threads: 768 of them leave the GPU idle.
#pragma once

#include "kernels/wkv/recurrence.hpp"

#if WS_DEVICE_CODE
namespace ws::wkv {

template <class T>
struct AheadKernel {
  static constexpr int kThreads = 128;
  static constexpr int kAhead = 8;
  using Arguments = ForwardCall;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& call) const {
    const int64_t at = block_index() * kThreads + thread_index();
    if (at >= call.lines()) return;
    const Line line(call, at);
    T* out = line.of<T>(call.out);
    State state = first_state(call, line);
    for_steps<kAhead>(0, call.length, LoadKeyValue<T>(call, line),
                      [&](int64_t t, const KeyValue& one) {
                        const float y = out_of(state, line.u + one.k, one.v);
                        thread::store(out + t * call.out.step, from_float<T>(y));
                        state.step(line.w, one.k, one.v);
                      });
    if (call.last_state.exists) store_state(call, line, state);
  }
};

struct Ahead {
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = AheadKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.lines(), int64_t{Kernel::kThreads}),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};

inline constexpr Rung kAhead = rung_of<Ahead, Wkv>(
    {.name = "ahead", .from = "naive", .idea = "eight steps are loaded before one is used"});

}  // namespace ws::wkv
#endif
