// Idea: operands whose rows do not start at multiples of 16 bytes are copied once into rows that
//   do; lanes finish the sums and store them, for rows of y start anywhere too.
// From wgmma: any M, N, K at tensor-core speed, as gemm/realigned has them.
// Traffic: that of the product, and 4 bytes an element of each copied operand.
// Limits: sm_90a, f16 and bf16; K > 0, a stride of each matrix 1; a workspace as large as the
//   copies.
#pragma once

#include "kernels/gemm/realign.hpp"
#include "kernels/linear/finished_output.hpp"
#include "kernels/linear/wgmma.hpp"

namespace ws::linear {

// y of Out, to which something of Source is added.
template <class Out, class Source>
struct PlainFinished : FinishedOutput<gemm::PlainOutput<Out>, Source> {
  using Element = Out;
};

template <class T, class Out, class Source, class Policies>
void run_realigned(const Call& aligned, Stream stream) {
  gemm::with_contiguous(aligned, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
    Policies::with(gemm::plan_whole_tiles<Policies>(aligned).policy, [&]<class Policy>() {
      using Output = PlainFinished<Out, Source>;
      using Kernel = WgmmaKernel<T, kA, kB, Policy, Output>;
      const Output output{Output::template of<typename Kernel::Store>(aligned)};
      start_wgmma<Kernel, T>(aligned, aligned.n, output, stream);
    });
  });
}

// Of the largest tile's lanes, 128 sums and a store by lanes leave too few registers for what is
// added, in 16 bits. Outputs of f32 are for large products.
using FinishedPolicies = gemm::PolicyList<gemm::Wgmma128, gemm::Low128, gemm::Low64>;
using LargePolicies = gemm::PolicyList<gemm::WgmmaBig>;

template <class T>
void run_realigned_from(const Call& call, const Context& context) {
  Call aligned = call;
  gemm::realign<T>(aligned, context.workspace, context.stream);
  if (call.out_dtype == call.dtype) {
    run_realigned<T, T, T, FinishedPolicies>(aligned, context.stream);
  } else if (call.source_dtype == call.dtype) {
    run_realigned<T, float, T, LargePolicies>(aligned, context.stream);
  } else {
    run_realigned<T, float, float, LargePolicies>(aligned, context.stream);
  }
}
// 09_realigned.cu and realigned_bf16.cu have them.
extern template void run_realigned_from<half>(const Call&, const Context&);
extern template void run_realigned_from<bf16>(const Call&, const Context&);

struct Realigned {
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
           gemm::runs_supported(call, why);
  }
  static Workspace workspace(const Call& call) { return {.bytes = gemm::realigned_bytes(call)}; }
  static void run(const Call& call, const Context& context) {
    call.dtype == DType::kF16 ? run_realigned_from<half>(call, context)
                              : run_realigned_from<bf16>(call, context);
  }

  // What a call is thought to take, in us.
  static double time(const Call& call) {
    const gemm::Call aligned = gemm::as_realigned(call);
    const auto tiles = call.out_dtype == call.dtype
                           ? gemm::plan_whole_tiles<FinishedPolicies>(aligned)
                           : gemm::plan_whole_tiles<LargePolicies>(aligned);
    return gemm::realigning_time(call) + tiles.time;
  }
};

}  // namespace ws::linear
