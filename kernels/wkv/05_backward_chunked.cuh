// Idea: parts of lines side by side, three times: what each makes of nothing; then the way there
// from the state before it, and with it what the part's steps make of a state before them; then the
// way back from what the parts behind it make of theirs.
// From backward_naive: all SMs are busy, and eight steps are loaded before one is used.
// Traffic: k and v three times, g twice, 8 bytes a step written and read, gk and gv once.
// Limits: 36 bytes a step of bf16 where ten would do, for as many channels as there may be.
// Long: three launches of one kernel, and what they leave each other.
#pragma once

#include "kernels/wkv/backward.hpp"
#include "kernels/wkv/parts.hpp"

#if WS_DEVICE_CODE
namespace ws::wkv {

enum class Way { kTotals, kThere, kBack };

template <class T, Way kWay>
struct BackwardChunkedKernel {
  static constexpr int kThreads = Parts::kThreads;
  static constexpr int kAhead = 4;
  struct Arguments {
    BackwardCall call;
    Parts parts;
    Left* left;     // [T, lines]
    float* sums;    // [2, parts, lines]
    float* slopes;  // [6, parts, lines]: of parts by themselves
    float* later;   // [3, parts, lines]: what their steps make of a state before them
    float* last;    // [5, lines]: what the gradient of the last state says
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t lines = a.parts.lines;
    const int64_t part = block_index() / a.parts.blocks;
    const int64_t at = (block_index() - part * a.parts.blocks) * kThreads + thread_index();
    if (at >= lines) return;
    const Line line(call, at);
    const int64_t first = part * a.parts.steps;
    const int64_t last = std::min(first + a.parts.steps, call.length);
    const int64_t all = a.parts.count * lines;
    const auto steps_of = [&](int64_t of_part) {
      const int64_t left = call.length - of_part * a.parts.steps;
      return static_cast<float>(std::min(a.parts.steps, left));
    };
    const int64_t mine = part * lines + at;

    if constexpr (kWay == Way::kTotals) {
      Slope slope;
      for_steps<kAhead>(
          first, last, LoadKeyValue<T>(call, line),
          [&](int64_t /*t*/, const KeyValue& one) { slope.step(line.w, one.k, one.v); });
      const float numbers[] = {slope.state.p,     slope.state.q, slope.state.from,
                               slope.state.steps, slope.p,       slope.q};
#pragma unroll
      for (int i = 0; i < 6; ++i) thread::store(a.slopes + i * all + mine, numbers[i]);
    } else if constexpr (kWay == Way::kThere) {
      Slope slope;
      slope.state = first_state(call, line);
#pragma unroll 2
      for (int64_t p = 0; p < part; ++p) {
        slope.join(line.w, steps_of(p), load_slope(line, a.slopes + p * lines + at, all));
      }
      OfChannel sums;
      State later;
      for_steps<kAhead>(first, last, LoadGiven<T>(call, line), [&](int64_t t, const Given& one) {
        const Outcome result = step_there(line, one, slope, sums);
        thread::store(a.left + t * lines + at, Left{{result.out, result.log_weight}});
        const float decay = line.w * static_cast<float>(t - first);  // from the part's first step
        later.join(0, 0, decay - result.log_weight, one.g, -one.g * result.out);
      });
      if (part + 1 == a.parts.count && call.g_last_state.exists) {
        const FromLast of_last = from_last(call, line, slope, sums);
        const float numbers[] = {of_last.later.p, of_last.later.q, of_last.later.o,
                                 of_last.of_exponent, of_last.steps};
#pragma unroll
        for (int i = 0; i < 5; ++i) thread::store(a.last + i * lines + at, numbers[i]);
      }
      thread::store(a.sums + mine, sums.w);
      thread::store(a.sums + all + mine, sums.u);
      thread::store(a.later + mine, later.p);
      thread::store(a.later + all + mine, later.q);
      thread::store(a.later + 2 * all + mine, later.o);
    } else {
      FromLast of_last;
      if (call.g_last_state.exists) {
        of_last.later = load_state(a.last + at, lines);
        of_last.of_exponent = thread::load(a.last + 3 * lines + at);
        of_last.steps = thread::load(a.last + 4 * lines + at);
      }
      State later = of_last.later;
#pragma unroll 2
      for (int64_t p = a.parts.count - 1; p > part; --p) {
        later.join(line.w, steps_of(p), load_state(a.later + p * lines + at, all));
      }
      const LoadGiven<T> load(call, line);
      struct Both {
        Given given;
        Left left;
      };
      for_steps_back<kAhead>(
          first, last,
          [&](int64_t t) { return Both{load(t), thread::load(a.left + t * lines + at)}; },
          [&](int64_t t, const Both& one) {
            step_back<T>(call, line, t, one.given, one.left, of_last, later);
          });
      if (part == 0) store_gradient_of_state(call, line, later, of_last);
    }
  }

  __device__ __forceinline__ static State load_state(const float* from, int64_t all) {
    return {thread::load(from), thread::load(from + all), thread::load(from + 2 * all)};
  }
  __device__ __forceinline__ static Slope load_slope(const Line& line, const float* from,
                                                     int64_t all) {
    Slope slope;
    slope.state = load_state(from, all);  // its exponent is what steps have left of it
    slope.state.steps = thread::load(from + 3 * all);
    slope.state.o = thread::fma(line.w, slope.state.steps, slope.state.from);
    slope.p = thread::load(from + 4 * all);
    slope.q = thread::load(from + 5 * all);
    return slope;
  }
};

struct BackwardChunked {
  static Workspace workspace(const BackwardCall& call) {
    const Parts parts(call);
    return {.bytes = static_cast<size_t>(call.length * parts.lines) * sizeof(Left) +
                     static_cast<size_t>((11 * parts.count + 5) * parts.lines) * sizeof(float)};
  }
  static bool supports(const BackwardCall& call, Why& why) {
    const Parts parts(call);
    return why.unless(parts.count * parts.blocks < int64_t{1} << 31, "takes fewer than 2^31 parts");
  }
  static void run(const BackwardCall& call, const Context& context) {
    const Parts parts(call);
    const int64_t all = parts.count * parts.lines;
    auto* left = static_cast<Left*>(context.workspace);
    auto* sums = reinterpret_cast<float*>(left + call.length * parts.lines);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      if (parts.lines == 0) return;
      const Grid grid{.blocks = parts.count * parts.blocks,
                      .threads = static_cast<int>(Parts::kThreads)};
      const auto with = [&]<Way kWay>() {
        launch<BackwardChunkedKernel<T, kWay>>(
            grid, context.stream,
            {call, parts, left, sums, sums + 2 * all, sums + 8 * all, sums + 11 * all});
      };
      with.template operator()<Way::kTotals>();
      with.template operator()<Way::kThere>();
      with.template operator()<Way::kBack>();
    });
    add_up(call, sums, parts.count, context.stream);
  }
};

inline constexpr Rung kBackwardChunked =
    rung_of<BackwardChunked, WkvBackward>({.name = "backward_chunked",
                                           .from = "backward_naive",
                                           .idea = "parts of a line side by side, there and back"});

}  // namespace ws::wkv
#endif
