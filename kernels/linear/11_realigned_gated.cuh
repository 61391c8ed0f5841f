// Idea: unaligned rows are copied once into aligned ones, and lanes store y.
// From wgmma_gated: any M, F, K at tensor-core speed.
// Traffic: that of wgmma_gated, and 4 bytes an element of each copied operand.
// Limits: sm_90a, f16 and bf16; K > 0, a stride of x and weight 1, rows of y contiguous; F, of a
//   weight by columns, a multiple of 8; a workspace as large as the copies.
#pragma once

#include "kernels/gemm/realign.hpp"
#include "kernels/linear/06_wgmma_gated.cuh"

namespace ws::linear {

struct RealignedGated {
  static bool supports(const GatedCall& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
           gemm::runs_supported(call, why) && halves_are_taken(call, why);
  }
  static Workspace workspace(const GatedCall& call) {
    return {.bytes = gemm::realigned_bytes(call)};
  }
  static void run(const GatedCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      GatedCall aligned = call;
      gemm::realign<T>(aligned, context.workspace, context.stream);
      run_wgmma_gated<T, gemm::PlainOutput<T>>(aligned, context.stream);
    });
  }
};

}  // namespace ws::linear
