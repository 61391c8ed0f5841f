// Idea: lines are cut into parts over all threads that the device holds. First what each part makes
// of nothing; then each part folds those before it, in their order, and walks its steps.
// From ahead: few channels no longer mean few threads; states of parts merge, since a state is a
// sum with an exponent.
// Traffic: k and v twice, out once; 12 bytes a part and channel, read by all parts behind it.
// Limits: where there are channels enough, ahead reads once.
#pragma once

#include "kernels/wkv/parts.hpp"
#include "kernels/wkv/recurrence.hpp"

#if WS_DEVICE_CODE
namespace ws::wkv {

// States of parts by themselves, [parts, 3, lines].
__device__ __forceinline__ State load_part(const float* states, int64_t part, int64_t lines,
                                           int64_t line) {
  const float* from = states + 3 * part * lines + line;
  return {thread::load(from), thread::load(from + lines), thread::load(from + 2 * lines)};
}

template <class T, bool kTotals>
struct ChunkedKernel {
  static constexpr int kThreads = Parts::kThreads;
  static constexpr int kAhead = 8;
  struct Arguments {
    ForwardCall call;
    Parts parts;
    float* states;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const ForwardCall& call = a.call;
    const int64_t lines = a.parts.lines;
    const int64_t part = block_index() / a.parts.blocks;
    const int64_t at = (block_index() - part * a.parts.blocks) * kThreads + thread_index();
    if (at >= lines) return;
    const Line line(call, at);
    const int64_t first = part * a.parts.steps;
    const int64_t last = std::min(first + a.parts.steps, call.length);
    const LoadKeyValue<T> load(call, line);
    if constexpr (kTotals) {
      State state;
      for_steps<kAhead>(first, last, load, [&](int64_t /*t*/, const KeyValue& one) {
        state.step(line.w, one.k, one.v);
      });
      float* to = a.states + 3 * part * lines + at;
      thread::store(to, state.p);
      thread::store(to + lines, state.q);
      thread::store(to + 2 * lines, state.o);
    } else {
      State state = first_state(call, line);
      const auto steps = static_cast<float>(a.parts.steps);
#pragma unroll 4
      for (int64_t p = 0; p < part; ++p)
        state.join(line.w, steps, load_part(a.states, p, lines, at));
      T* out = line.of<T>(call.out);
      for_steps<kAhead>(first, last, load, [&](int64_t t, const KeyValue& one) {
        const float y = out_of(state, line.u + one.k, one.v);
        thread::store(out + t * call.out.step, from_float<T>(y));
        state.step(line.w, one.k, one.v);
      });
      if (call.last_state.exists && part == a.parts.count - 1) store_state(call, line, state);
    }
  }
};

struct Chunked {
  static Workspace workspace(const ForwardCall& call) {
    const Parts parts(call);
    return {.bytes = static_cast<size_t>(3 * parts.count * parts.lines) * sizeof(float)};
  }
  static bool supports(const ForwardCall& call, Why& why) {
    const Parts parts(call);
    return why.unless(parts.count * parts.blocks < int64_t{1} << 31, "takes fewer than 2^31 parts");
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Parts parts(call);
      const Grid grid{.blocks = parts.count * parts.blocks,
                      .threads = static_cast<int>(Parts::kThreads)};
      auto* states = static_cast<float*>(context.workspace);
      launch<ChunkedKernel<T, true>>(grid, context.stream, {call, parts, states});
      launch<ChunkedKernel<T, false>>(grid, context.stream, {call, parts, states});
    });
  }
};

inline constexpr Rung kChunked = rung_of<Chunked, Wkv>(
    {.name = "chunked",
     .from = "ahead",
     .idea = "parts of a line side by side: what they make of nothing, then their outputs"});

}  // namespace ws::wkv
#endif
