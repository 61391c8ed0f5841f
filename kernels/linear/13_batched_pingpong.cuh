// Idea: the epilogue of a batch lies under the products of another tile, as its store does: what is
//   added is loaded by pairs as a piece of a tile is finished.
// From wgmma: tiles of all products in one line, as gemm/batched_pingpong walks them; what is added
//   has a stride from product to product. y and what is added may be f32, whatever the operands.
// Traffic: that of the products, and what is added once; one matrix for all products stays in L2.
// Limits: sm_90a, f16 and bf16; K > 0; base addresses and strides of rows and products of batch1,
//   batch2 and y, and rows of y, are multiples of 16 bytes; neighbours of input are one access.
#pragma once

#include "kernels/gemm/51_batched_pingpong.cuh"
#include "kernels/linear/12_batched_any_layout.cuh"
#include "kernels/linear/batched_output.hpp"

namespace ws::linear {

using BatchedPolicies = gemm::PolicyList<gemm::BatchedTurns128, gemm::Pingpong128Alone>;

// Instantiated beside the rung's row and in batched_bf16.cu, for tests to call.
template <class T, class Source, class Out>
void run_batched_pingpong(const BatchedCall& call, int policy, int multiprocessors, Stream stream) {
  gemm::with_contiguous(call, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
    BatchedPolicies::with(policy, [&]<class Policy>() {
      using Output = BatchedFinishedOutput<gemm::BatchedTensorOutput<Out>, Source, true>;
      using Kernel = gemm::PingpongKernel<T, kA, kB, Policy, Output, gemm::BatchedTiles>;
      gemm::launch_batched_wgmma<Kernel, T, Output>(call, multiprocessors, stream);
    });
  });
}
extern template void run_batched_pingpong<half, half, half>(const BatchedCall&, int, int, Stream);
extern template void run_batched_pingpong<half, half, float>(const BatchedCall&, int, int, Stream);
extern template void run_batched_pingpong<half, float, float>(const BatchedCall&, int, int, Stream);
extern template void run_batched_pingpong<bf16, bf16, bf16>(const BatchedCall&, int, int, Stream);
extern template void run_batched_pingpong<bf16, bf16, float>(const BatchedCall&, int, int, Stream);
extern template void run_batched_pingpong<bf16, float, float>(const BatchedCall&, int, int, Stream);

struct BatchedPingpong {
  static bool supports(const BatchedCall& call, Why& why) {
    const bool adds_f32 = call.source_dtype == DType::kF32;
    return multiplies(call, kHalves, why) && gemm::BatchedPingpong::supports(call, why) &&
           why.unless(call.source.data == nullptr || (adds_f32 ? lie_in_pairs<float>(call, call.n)
                                                               : lie_in_pairs<half>(call, call.n)),
                      "neighbours of input are not one access");
  }
  // Where nothing is added and nothing scaled, gemm's kernels.
  static void run(const BatchedCall& call, const Context& context) {
    if (is_bare(call)) return gemm::BatchedPingpong::run(call, context);
    const int multiprocessors = device_facts().multiprocessors;
    const int policy = gemm::plan_batched<BatchedPolicies>(call, multiprocessors).policy;
    with_dtypes<kHalves>(call, [&]<class T, class Source, class Out>() {
      run_batched_pingpong<T, Source, Out>(call, policy, multiprocessors, context.stream);
    });
  }

  // What a call is thought to take, in us, whatever is added; never where it is not taken.
  static double time(const BatchedCall& call) {
    Why nobody;
    if (!supports(call, nobody)) return gemm::kNever;
    const int multiprocessors = device_facts().multiprocessors;
    return is_bare(call) ? gemm::plan_batched<gemm::BatchedTurnPolicies>(call, multiprocessors).time
                         : gemm::plan_batched<BatchedPolicies>(call, multiprocessors).time;
  }
};

}  // namespace ws::linear
