// Idea: a thread an element of the gradient gathers those of its copies. To scatter them would take
// an atomic addition for each, in any order, and zeros before.
// From naive: which pixels copy one is a range of rows and one of columns; where a range begins is
// guessed by dividing, and put right where f32 has rounded.
// Traffic: each element once; neighbours read runs of neighbours, which the L1 keeps.
// Limits: contiguous planes, [N, C, H, W].
#pragma once

#include "kernels/upsample/images.hpp"

namespace ws::upsample {

template <class T>
struct BackwardNaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const T* grad;
    T* dx;
    int64_t elements;
    Axis rows;
    Axis columns;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.elements) return;
    const int64_t column = i % a.columns.from;
    const int64_t row = i / a.columns.from % a.rows.from;
    const int64_t plane = i / a.columns.from / a.rows.from;
    const int64_t first = a.columns.first_of(column);
    const int64_t last = a.columns.end_of(column);
    const int64_t last_row = a.rows.end_of(row);
    float sum = 0;
    for (int64_t k = a.rows.first_of(row); k < last_row; ++k) {
      const T* grad = a.grad + (plane * a.rows.to + k) * a.columns.to;
      for (int64_t l = first; l < last; ++l) sum += to_float(thread::load(grad + l));
    }
    thread::store(a.dx + i, from_float<T>(sum));
  }
};

struct BackwardNaive {
  static bool supports(const BackwardCall& call, Why& why) { return is_dense(call, why); }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardNaiveKernel<T>;
      const int64_t elements = call.planes() * call.rows.from * call.columns.from;
      launch<Kernel>({.blocks = divide_up(elements, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream,
                     {static_cast<const T*>(call.in), static_cast<T*>(call.out), elements,
                      call.rows, call.columns});
    });
  }
};

inline constexpr Seed kBackwardNaiveSeeds[] = {
    {"upsample_nearest2d_backward_f32", "upsample_nearest2d_backward", {DType::kF32}},
    {"upsample_nearest2d_backward_f16", "upsample_nearest2d_backward", {DType::kF16}}};
inline constexpr Rung kBackwardNaive = rung_of<BackwardNaive, UpsampleNearest2dBackward>({
    .name = "backward_naive",
    .from = "naive",
    .idea = "a thread a pixel, which gathers the gradients of its copies",
    .seeds = kBackwardNaiveSeeds,
});

}  // namespace ws::upsample
