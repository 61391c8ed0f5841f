// Idea: operands whose rows do not start at multiples of 16 bytes are copied once into rows that
//   do, the weights of all groups in the same launch.
// From wgmma: any T, M, N, K at tensor-core speed, as gemm/realigned has them. Copies know no
//   groups: one begins at any element of them.
// Traffic: 4 bytes an element of each copied operand more, of weights whatever its groups are.
// Limits: sm_90a, f16 and bf16; K > 0, a stride of A and B 1, contiguous rows of out; a workspace
//   as large as the copies.
#pragma once

#include "kernels/gemm/realign.hpp"
#include "kernels/grouped_gemm/05_wgmma.cuh"
#include "kernels/grouped_gemm/06_wgmma_weight.cuh"

namespace ws::grouped_gemm {

struct Realigned {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
           gemm::runs_supported(call, why) &&
           why.unless(gemm::needs_realigning(call.a, call.dtype) ||
                          gemm::needs_realigning(call.b, call.dtype),
                      "all rows start at multiples of 16 bytes: nothing to realign") &&
           groups_are_counted(call, why) && are_walked(call, why);
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    return {.bytes = gemm::realigned_bytes(call)};
  }
  static void run(const RowsCall& call, const Context& context) {
    with_dtypes<kHalves>(call, [&]<class T, class Out>() {
      RowsCall aligned = call;
      gemm::realign<T>(aligned, context.workspace, context.stream);
      run_rows<T, Out>(aligned, "grouped_gemm/realigned", device_facts().multiprocessors,
                       context.stream);
    });
  }
  static void run(const DepthCall& call, const Context& context) {
    with_dtypes<kHalves>(call, [&]<class T, class Out>() {
      DepthCall aligned = call;
      gemm::realign<T>(aligned, context.workspace, context.stream);
      run_depth<T, Out>(aligned, "grouped_gemm_weight/realigned", device_facts().multiprocessors,
                        context.stream);
    });
  }
};

}  // namespace ws::grouped_gemm
