// Idea: of a batch whose rows or products do not start at multiples of 16 bytes, operands are
//   copied once into rows that do, all products in one launch.
// From batched_wgmma: any M, N, K and any strides between products at tensor-core speed, as
//   realigned has them for one product. A matrix that all products share is copied once.
// Traffic: 4 bytes an element of each copied operand more.
// Limits: sm_90a, f16 and bf16; a stride of each matrix 1; a workspace as large as the copies.
#pragma once

#include "kernels/gemm/44_batched_wgmma.cuh"
#include "kernels/gemm/realign.hpp"

namespace ws::gemm {

extern template void run_batched_wgmma<half, BatchedPlainOutput<half>>(const BatchedCall&, int,
                                                                       Stream);
extern template void run_batched_wgmma<bf16, BatchedPlainOutput<bf16>>(const BatchedCall&, int,
                                                                       Stream);
// batched_wide.cu has those of C in f32.
extern template void run_batched_wgmma<half, BatchedPlainOutput<float>, BatchedWidePlainPolicies>(
    const BatchedCall&, int, Stream);
extern template void run_batched_wgmma<bf16, BatchedPlainOutput<float>, BatchedWidePlainPolicies>(
    const BatchedCall&, int, Stream);

// Of c in f32 there is one tile.
template <class T, class Out>
using BatchedPlainPoliciesOf =
    std::conditional_t<std::is_same_v<T, Out>, BatchedPolicies, BatchedWidePlainPolicies>;

struct BatchedRealigned {
  static bool supports(const BatchedCall& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why) &&
           products_can_be_copied(call, why);
  }
  static Workspace workspace(const BatchedCall& call) { return {.bytes = realigned_bytes(call)}; }
  static void run(const BatchedCall& call, const Context& context) {
    with_dtypes<kHalves>(call, [&]<class T, class Out>() {
      BatchedCall aligned = call;
      realign<T>(aligned, context.workspace, context.stream);
      run_batched_wgmma<T, BatchedPlainOutput<Out>, BatchedPlainPoliciesOf<T, Out>>(
          aligned, device_facts().multiprocessors, context.stream);
    });
  }

  // What a call is thought to take, in us.
  static double time(const BatchedCall& call) {
    return call.out_dtype == call.dtype ? time_by<BatchedPolicies>(call)
                                        : time_by<BatchedWidePlainPolicies>(call);
  }
  // By tiles of these policies.
  template <class Policies>
  static double time_by(const BatchedCall& call) {
    BatchedCall aligned = call;
    static_cast<Call&>(aligned) = as_realigned(call);
    return copies_time(call) + plan_batched<Policies>(aligned, device_facts().multiprocessors).time;
  }
};

}  // namespace ws::gemm
