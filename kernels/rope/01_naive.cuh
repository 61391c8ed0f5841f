// Idea: a thread a pair: its position and number follow from where it lies, the angle from them,
// and the pair turns by it.
// Traffic: each element once; but a pair costs a power, a sine and a cosine, some 60 instructions,
// and every head of a position asks for the same ones.
// Limits: contiguous tensors without tables, whole heads, up to 65536 positions: an angle of 16
// bits before the point has 8 behind it in f32.
#pragma once

#include "kernels/rope/rotation.hpp"

namespace ws::rope {

#if WS_DEVICE_CODE
template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const T* x;
    T* y;
    int64_t rows;
    int64_t pairs;
    int64_t positions;
    int64_t rows_a_position;
    float base;
    bool interleaved;
    bool inverse;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.rows * a.pairs) return;
    const int64_t row = i / a.pairs;
    const int64_t pair = i - row * a.pairs;
    const int64_t position = row / a.rows_a_position % a.positions;
    const int64_t first = row * 2 * a.pairs + (a.interleaved ? 2 * pair : pair);
    const int64_t second = first + (a.interleaved ? 1 : a.pairs);

    const thread::SinCos by = turn_at(position, a.base, pair, a.pairs, a.inverse);
    const float x1 = to_float(thread::load(a.x + first));
    const float x2 = to_float(thread::load(a.x + second));
    thread::store(a.y + first, from_float<T>(x1 * by.cos - x2 * by.sin));
    thread::store(a.y + second, from_float<T>(x2 * by.cos + x1 * by.sin));
  }
};

struct Naive {
  static bool supports(const Call& call, Why& why) { return computes_angles(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      const int64_t rows = call.batches * call.positions * call.heads();
      launch<Kernel>(
          {.blocks = divide_up(rows * call.pairs, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {static_cast<const T*>(call.tensors[0].x), static_cast<T*>(call.tensors[0].y), rows,
           call.pairs, call.positions, rows_a_position(call), static_cast<float>(call.base),
           call.interleaved, call.inverse});
    });
  }
};

inline constexpr Seed kNaiveSeeds[] = {{"rope_f32", {}, {DType::kF32}, "interleaved=true"}};
inline constexpr Rung kNaive = rung_of<Naive, Rope>({
    .name = "naive",
    .idea = "a thread a pair: the angle from position and number, then the turn",
    .seeds = kNaiveSeeds,
});
#endif

}  // namespace ws::rope
