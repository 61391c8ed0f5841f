// Idea: 16 bytes a load, four loads of A in flight.
// From warp_per_row: a fourth (an eighth in 16 bits) of the load instructions, and four times the
//   bytes under way before the first is waited for.
// Traffic: A once, 512 bytes a load; x as many bytes again, from L1 while it holds them.
// Limits: x and the rows of A start at multiples of 16 bytes.
#pragma once

#include "kernels/gemv/rows.hpp"

namespace ws::gemv {

template <class T>
struct WarpVectorsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kLoads = 4;
  using Vector = row::Packed<T, kWidth>;
  using Arguments = RowArguments<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= g.m) return;
    const T* a = g.a + row * g.pitch;
    float sum = 0;
    int i = lane_index() * kWidth;
    constexpr int kStep = kWarpSize * kWidth;
#pragma unroll 1
    for (; i + (kLoads - 1) * kStep + kWidth <= g.k; i += kLoads * kStep) {
      Vector of_a[kLoads];
      Vector of_x[kLoads];
#pragma unroll
      for (int n = 0; n < kLoads; ++n) of_a[n] = Vector::load(a + i + n * kStep);
#pragma unroll
      for (int n = 0; n < kLoads; ++n) of_x[n] = Vector::load(g.x + i + n * kStep);
#pragma unroll
      for (int n = 0; n < kLoads; ++n) sum += dot(of_a[n], of_x[n]);
    }
#pragma unroll 1
    for (; i + kWidth <= g.k; i += kStep) {
      sum += dot(Vector::load(a + i), Vector::load(g.x + i));
    }
#pragma unroll 1
    for (; i < g.k; ++i) {  // of one lane: fewer elements than a vector has
      sum += to_float(thread::load(a + i)) * to_float(thread::load(g.x + i));
    }
    sum = warp::all_reduce(sum, [](float p, float q) { return p + q; });
    if (lane_index() == 0) thread::store(g.y + row * g.y_step, from_float<T>(sum));
  }
};

struct WarpVectors {
  static bool supports(const Call& call, Why& why) { return rows_supported(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = WarpVectorsKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.m, Kernel::kWarps), .threads = Kernel::kThreads},
                     context.stream, RowArguments<T>(call));
    });
  }
};

// Theirs load four elements at a time and take K in multiples of 128; hgemv_cute, a tiled copy of
// the same dot products by warps, is answered here too.
inline constexpr Seed kWarpVectorsSeeds[] = {
    {.name = "sgemv_k128_f32x4", .dtypes = {DType::kF32}},
    {.name = "hgemv_k128_f16x4", .dtypes = {DType::kF16}},
    {.name = "hgemv_cute", .dtypes = {DType::kF16}},
};
inline constexpr Rung kWarpVectors = rung_of<WarpVectors, Gemv>({
    .name = "warp_vectors",
    .from = "warp_per_row",
    .idea = "16 bytes a load, four in flight",
    .seeds = kWarpVectorsSeeds,
});

}  // namespace ws::gemv
