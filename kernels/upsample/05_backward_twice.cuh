// Idea: of twice the size the four copies lie where everybody knows: a thread reads 16 bytes of two
// rows, and writes half as many pixels.
// From backward_naive: no range is looked for, accesses are 16 and 8 bytes.
// Traffic: each element once.
// Limits: as twice.
#pragma once

#include "kernels/upsample/02_twice.cuh"

namespace ws::upsample {

template <class T>
struct BackwardTwiceKernel {
  static constexpr int kThreads = 128;
  static constexpr int kHalf = 8 / sizeof(T);
  struct Arguments {
    const T* grad;
    T* dx;
    int64_t threads;
    thread::Divider vectors;  // of a row
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.threads) return;
    const int64_t row = a.vectors.quotient(static_cast<uint32_t>(i));
    const int64_t pitch = int64_t{2} * kHalf * a.vectors.divisor();
    const T* grad = a.grad + row * pitch + i * 2 * kHalf;
    const Vec<T, 2 * kHalf> upper = thread::load<2 * kHalf>(grad);
    const Vec<T, 2 * kHalf> lower = thread::load<2 * kHalf>(grad + pitch);
    Vec<float, kHalf> sums;
#pragma unroll
    for (int k = 0; k < kHalf; ++k) {
      sums[k] = to_float(upper[2 * k]) + to_float(upper[2 * k + 1]) + to_float(lower[2 * k]) +
                to_float(lower[2 * k + 1]);
    }
    thread::store(a.dx + i * kHalf, thread::convert<T>(sums));
  }
};

struct BackwardTwice {
  static bool supports(const BackwardCall& call, Why& why) { return doubles_in_vectors(call, why); }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardTwiceKernel<T>;
      const int64_t vectors = call.columns.from / Kernel::kHalf;
      const int64_t threads = call.planes() * call.rows.from * vectors;
      launch<Kernel>({.blocks = divide_up(threads, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream,
                     {static_cast<const T*>(call.in), static_cast<T*>(call.out), threads,
                      thread::Divider(vectors)});
    });
  }
};

inline constexpr Seed kBackwardTwiceSeeds[] = {
    {"upsample_nearest2d_2x_backward_f32", "upsample_nearest2d_backward", {DType::kF32}},
    {"upsample_nearest2d_2x_backward_f16", "upsample_nearest2d_backward", {DType::kF16}}};
inline constexpr Rung kBackwardTwice = rung_of<BackwardTwice, UpsampleNearest2dBackward>({
    .name = "backward_twice",
    .from = "backward_naive",
    .idea = "twice the size: 16 bytes of two rows become half a vector of sums",
    .seeds = kBackwardTwiceSeeds,
});

}  // namespace ws::upsample
