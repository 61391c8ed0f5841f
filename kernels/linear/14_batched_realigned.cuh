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

// Of operands that are aligned. 14_batched_realigned.cu and batched_bf16.cu have them.
template <class T>
void run_batched_realigned(const BatchedCall& aligned, int multiprocessors, Stream stream) {
  const auto run_into = [&]<class Source, class Out>() {
    gemm::with_contiguous(aligned, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
      using Output = BatchedFinishedOutput<gemm::BatchedPlainOutput<Out>, Source, false>;
      using Kernel = gemm::BatchedWgmmaKernel<T, kA, kB, gemm::Wgmma128, Output>;
      gemm::launch_batched_wgmma<Kernel, T, Output>(aligned, multiprocessors, stream);
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
    return gemm::BatchedRealigned::supports(call, why);
  }
  static Workspace workspace(const BatchedCall& call) {
    return gemm::BatchedRealigned::workspace(call);
  }
  static void run(const BatchedCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      BatchedCall aligned = call;
      gemm::realign<T>(aligned, context.workspace, context.stream);
      run_batched_realigned<T>(aligned, device_facts().multiprocessors, context.stream);
    });
  }
};

}  // namespace ws::linear
