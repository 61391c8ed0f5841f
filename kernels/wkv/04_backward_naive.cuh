// Idea: a thread a channel of a batch walks its steps there and back. What a step came to and what
// it was divided by is kept in memory for the way back; gradients of w and u are added up over
// batches by a second kernel, in their order.
// From naive: the gradient.
// Traffic: k, v, g twice, 8 bytes a step written and read, gk and gv once.
// Limits: batch * channels threads, each of which waits for its loads in every step.
#pragma once

#include "kernels/wkv/backward.hpp"

#if WS_DEVICE_CODE
namespace ws::wkv {

template <class T>
struct BackwardNaiveKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    BackwardCall call;
    Left* left;   // [T, lines]
    float* sums;  // [2, lines]
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t lines = call.lines();
    const int64_t at = block_index() * kThreads + thread_index();
    if (at >= lines) return;
    const Line line(call, at);
    const LoadGiven<T> load(call, line);
    Slope slope;
    slope.state = first_state(call, line);
    OfChannel sums;
    for (int64_t t = 0; t < call.length; ++t) {
      const Outcome result = step_there(line, load(t), slope, sums);
      thread::store(a.left + t * lines + at, Left{{result.out, result.log_weight}});
    }
    const FromLast last = from_last(call, line, slope, sums);
    thread::store(a.sums + at, sums.w);
    thread::store(a.sums + lines + at, sums.u);
    State later = last.later;
    for (int64_t t = call.length - 1; t >= 0; --t) {
      const Left left = thread::load(a.left + t * lines + at);
      step_back<T>(call, line, t, load(t), left, last, later);
    }
    store_gradient_of_state(call, line, later, last);
  }
};

struct BackwardNaive {
  static size_t bytes_left(const BackwardCall& call) {
    return static_cast<size_t>(call.length * call.lines()) * sizeof(Left);
  }
  static Workspace workspace(const BackwardCall& call) {
    return {.bytes = bytes_left(call) + static_cast<size_t>(2 * call.lines()) * sizeof(float)};
  }
  static void run(const BackwardCall& call, const Context& context) {
    auto* left = static_cast<Left*>(context.workspace);
    auto* sums = reinterpret_cast<float*>(left + call.length * call.lines());
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardNaiveKernel<T>;
      if (call.lines() == 0) return;
      launch<Kernel>({.blocks = divide_up(call.lines(), int64_t{Kernel::kThreads}),
                      .threads = Kernel::kThreads},
                     context.stream, {call, left, sums});
    });
    add_up(call, sums, 1, context.stream);
  }
};

inline constexpr Seed kBackwardNaiveSeeds[] = {
    {.name = "rwkv_wkv_backward", .operation = "wkv_backward"}};
inline constexpr Rung kBackwardNaive = rung_of<BackwardNaive, WkvBackward>(
    {.name = "backward_naive",
     .from = "naive",
     .idea = "a thread a channel walks its steps there and back",
     .seeds = kBackwardNaiveSeeds});

}  // namespace ws::wkv
#endif
