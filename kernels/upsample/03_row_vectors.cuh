// Idea: 16 bytes of a row of the result a thread, whatever the sizes.
// From naive: writes are most of the traffic, and take four or eight times fewer instructions; a
// thread finds its row once. Where each of its pixels comes from it asks eight times; they lie
// beside each other, and come from the L1.
// Traffic: each element once; reads of 16 or 32 bits.
// Limits: contiguous planes, columns of the result in whole vectors, aligned to 16 bytes.
#pragma once

#include "kernels/upsample/images.hpp"

namespace ws::upsample {

template <class T>
struct RowVectorsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWidth = 16 / sizeof(T);
  struct Arguments {
    const T* x;
    T* y;
    int64_t threads;
    thread::Divider vectors;  // of a row
    thread::Divider height;
    Axis rows;
    Axis columns;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.threads) return;
    const uint32_t all = a.vectors.quotient(static_cast<uint32_t>(i));
    const int64_t first = (i - int64_t{all} * a.vectors.divisor()) * kWidth;
    const uint32_t plane = a.height.quotient(all);
    const int64_t row = all - plane * a.height.divisor();
    const T* x = a.x + (plane * a.rows.from + a.rows.source(row)) * a.columns.from;
    Vec<T, kWidth> y;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) y[k] = thread::load(x + a.columns.source(first + k));
    thread::store(a.y + i * kWidth, y);
  }
};

struct RowVectors {
  static bool supports(const ForwardCall& call, Why& why) {
    const int64_t width = width_of(call);
    return is_dense(call, why) &&
           why.unless(call.columns.to % width == 0 && is_aligned(call.out),
                      "writes whole vectors of ", width, " columns, aligned to 16 bytes, not ",
                      call.columns.to) &&
           is_counted(call.planes() * call.rows.to * (call.columns.to / width), why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = RowVectorsKernel<T>;
      const int64_t vectors = call.columns.to / Kernel::kWidth;
      const int64_t threads = call.planes() * call.rows.to * vectors;
      launch<Kernel>(
          {.blocks = divide_up(threads, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {static_cast<const T*>(call.in), static_cast<T*>(call.out), threads,
           thread::Divider(vectors), thread::Divider(call.rows.to), call.rows, call.columns});
    });
  }
};

inline constexpr Rung kRowVectors = rung_of<RowVectors, UpsampleNearest2d>({
    .name = "row_vectors",
    .from = "naive",
    .idea = "16 bytes of a row of the result a thread, whatever the sizes",
});

}  // namespace ws::upsample
