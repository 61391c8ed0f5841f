// Idea: a batch is one more stride. Transposed and padded views, products whose rows take turns,
//   and a matrix that all products share, with a stride of 0, are then one kernel.
// From batched_naive: the strides are arguments, c may be f32; threads count the elements of all
//   products, so that small ones share a block.
// Traffic: any_layout's.
// Limits: none.
#pragma once

#include "kernels/gemm/02_any_layout.cuh"
#include "kernels/gemm/batched.hpp"

namespace ws::gemm {

template <class T, class Out, class Finish = PlainSum>
struct BatchedAnyLayoutKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    View<const T> a;
    View<const T> b;
    View<Out> c;
    int64_t a_batch, b_batch, c_batch;  // strides from product to product
    int64_t m, n, k;
    int64_t elements;  // of all products
    Finish finish;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= g.elements) return;
    const int64_t column = index % g.n;
    const int64_t row = index / g.n % g.m;
    const int64_t product = index / g.n / g.m;
    const int64_t a = product * g.a_batch;
    const int64_t b = product * g.b_batch;
    float sum = 0;
    for (int64_t i = 0; i < g.k; ++i) {
      sum += to_float(thread::load(g.a.at(row, i) + a)) *
             to_float(thread::load(g.b.at(i, column) + b));
    }
    thread::store(g.c.at(row, column) + product * g.c_batch,
                  from_float<Out>(g.finish(sum, product, row, column)));
  }

  static void run(const BatchedCall& call, const Finish& finish, Stream stream) {
    const int64_t elements = call.batch * call.m * call.n;
    launch<BatchedAnyLayoutKernel>({.blocks = divide_up(elements, kThreads), .threads = kThreads},
                                   stream,
                                   {call.a, call.b, call.c, call.a.batch, call.b.batch,
                                    call.c.batch, call.m, call.n, call.k, elements, finish});
  }
};

struct BatchedAnyLayout {
  static void run(const BatchedCall& call, const Context& context) {
    with_dtypes<kFloats>(call, [&]<class T, class Out>() {
      BatchedAnyLayoutKernel<T, Out>::run(call, {}, context.stream);
    });
  }
};

inline constexpr Rung kBatchedAnyLayout = rung_of<BatchedAnyLayout, Bmm>({
    .name = "batched_any_layout",
    .from = "batched_naive",
    .idea = "a batch is one more stride: views, padding, one matrix for all products",
});

}  // namespace ws::gemm
