// Idea: a block a position of a sequence: no division tells where a thread is, and an angle is
// computed once for all heads.
// From naive: a thread keeps the sine and cosine of its pair, and goes from head to head; 32 heads
// share what each had computed for itself.
// Traffic: each element once; what a warp reads of a head are two stretches of 32 elements.
// Limits: as naive; up to 2^31 positions of all sequences.
#pragma once

#include <algorithm>

#include "kernels/rope/rotation.hpp"

namespace ws::rope {

#if WS_DEVICE_CODE
template <class T>
struct BlockPerPositionKernel {
  static constexpr int kThreads = 256;  // at most
  struct Arguments {
    const T* x;
    T* y;
    int64_t heads;
    int64_t head_stride;
    int64_t position_stride;
    int64_t positions;
    int64_t pairs;
    float base;
    bool interleaved;
    bool inverse;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t batch = block_index() / a.positions;
    const int64_t position = block_index() - batch * a.positions;
    const int64_t start =
        batch * a.positions * a.heads * 2 * a.pairs + position * a.position_stride;
    for (int64_t pair = thread_index(); pair < a.pairs; pair += block_threads()) {
      const thread::SinCos by = turn_at(position, a.base, pair, a.pairs, a.inverse);
      const int64_t first = start + (a.interleaved ? 2 * pair : pair);
      const int64_t second = first + (a.interleaved ? 1 : a.pairs);
      for (int64_t head = 0; head < a.heads; ++head) {
        const int64_t at = head * a.head_stride;
        const float x1 = to_float(thread::load(a.x + first + at));
        const float x2 = to_float(thread::load(a.x + second + at));
        thread::store(a.y + first + at, from_float<T>(x1 * by.cos - x2 * by.sin));
        thread::store(a.y + second + at, from_float<T>(x2 * by.cos + x1 * by.sin));
      }
    }
  }
};

struct BlockPerPosition {
  static bool supports(const Call& call, Why& why) {
    return computes_angles(call, why) &&
           why.unless(call.batches * call.positions < (int64_t{1} << 31),
                      "takes up to 2^31 positions of all sequences");
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BlockPerPositionKernel<T>;
      const Turned& x = call.tensors[0];
      const bool heads_inside = rows_a_position(call) == x.heads;
      const int64_t threads = std::min<int64_t>(round_up(call.pairs, kWarpSize), Kernel::kThreads);
      launch<Kernel>(
          {.blocks = call.batches * call.positions, .threads = static_cast<int>(threads)},
          context.stream,
          {static_cast<const T*>(x.x), static_cast<T*>(x.y), x.heads,
           heads_inside ? call.columns : call.columns * call.positions,
           heads_inside ? call.columns * x.heads : call.columns, call.positions, call.pairs,
           static_cast<float>(call.base), call.interleaved, call.inverse});
    });
  }
};

inline constexpr Seed kBlockPerPositionSeeds[] = {
    {"rope_f32_v2", {}, {DType::kF32}, "interleaved=true"}};
inline constexpr Rung kBlockPerPosition = rung_of<BlockPerPosition, Rope>({
    .name = "block_per_position",
    .from = "naive",
    .idea = "a block a position: an angle is computed once for all heads",
    .seeds = kBlockPerPositionSeeds,
});
#endif

}  // namespace ws::rope
