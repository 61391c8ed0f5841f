// Idea: a warpgroup has a tile to itself, of whichever product is next: one stores the last of a
//   product while the other multiplies the first of another.
// From batched_wgmma: as pingpong has it from warp_specialized; and blocks alone, where a product
//   is too low for two of a cluster.
// Traffic: batched_wgmma's; tiles of half the size ask L2 for three fourths as much for as many
//   products.
// Limits: as batched_wgmma; and c may be f32.
#pragma once

#include "kernels/gemm/44_batched_wgmma.cuh"
#include "kernels/gemm/45_pingpong.cuh"

namespace ws::gemm {

// Out: the dtype of c.
template <class T, Contiguous kA, Contiguous kB, class Policy, class Out = T>
using BatchedPingpongKernel =
    PingpongKernel<T, kA, kB, Policy, BatchedTensorOutput<Out>, BatchedTiles>;

// Instantiated beside the rung's row and in batched_wide.cu, for tests to call.
template <class T, class Out = T>
void run_batched_pingpong(const BatchedCall& call, int policy, int multiprocessors, Stream stream) {
  with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
    BatchedTurnPolicies::with(policy, [&]<class Policy>() {
      using Kernel = BatchedPingpongKernel<T, kA, kB, Policy, Out>;
      launch_batched_wgmma<Kernel, T, BatchedTensorOutput<Out>>(call, multiprocessors, stream);
    });
  });
}
extern template void run_batched_pingpong<half>(const BatchedCall&, int, int, Stream);
extern template void run_batched_pingpong<bf16>(const BatchedCall&, int, int, Stream);
extern template void run_batched_pingpong<half, float>(const BatchedCall&, int, int, Stream);
extern template void run_batched_pingpong<bf16, float>(const BatchedCall&, int, int, Stream);

struct BatchedPingpong {
  static bool supports(const BatchedCall& call, Why& why) {
    // The lowest and narrowest tiles, and a wave of clusters beyond the last.
    return operands_can_be_copied(call, why) && can_be_copied("c", call.c, call.out_dtype, why) &&
           why.unless(is_stored_by_boxes(call, call.out_dtype), "rows of c are ", call.c.length,
                      " elements, the copy engine stores multiples of 16 bytes") &&
           products_can_be_copied(call, why) &&
           fits_grid(call, 2 * divide_up(call.m, 64) * divide_up(call.n, 64), why);
  }
  static void run(const BatchedCall& call, const Context& context) {
    const int multiprocessors = device_facts().multiprocessors;
    const int policy = plan_batched<BatchedTurnPolicies>(call, multiprocessors).policy;
    with_dtypes<kHalves>(call, [&]<class T, class Out>() {
      run_batched_pingpong<T, Out>(call, policy, multiprocessors, context.stream);
    });
  }
};

}  // namespace ws::gemm
