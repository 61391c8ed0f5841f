// Idea: what wgmma or the copy engine does not take is copied once: operands that lie across K are
//   turned, rows that start anywhere realigned, and a C of such rows is stored beside it first.
// From promoted: every layout and size at tensor-core speed. Scales count K as they did: copies
//   have the same K, and zeros behind it.
// Traffic: two bytes for each of a copied operand more, twice the bytes of a copied C.
// Limits: sm_90a; K > 0, a stride of 1 in each operand, C row by row; a workspace as large as the
//   copies.
#pragma once

#include "kernels/scaled_gemm/03_wgmma.cuh"
#include "kernels/scaled_gemm/04_promoted.cuh"
#include "kernels/scaled_gemm/k_major.hpp"
#include "kernels/scaled_gemm/rows_out.hpp"

namespace ws::scaled_gemm {

struct Realigned {
  static bool supports(const Call& call, Why& why) {
    Why nobody;
    return takes_copies(call, why) &&
           why.unless(!is_k_major(call, nobody), "all is as wgmma takes it: nothing to realign");
  }
  static Workspace workspace(const Call& call) {
    return {.bytes = copies_of(call).operands + copies_of(call).c};
  }

  // The operands' copies, then C's.
  static void run(const Call& call, const Context& context) {
    Call aligned = call;
    make_k_major(aligned, context.workspace, context.stream);
    if (!is_stored(call)) {
      aligned.c.data = static_cast<std::byte*>(context.workspace) + copies_of(call).operands;
      aligned.c.leading = aligned.c.row = stored_leading(call);
    }
    leaves_sums(aligned) && (aligned.dtype == DType::kI8 || prefers<Wide>(aligned))
        ? Wgmma::run(aligned, context)
        : Promoted::run(aligned, context);
    if (!is_stored(call)) {
      copy_rows_out(call, aligned.c.data, aligned.c.leading, context.stream);
    }
  }
};

}  // namespace ws::scaled_gemm
