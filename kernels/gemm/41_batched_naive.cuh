// Idea: a batch is one more index. A block belongs to one product and computes 256 elements of it,
//   each thread one, walking along a row of its A and a column of its B.
// From naive: the block's index says which product as well.
// Traffic: naive's. Products of fewer than 256 elements leave threads idle.
// Limits: dense row-major matrices of one dtype, one after the other; `batched_any_layout` takes
//   all others.
#pragma once

#include "kernels/gemm/batched.hpp"
#include "kernels/gemm/plain.hpp"

namespace ws::gemm {

template <class T>
struct BatchedNaiveKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    const T* a;  // [B, M, K]
    const T* b;  // [B, K, N]
    T* c;        // [B, M, N]
    int64_t m, n, k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, b, c, m, n, k] = arguments;
    const int64_t blocks = divide_up(m * n, kThreads);
    const int64_t product = block_index() / blocks;
    const int64_t index = block_index() % blocks * kThreads + thread_index();
    if (index >= m * n) return;
    const T* const row = a + product * m * k + index / n * k;
    const T* const column = b + product * k * n + index % n;
    float sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      sum += to_float(thread::load(row + i)) * to_float(thread::load(column + i * n));
    }
    thread::store(c + product * m * n + index, from_float<T>(sum));
  }
};

struct BatchedNaive {
  static bool supports(const BatchedCall& call, Why& why) {
    const auto follow = [&](const Matrix& matrix, int64_t elements) {
      return call.batch <= 1 || matrix.batch == elements;
    };
    return is_plain(call, why) && is_of_one_dtype(call, why) &&
           why.unless(follow(call.a, call.m * call.k) && follow(call.b, call.k * call.n) &&
                          follow(call.c, call.m * call.n),
                      "needs matrices that follow one another") &&
           fits_grid(call, divide_up(call.m * call.n, 256), why);
  }

  static void run(const BatchedCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BatchedNaiveKernel<T>;
      launch<Kernel>(
          {.blocks = call.batch * divide_up(call.m * call.n, Kernel::kThreads),
           .threads = Kernel::kThreads},
          context.stream,
          {call.a.as<const T>(), call.b.as<const T>(), call.c.as<T>(), call.m, call.n, call.k});
    });
  }
};

inline constexpr Rung kBatchedNaive = rung_of<BatchedNaive, Bmm>({
    .name = "batched_naive",
    .from = "naive",
    .idea = "a batch is one more index: a block belongs to one product",
});

}  // namespace ws::gemm
