// Idea: few rows, or few tiles: K is divided among the blocks of a cluster, and the epilogue comes
//   when each adds up its lines of the tile. What it adds is asked for before the other blocks'
//   sums are.
// From wgmma: a tile 128 high or wide leaves most SMs without one where a token, or 64, meet a
//   layer. The products are gemm/split_k's, which read the weight at the rate of memory, and of f32
//   gemm/split_three_tf32's or split_tf32's.
// Traffic: that of the product; what is added once, from L2 where it repeats.
// Limits: sm_90a; a stride of each matrix 1, rows of mat1 and mat2 at multiples of 16 bytes (of
//   f32 those of the larger); K > 0; rows of y, contiguous, begin anywhere.
#pragma once

#include "kernels/gemm/58_split_three_tf32.cuh"
#include "kernels/gemm/59_split_tf32.cuh"
#include "kernels/linear/epilogue.hpp"
#include "kernels/linear/wgmma.hpp"
#include "warpsmith/row/load.hpp"

namespace ws::linear {

// T: of what is added; Out: of what is written.
template <class T, class Out>
struct FinishedLines : gemm::LinesOutput<Out> {
  using Base = gemm::LinesOutput<Out>;
  Epilogue<T> epilogue;

  static FinishedLines of(const Call& call) {
    return {Base::of(call, call.out_dtype), Epilogue<T>(call)};
  }

  // What is added to kWidth sums at (line, column), of which `left` are C's.
  template <int kWidth>
  __device__ __forceinline__ Vec<float, kWidth> hold(int line, int column, int left) const {
    Vec<float, kWidth> added{};
    if (epilogue.source == nullptr) return added;
    const T* const from = epilogue.source + line * epilogue.row + column * epilogue.column;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      added[e] = row::load_or_zeros<1>(from + e * epilogue.column, e < left)[0];
    }
    return added;
  }
  template <int kWidth>
  __device__ __forceinline__ void put(int line, int column, int left,
                                      const Vec<float, kWidth>& sums,
                                      const Vec<float, kWidth>& added) const {
    Vec<float, kWidth> y;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) y[e] = epilogue.alpha * sums[e] + epilogue.beta * added[e];
    with_activation(epilogue.activation, [&](const auto& function) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) y[e] = function(y[e]);
    });
    Base::put(line, column, left, y);
  }
};

template <class T, class Out>
void run_split_k_by(const gemm::SplitPlan& plan, const Call& call, Stream stream) {
  SplitPolicies::with(plan.policy, [&]<class Policy>() {
    const gemm::Call& product = call;
    const gemm::Call turned = Policy::kTurned ? transposed(product) : product;
    gemm::with_contiguous(turned, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
      if constexpr (Policy::takes(kB)) {
        using Output = FinishedLines<T, Out>;
        using Kernel = gemm::SplitKKernel<T, kA, kB, Policy, Output>;
        Kernel::template start<Kernel>(turned, Output::of(call), plan.parts, stream);
      }
    });
  });
}
template <class T>
void run_split_k(const Call& call, Stream stream) {
  const gemm::SplitPlan plan = plan_parts_of_k(call);
  call.out_dtype == DType::kF32 ? run_split_k_by<T, float>(plan, call, stream)
                                : run_split_k_by<T, T>(plan, call, stream);
}
// split_k_bf16.cu has that of bf16, 19_split_k.cu that of f16.
extern template void run_split_k<half>(const Call&, Stream);
extern template void run_split_k<bf16>(const Call&, Stream);

struct SplitK {
  static bool supports(const Call& call, Why& why) {
    if (!why.unless(call.c.contiguous == gemm::Contiguous::kColumns, "c is stored by columns")) {
      return false;
    }
    return call.dtype == DType::kF32 ? gemm::SplitThreeTf32::supports(call, why)
                                     : gemm::operands_can_be_copied(call, why);
  }
  static Workspace workspace(const Call& call) {
    if (call.dtype != DType::kF32) return {};
    return call.tf32 ? gemm::SplitTf32::workspace(call) : gemm::SplitThreeTf32::workspace(call);
  }
  static void run(const Call& call, const Context& context) {
    switch (call.dtype) {
      case DType::kF32:
        return call.tf32 ? run_f32<gemm::SplitTf32>(call, context)
                         : run_f32<gemm::SplitThreeTf32>(call, context);
      case DType::kF16: return run_split_k<half>(call, context.stream);
      default: return run_split_k<bf16>(call, context.stream);
    }
  }

 private:
  template <class Product>
  static void run_f32(const Call& call, const Context& context) {
    Product::run_as(Product::plan(call), FinishedLines<float, float>::of(call), context);
  }
};

}  // namespace ws::linear
