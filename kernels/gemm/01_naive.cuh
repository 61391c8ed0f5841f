// Idea: a thread computes one element of C, walking along a row of A and a column of B.
// The first kernel everyone writes; slow on purpose.
// Traffic: every thread reads 2K elements for 2K flops. Neighbouring threads share their row of A
//   and read neighbouring columns of B, so the caches save most of it; the load instructions stay,
//   two for each fused multiply-add.
// Limits: dense row-major matrices, layout nn; `any_layout` takes all others.
#pragma once

#include "kernels/gemm/plain.hpp"

namespace ws::gemm {

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    const T* a;  // [M, K]
    const T* b;  // [K, N]
    T* c;        // [M, N]
    int64_t m, n, k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, b, c, m, n, k] = arguments;
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= m * n) return;
    const int64_t row = index / n;
    const int64_t column = index % n;
    float sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      sum += to_float(thread::load(a + row * k + i)) * to_float(thread::load(b + i * n + column));
    }
    thread::store(c + index, from_float<T>(sum));
  }
};

struct Naive {
  static bool supports(const Call& call, Why& why) { return is_plain(call, why); }

  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.m * call.n, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {call.a.as<const T>(), call.b.as<const T>(), call.c.as<T>(), call.m, call.n, call.k});
    });
  }
};

inline constexpr Seed kNaiveSeeds[] = {
    {.name = "sgemm_naive_f32", .dtypes = {DType::kF32}},
    {.name = "hgemm_naive_f16", .dtypes = {DType::kF16}},
};
inline constexpr Rung kNaive = rung_of<Naive, Gemm>({
    .name = "naive",
    .idea = "a thread computes one element of C",
    .seeds = kNaiveSeeds,
});

}  // namespace ws::gemm
