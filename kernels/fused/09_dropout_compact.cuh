// Idea: 16 bytes an access in small one-shot blocks, as elementwise/compact_front has them; the
// loads are under way while the generator, which needs none of them, computes.
// From dropout_four: in 16 bits an access of 16 bytes is eight elements, two calls; addresses reach
// the memory in order.
// Traffic: x once, y once.
// Limits: dense tensors that start at a multiple of 16 bytes; an offset that is a multiple of 4.
#pragma once

#include "kernels/elementwise/front.hpp"
#include "kernels/fused/08_dropout_four.cuh"

namespace ws::fused {

template <class T, class Policy>
struct DropoutCompactKernel {
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kMinBlocks = 1536 / kThreads;  // threads as any SM since sm_80 holds
  static constexpr int kLoads = Policy::kLoads;
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int64_t kTile = int64_t{kThreads} * kLoads * kWidth;  // elements of a block
  using Arguments = typename DropoutNaiveKernel<T>::Arguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t first = block_index() * kTile + thread_index() * kWidth;
    row::Packed<T, kWidth> x[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const int64_t at = first + j * kThreads * kWidth;
      if (at + kWidth <= a.elements) x[j] = row::Packed<T, kWidth>::load(a.x + at);
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const int64_t at = first + j * kThreads * kWidth;
      if (at + kWidth <= a.elements) {
        thread::store(a.y + at, dropped(a.mask, static_cast<uint64_t>(at), x[j]));
      } else {
        for (int64_t i = at; i < a.elements; ++i) {
          const float factor = a.mask.factor_of(i);
          thread::store(a.y + i, from_float<T>(to_float(thread::load(a.x + i)) * factor));
        }
      }
    }
  }
};

struct DropoutCompact {
  // H200 2026-11-30, of 2^26 elements, % of copy: f32 100.4 (99.2 by OneInput), bf16 96.5 (84.9 by
  // TwoInputs).
  template <class T>
  using PolicyFor =
      std::conditional_t<sizeof(T) == 4, elementwise::TwoInputs, elementwise::OneInput>;

  static bool supports(const DropoutCall& call, Why& why) {
    return takes_vectors(call, static_cast<int>(16 / size_of(call.dtype)), why);
  }
  static void run(const DropoutCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = DropoutCompactKernel<T, PolicyFor<T>>;
      launch<Kernel>(
          {.blocks = divide_up(call.elements, Kernel::kTile), .threads = Kernel::kThreads},
          context.stream, {call.x<T>(), call.y<T>(), call.elements, call.mask});
    });
  }
};

inline constexpr Rung kDropoutCompact = rung_of<DropoutCompact, Dropout>({
    .name = "dropout_compact",
    .from = "dropout_four",
    .idea = "16 bytes an access in small blocks: loads under way while the generator computes",
});

}  // namespace ws::fused
