// Idea: a batch is one more stride, of what is added too: 0 where all products add one matrix.
// From any_layout: threads count the elements of all products.
// Traffic: any_layout's.
// Limits: none.
#pragma once

#include "kernels/gemm/42_batched_any_layout.cuh"
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

// Whether it is bmm's: nothing is added and nothing scaled.
inline bool is_bare(const BatchedCall& call) {
  return call.source.data == nullptr && call.alpha == 1;
}

// The epilogue, of which each product has its own part. There is no activation, nor code for one.
template <class Source>
struct FinishedProduct {
  Epilogue<Source> epilogue;
  int64_t source_batch;  // stride from product to product

  static FinishedProduct of(const BatchedCall& call) {
    return {Epilogue<Source>(call), call.source.batch};
  }
  __device__ __forceinline__ float operator()(float sum, int64_t product, int64_t row,
                                              int64_t column) const {
    Epilogue<Source> mine = epilogue;
    if (mine.source != nullptr) mine.source += product * source_batch;
    return mine.alpha * sum + mine.added(row, column);
  }
};

struct BatchedAnyLayout {
  static void run(const BatchedCall& call, const Context& context) {
    with_dtypes<kFloats>(call, [&]<class T, class Source, class Out>() {
      using Finish = FinishedProduct<Source>;
      gemm::BatchedAnyLayoutKernel<T, Out, Finish>::run(call, Finish::of(call), context.stream);
    });
  }
};

inline constexpr Rung kBatchedAnyLayout = rung_of<BatchedAnyLayout, Baddbmm>({
    .name = "batched_any_layout",
    .from = "any_layout",
    .idea = "a batch is one more stride, of what is added too",
});

}  // namespace ws::linear
