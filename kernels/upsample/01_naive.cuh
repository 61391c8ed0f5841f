// Idea: a thread an element of the result, which asks where its pixel comes from.
// Traffic: each element once, 16 or 32 bits an access; a pixel that is copied is read again
// by each copy, from the L1 and the L2. Four divisions of 64 bits tell where a thread is.
// Limits: contiguous planes, [N, C, H, W].
#pragma once

#include "kernels/upsample/images.hpp"

namespace ws::upsample {

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const T* x;
    T* y;
    int64_t elements;
    Axis rows;
    Axis columns;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.elements) return;
    const int64_t column = i % a.columns.to;
    const int64_t row = i / a.columns.to % a.rows.to;
    const int64_t plane = i / a.columns.to / a.rows.to;
    const int64_t source_row = plane * a.rows.from + a.rows.source(row);
    thread::store(a.y + i,
                  thread::load(a.x + source_row * a.columns.from + a.columns.source(column)));
  }
};

struct Naive {
  static bool supports(const ForwardCall& call, Why& why) { return is_dense(call, why); }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      const int64_t elements = call.planes() * call.rows.to * call.columns.to;
      launch<Kernel>({.blocks = divide_up(elements, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream,
                     {static_cast<const T*>(call.in), static_cast<T*>(call.out), elements,
                      call.rows, call.columns});
    });
  }
};

inline constexpr Seed kNaiveSeeds[] = {{"upsample_nearest2d_forward_f32", {}, {DType::kF32}},
                                       {"upsample_nearest2d_forward_f16", {}, {DType::kF16}}};
inline constexpr Rung kNaive = rung_of<Naive, UpsampleNearest2d>({
    .name = "naive",
    .idea = "a thread a pixel of the result, which asks where it comes from",
    .seeds = kNaiveSeeds,
});

}  // namespace ws::upsample
