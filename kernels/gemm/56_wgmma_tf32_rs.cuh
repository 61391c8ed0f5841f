// Idea: wgmma takes f32 from shared memory along K alone, but A from registers too, and lanes read
//   shared memory as they like. An operand that lies across K is brought by them, 16 words of a
//   lane and slice, while the tensor cores multiply the slice before.
// From wgmma_tf32: no transposed copy of one operand. In nn it is B, and B is no A: so C^T = B^T
//   A^T is computed, and its tiles are turned on their way through shared memory to C.
// Traffic: per 128 x 256 x 32 step a block reads 32 KB from L2; shared memory gives lanes 16 KB,
//   which the tensor cores do not read then. In tn one of two operands is copied, the smaller.
// Limits: sm_90a; calls that allow for tf32; an operand lies across K; its rows and those of C
//   start at multiples of 16 bytes; K > 0.
#pragma once

#include "kernels/gemm/tf32_parts.hpp"

namespace ws::gemm {

// C whose tiles were computed transposed.
template <class T>
struct TransposedOutput {
  using Element = T;
  ptx::TensorMap map;

  // Of a call whose C lies by columns.
  template <class Store>
  static TransposedOutput of(const Call& call) {
    return {Store::transposed_map(call.c.as<const T>(), call.n, call.m, call.c.leading)};
  }
  __device__ __forceinline__ void prefetch() const { ptx::prefetch_tensor_map(map); }
  template <class Store>
  __device__ __forceinline__ void put(Store& store, int row, int column,
                                      const typename Store::Sum* sums) const {
    store.put_transposed(map, row, column, sums);
  }
};

struct WgmmaTf32Rs {
  static bool supports(const Call& call, Why& why) {
    return allows_tf32(call, why) && why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
           runs_supported(call, why) && takes_across(call, why);
  }

  static Workspace workspace(const Call& call) {
    const Call one = across_first(call);
    return tf32_workspace(plan_tf32(one).tiles, b_along(one).bytes());
  }

  static void run(const Call& call, const Context& context) {
    run_in(plan_tf32(across_first(call)).tiles, call, context);
  }
  static void run_in(Tf32Tiles tiles, const Call& call, const Context& context) {
    Call one = across_first(call);
    KMajor b = b_along(one);
    b.make(copies_at(tiles, context.workspace), context.stream);
    one.b = matrix_of(b, Contiguous::kRows, one.n, one.k);
    one.c.contiguous == Contiguous::kColumns ? run_tf32<Contiguous::kRows, TensorOutput<float>>(
                                                   tiles, one, context.workspace, context.stream)
                                             : run_tf32<Contiguous::kRows, TransposedOutput<float>>(
                                                   tiles, one, context.workspace, context.stream);
  }

  // What a call that it takes is thought to take, in us.
  static double time(const Call& call) {
    const Call one = across_first(call);
    return time_along(b_along(one)) + plan_tf32(one).time;
  }
};

}  // namespace ws::gemm
