// Idea: small products, and all before Hopper, on the tensor cores by mma.sync: gemm/batched_mma,
//   whose lanes finish the pairs of sums that they have.
// From batched_any_layout: a tile of 32 x 32 for a block, its operands read once.
// Traffic: gemm/batched_mma's; what is added by elements, as y is stored.
// Limits: f16 and bf16, what is added and y also f32; a stride of batch1, batch2 and y must be 1.
#pragma once

#include "kernels/gemm/55_batched_mma.cuh"
#include "kernels/linear/12_batched_any_layout.cuh"

namespace ws::linear {

struct BatchedMma {
  static bool supports(const BatchedCall& call, Why& why) {
    return multiplies(call, kHalves, why) && gemm::BatchedMma::supports(call, why);
  }
  static void run(const BatchedCall& call, const Context& context) {
    with_dtypes<kHalves>(call, [&]<class T, class Source, class Out>() {
      gemm::with_contiguous(call, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
        using Finish = FinishedProduct<Source>;
        gemm::BatchedMmaKernel<T, Out, kA, kB, Finish>::run(call, Finish::of(call), context.stream);
      });
    });
  }
};

}  // namespace ws::linear
