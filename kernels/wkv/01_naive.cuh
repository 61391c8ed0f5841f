// Idea: a thread a channel of a batch walks its steps with the running maximum of exponents, which
// is a key and the steps since then: w added in each step would be rounded in each.
// Traffic: neighbouring threads read neighbouring channels: one read, one write, all of it used.
// Limits: batch * channels threads, each of which waits for its loads in every step.
#pragma once

#include "kernels/wkv/recurrence.hpp"

#if WS_DEVICE_CODE
namespace ws::wkv {

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 128;
  using Arguments = ForwardCall;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& call) const {
    const int64_t line = block_index() * kThreads + thread_index();
    if (line >= call.lines()) return;
    const int64_t batch = line / call.channels;
    const int64_t channel = line % call.channels;
    const T* k = call.k.at<const T>(batch, channel);
    const T* v = call.v.at<const T>(batch, channel);
    T* out = call.out.at<T>(batch, channel);
    const float w = thread::load(call.w.at<const float>(0, channel));
    const float u = thread::load(call.u.at<const float>(0, channel));

    float p = 0;
    float q = 0;
    float o = -1e38F;
    float from = o;
    float steps = 0;
    if (call.state.exists) {
      const auto* state = call.state.at<const float>(batch, channel);
      p = thread::load(state);
      q = thread::load(state + call.state.step);
      o = from = thread::load(state + 2 * call.state.step);
    }
    for (int64_t t = 0; t < call.length; ++t) {
      const float key = to_float(thread::load(k + t * call.k.step));
      const float value = to_float(thread::load(v + t * call.v.step));

      const float top = thread::max(o, u + key);
      float before = thread::exp(o - top);
      float own = thread::exp(u + key - top);
      const float y = (before * p + own * value) / (before * q + own);
      thread::store(out + t * call.out.step, from_float<T>(y));

      steps += 1;
      const float decayed = from + w * steps;
      o = thread::max(decayed, key);
      before = thread::exp(decayed - o);
      own = thread::exp(key - o);
      p = before * p + own * value;
      q = before * q + own;
      if (decayed < key) {
        from = key;
        steps = 0;
      }
    }
    if (call.last_state.exists) {
      auto* state = call.last_state.at<float>(batch, channel);
      thread::store(state, p);
      thread::store(state + call.last_state.step, q);
      thread::store(state + 2 * call.last_state.step, o);
    }
  }
};

struct Naive {
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.lines(), int64_t{Kernel::kThreads}),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};

inline constexpr Seed kNaiveSeeds[] = {{.name = "rwkv_wkv_forward", .operation = "wkv"}};
inline constexpr Rung kNaive = rung_of<Naive, Wkv>(
    {.name = "naive",
     .idea = "a thread a channel walks its steps with a running maximum of exponents",
     .seeds = kNaiveSeeds});

}  // namespace ws::wkv
#endif
