// Idea: f32 on the tensor cores as tf32: 8 bits of exponent, 10 of mantissa. wgmma reads f32 as it
//   lies in shared memory and cuts off the low 13 bits; an instruction takes 8 of K, 32 bytes.
// From warp_specialized: a stage is 32 of K, and C is f32. Operands of 32 bits must be K-major: one
//   that is not (A of layouts tn and tt, B of nn and tn), or whose rows start anywhere, is copied
//   so into the workspace; rows of C that start anywhere lanes store.
// Traffic: per 128 x 256 x 32 step a block reads 32 KB from L2. A copied operand costs 8 bytes
//   an element more: at 4.2 TB/s 32 us for 4096 x 4096, of some 360 that the product takes.
// Limits: sm_90a; calls that allow for tf32; K > 0, a stride of each matrix 1. Products err by up
//   to 2^-9 of themselves, always towards zero.
#pragma once

#include "kernels/gemm/tf32_parts.hpp"

namespace ws::gemm {

struct WgmmaTf32 {
  static bool supports(const Call& call, Why& why) {
    return allows_tf32(call, why) && why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
           runs_supported(call, why);
  }

  static Tf32Plan plan(const Call& call) {
    return plan_tf32(turned_to(KMajorOperands(call, /*has_low=*/false), call));
  }
  static Workspace workspace(const Call& call) {
    return tf32_workspace(plan(call).tiles, KMajorOperands(call, /*has_low=*/false).bytes());
  }

  static void run(const Call& call, const Context& context) {
    run_in(plan(call).tiles, call, context);
  }
  static void run_in(Tf32Tiles tiles, const Call& call, const Context& context);  // beside the row
  // The same into other outputs, made from a call of their own: one that the copy engine stores,
  // one that lanes do.
  template <class Boxes, class Plain, class C>
  static void run_into(Tf32Tiles tiles, const C& call, const Context& context) {
    KMajorOperands operands(call, /*has_low=*/false);
    operands.make(copies_at(tiles, context.workspace), context.stream);
    const C turned = turned_to(operands, call);
    constexpr Contiguous kColumns = Contiguous::kColumns;
    if (is_stored_by_boxes(call)) {
      run_tf32<kColumns, Boxes>(tiles, turned, context.workspace, context.stream);
    } else {
      WarpSpecializedKernel<float, kColumns, Contiguous::kRows, Wgmma128, WholeTiles, Plain>::run(
          turned, device_facts().multiprocessors, context.stream);
    }
  }

  // What a call is thought to take, in us.
  static double time(const Call& call) {
    return KMajorOperands(call, /*has_low=*/false).time() + plan(call).time;
  }

 private:
  template <class C>
  static C turned_to(const KMajorOperands& operands, C call) {
    call.a = matrix_of(operands.a, Contiguous::kColumns, call.m, call.k);
    call.b = matrix_of(operands.b, Contiguous::kRows, call.n, call.k);
    return call;
  }
};

}  // namespace ws::gemm
