// Idea: what wgmma or the copy engine does not take is copied once: operands that lie across K are
//   turned, rows that start anywhere realigned, and a C of such rows is stored beside it first.
// From promoted: every layout and size at tensor-core speed. Scales count K as they did: copies
//   have the same K, and zeros behind it.
// Traffic: two bytes for each of a copied operand more, twice the bytes of a copied C.
// Limits: sm_90a; K > 0, a stride of 1 in each operand, C row by row; a workspace as large as the
//   copies.
#pragma once

#include "kernels/scaled_gemm/04_promoted.cuh"
#include "kernels/scaled_gemm/06_pingpong.cuh"
#include "kernels/scaled_gemm/07_split_k.cuh"
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
    return {.bytes = copies_of(call).operands + (stores_beside(call) ? copies_of(call).c : 0)};
  }

  // The operands' copies, then C's.
  static void run(const Call& call, const Context& context) {
    Call aligned = call;
    make_k_major(aligned, context.workspace, context.stream);
    if (splits(call)) return SplitK::run(aligned, context);
    if (stores_beside(call)) {
      aligned.c.data = static_cast<std::byte*>(context.workspace) + copies_of(call).operands;
      aligned.c.leading = aligned.c.row = stored_leading(call);
    }
    leaves_sums(aligned) ? Pingpong::run(aligned, context) : Promoted::run(aligned, context);
    if (stores_beside(call)) {
      copy_rows_out(call, aligned.c.data, aligned.c.leading, context.stream);
    }
  }

 private:
  // split_k stores rows that start anywhere.
  static bool stores_beside(const Call& call) { return !splits(call) && !is_stored(call); }
};

}  // namespace ws::scaled_gemm
