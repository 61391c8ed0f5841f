// Idea: wgmma takes f32 from shared memory along K alone, but A from registers too, and lanes read
//   shared memory as they like. An operand that lies across K is brought by them, 16 words of a
//   lane and slice, while the tensor cores multiply the slice before.
// From wgmma_tf32: no transposed copy of one operand. In nn it is B, and B is no A: so C^T = B^T
//   A^T is computed, and its tiles are turned on their way through shared memory to C.
// Traffic: per 128 x 256 x 32 step a block reads 32 KB from L2; shared memory gives lanes 16 KB
// that
//   the tensor cores do not read then. In tn one of two operands still is copied, the smaller.
// Limits: sm_90a; calls that allow for tf32; an operand lies across K; its rows and those of C
//   start at multiples of 16 bytes; K > 0.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
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
    return {.bytes = b_along(across_first(call)).bytes()};
  }

  static void run(const Call& call, const Context& context) {
    Call one = across_first(call);
    KMajor b = b_along(one);
    b.make(context.workspace, context.stream);
    one.b = matrix_of(b, Contiguous::kRows, one.n, one.k);
    const int blocks = device_facts().multiprocessors;
    takes_big_tile(one) ? run_tiles<WgmmaBig>(one, blocks, context.stream)
                        : run_tiles<Wgmma128>(one, blocks, context.stream);
  }

  // Of a call whose A lies across K, its B along it.
  template <class Policy>
  static void run_tiles(const Call& one, int blocks, Stream stream) {
    const auto run_with = [&]<class Output>() {
      WarpSpecializedKernel<float, Contiguous::kRows, Contiguous::kRows, Policy, WholeTiles,
                            Output>::run(one, blocks, stream);
    };
    one.c.contiguous == Contiguous::kColumns
        ? run_with.template operator()<TensorOutput<float>>()
        : run_with.template operator()<TransposedOutput<float>>();
  }

  // What a call that it takes is thought to take, in us.
  static double time(const Call& call) {
    const Call one = across_first(call);
    return time_along(b_along(one)) +
           std::min(tf32_tiles_time<WgmmaBig>(one), tf32_tiles_time<Wgmma128>(one));
  }
};

}  // namespace ws::gemm
