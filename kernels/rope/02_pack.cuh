// Idea: 16 bytes an access: two pairs of neighbours in f32, four in 16 bits.
// From naive: an access of a warp is 512 bytes instead of 128, with a stride between the two.
// Traffic: each element once, in whole accesses; the angles cost what they did.
// Limits: pairs of neighbours, heads that are whole vectors, tensors that start at a multiple of 16
// bytes; else as naive.
#pragma once

#include "kernels/rope/01_naive.cuh"

namespace ws::rope {

#if WS_DEVICE_CODE
template <class T>
struct PackKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 16 / sizeof(T);
  using Arguments = typename NaiveKernel<T>::Arguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t first = (block_index() * kThreads + thread_index()) * kWidth;
    const int64_t columns = 2 * a.pairs;
    if (first >= a.rows * columns) return;
    const int64_t row = first / columns;
    const int64_t pair = (first - row * columns) / 2;
    const int64_t position = row / a.rows_a_position % a.positions;

    Vec<float, kWidth> x = thread::convert<float>(thread::load<kWidth>(a.x + first));
#pragma unroll
    for (int i = 0; i < kWidth; i += 2) {
      turn(x[i], x[i + 1], turn_at(position, a.base, pair + i / 2, a.pairs, a.inverse));
    }
    thread::store(a.y + first, thread::convert<T>(x));
  }
};

struct Pack {
  static bool supports(const Call& call, Why& why) {
    const Turned& x = call.tensors[0];
    return computes_angles(call, why) &&
           why.unless(call.interleaved, "turns pairs of neighbours") &&
           why.unless(call.columns * static_cast<int64_t>(size_of(call.dtype)) % 16 == 0 &&
                          reinterpret_cast<uintptr_t>(x.x) % 16 == 0 &&
                          reinterpret_cast<uintptr_t>(x.y) % 16 == 0,
                      "takes heads of whole vectors of 16 bytes, and pointers aligned to them");
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = PackKernel<T>;
      const int64_t rows = call.batches * call.positions * call.heads();
      const int64_t vectors = rows * call.columns / Kernel::kWidth;
      launch<Kernel>({.blocks = divide_up(vectors, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream,
                     {static_cast<const T*>(call.tensors[0].x), static_cast<T*>(call.tensors[0].y),
                      rows, call.pairs, call.positions, rows_a_position(call),
                      static_cast<float>(call.base), true, call.inverse});
    });
  }
};

inline constexpr Seed kPackSeeds[] = {{"rope_f32x4_pack", {}, {DType::kF32}, "interleaved=true"}};
inline constexpr Rung kPack = rung_of<Pack, Rope>({
    .name = "pack",
    .from = "naive",
    .idea = "16 bytes an access, two or four pairs of neighbours",
    .seeds = kPackSeeds,
});
#endif

}  // namespace ws::rope
