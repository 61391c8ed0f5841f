// Idea: a batch is one more stride, of what is added too: 0 where all products add one matrix.
// From any_layout: threads count the elements of all products.
// Traffic: any_layout's.
// Limits: none.
#pragma once

#include "kernels/gemm/02_any_layout.cuh"
#include "kernels/gemm/batched.hpp"
#include "kernels/linear/epilogue.hpp"

namespace ws::linear {

// f.template operator()<T, Source, Out>() of the dtypes of the operands, in kSet, of what is added
// and of what is written.
template <DTypes kSet, class F>
void with_dtypes(const BatchedCall& call, F&& f) {
  with_type<kSet>(call.dtype, [&]<class T>() {
    if (call.out_dtype == call.dtype) {
      f.template operator()<T, T, T>();
    } else if (call.source_dtype == call.dtype) {
      f.template operator()<T, T, float>();
    } else {
      f.template operator()<T, float, float>();
    }
  });
}

// A row's dtypes are those of the first tensor, what is added, which may be f32 where the operands
// are not.
inline bool multiplies(const BatchedCall& call, const DTypes& dtypes, Why& why) {
  return why.unless(dtypes.has(call.dtype), "multiplies other dtypes, whatever is added");
}

template <class T, class Source, class Out>
struct BatchedAnyLayoutKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    gemm::View<const T> a;
    gemm::View<const T> b;
    gemm::View<Out> c;
    Epilogue<Source> epilogue;
    int64_t a_batch, b_batch, c_batch, source_batch;  // strides from product to product
    int64_t m, n, k;
    int64_t elements;  // of all products
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
    Epilogue<Source> mine = g.epilogue;
    if (mine.source != nullptr) mine.source += product * g.source_batch;
    thread::store(g.c.at(row, column) + product * g.c_batch,
                  from_float<Out>(mine(sum, row, column)));
  }
};

struct BatchedAnyLayout {
  static void run(const BatchedCall& call, const Context& context) {
    const int64_t elements = call.batch * call.m * call.n;
    with_dtypes<kFloats>(call, [&]<class T, class Source, class Out>() {
      using Kernel = BatchedAnyLayoutKernel<T, Source, Out>;
      launch<Kernel>({.blocks = divide_up(elements, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream,
                     {call.a, call.b, call.c, Epilogue<Source>(call), call.a.batch, call.b.batch,
                      call.c.batch, call.source.batch, call.m, call.n, call.k, elements});
    });
  }
};

inline constexpr Rung kBatchedAnyLayout = rung_of<BatchedAnyLayout, Baddbmm>({
    .name = "batched_any_layout",
    .from = "any_layout",
    .idea = "a batch is one more stride, of what is added too",
});

}  // namespace ws::linear
