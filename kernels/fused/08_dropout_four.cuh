// Idea: four neighbours a thread, since the generator gives four words a call.
// From dropout_naive: a quarter of the generator's instructions, and accesses of four elements.
// Traffic: x once, y once.
// Limits: dense tensors, aligned to four elements; an offset that is a multiple of 4.
#pragma once

#include "kernels/fused/07_dropout_naive.cuh"
#include "warpsmith/row/packed.hpp"

namespace ws::fused {

// kWidth elements of x, from number `first` on, times their factors.
template <class T, int kWidth>
__device__ __forceinline__ Vec<T, kWidth> dropped(const Mask& mask, uint64_t first,
                                                  const row::Packed<T, kWidth>& x) {
  static_assert(kWidth % 4 == 0);
  Vec<float, kWidth> y;
#pragma unroll
  for (int four = 0; four < kWidth / 4; ++four) {
    const Vec<uint32_t, 4> words = mask.random((mask.offset + first) / 4 + four);
#pragma unroll
    for (int i = 0; i < 4; ++i) y[four * 4 + i] = x[four * 4 + i] * mask.factor(words[i]);
  }
  return thread::convert<T>(y);
}

template <class T>
struct DropoutFourKernel {
  static constexpr int kThreads = 256;
  using Arguments = typename DropoutNaiveKernel<T>::Arguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t first = (block_index() * kThreads + thread_index()) * 4;
    if (first + 4 <= a.elements) {
      const auto x = row::Packed<T, 4>::load(a.x + first);
      thread::store(a.y + first, dropped(a.mask, static_cast<uint64_t>(first), x));
      return;
    }
    for (int64_t i = first; i < a.elements; ++i) {  // a tail of up to three
      const float factor = a.mask.factor_of(i);
      thread::store(a.y + i, from_float<T>(to_float(thread::load(a.x + i)) * factor));
    }
  }
};

struct DropoutFour {
  static bool supports(const DropoutCall& call, Why& why) { return takes_vectors(call, 4, why); }
  static void run(const DropoutCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = DropoutFourKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.elements, Kernel::kThreads * 4), .threads = Kernel::kThreads},
          context.stream, {call.x<T>(), call.y<T>(), call.elements, call.mask});
    });
  }
};

inline constexpr Rung kDropoutFour = rung_of<DropoutFour, Dropout>({
    .name = "dropout_four",
    .from = "dropout_naive",
    .idea = "four neighbours a thread, one for each word of a call",
});

}  // namespace ws::fused
