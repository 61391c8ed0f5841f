// Idea: of a batch whose rows or products do not start at multiples of 16 bytes, operands are
//   copied once into rows that do, all products in one launch; lanes finish the sums and store
//   them.
// From batched_pingpong: any M, N, K and any strides, as gemm/batched_realigned has them.
// Traffic: 4 bytes an element of each copied operand more.
// Limits: sm_90a, f16 and bf16; K > 0, a stride of batch1, batch2 and y 1; a workspace as large as
//   the copies.
#pragma once

#include "kernels/gemm/48_batched_realigned.cuh"
#include "kernels/linear/12_batched_any_layout.cuh"
#include "kernels/linear/batched_output.hpp"

namespace ws::linear {

// Not gemm's: of 128 sums a lane, a store by lanes and what is added to each spill.
using BatchedPlainPolicies = gemm::PolicyList<gemm::Wgmma128>;

// Of operands that are aligned. 14_batched_realigned.cu and batched_bf16.cu have them.
template <class T>
void run_batched_realigned(const BatchedCall& aligned, int multiprocessors, Stream stream) {
  const auto run_into = [&]<class Source, class Out>() {
    gemm::with_contiguous(aligned, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
      using Output = BatchedFinishedOutput<gemm::BatchedPlainOutput<Out>, Source, false>;
      const int policy = gemm::plan_batched<BatchedPlainPolicies>(aligned, multiprocessors).policy;
      BatchedPlainPolicies::with(policy, [&]<class Policy>() {
        using Kernel = gemm::BatchedWgmmaKernel<T, kA, kB, Policy, Output>;
        gemm::launch_batched_wgmma<Kernel, T, Output>(aligned, multiprocessors, stream);
      });
    });
  };
  with_dtypes<DTypes{kDType<T>}>(aligned, [&]<class, class Source, class Out>() {
    run_into.template operator()<Source, Out>();
  });
}
extern template void run_batched_realigned<half>(const BatchedCall&, int, Stream);
extern template void run_batched_realigned<bf16>(const BatchedCall&, int, Stream);

struct BatchedRealigned {
  static bool supports(const BatchedCall& call, Why& why) {
    return multiplies(call, kHalves, why) && gemm::BatchedRealigned::supports(call, why);
  }
  static Workspace workspace(const BatchedCall& call) {
    return gemm::BatchedRealigned::workspace(call);
  }
  // Where nothing is added and nothing scaled, gemm's kernels.
  static void run(const BatchedCall& call, const Context& context) {
    if (is_bare(call)) return gemm::BatchedRealigned::run(call, context);
    with_type<kHalves>(call.dtype, [&]<class T>() {
      BatchedCall aligned = call;
      gemm::realign<T>(aligned, context.workspace, context.stream);
      run_batched_realigned<T>(aligned, device_facts().multiprocessors, context.stream);
    });
  }

  // What a call is thought to take, in us.
  static double time(const BatchedCall& call) {
    return is_bare(call) ? gemm::BatchedRealigned::time(call)
                         : gemm::BatchedRealigned::time_by<BatchedPlainPolicies>(call);
  }
};

}  // namespace ws::linear
