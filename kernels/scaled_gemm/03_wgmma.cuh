// Idea: wgmma of 8 bits. An instruction takes 32 elements of K in the time of 16 of 16 bits: twice
//   the products a second, from the same bytes of shared memory.
// From any_layout: gemm's warp_specialized with operands of a byte. A stage is 128 of K; scales and
//   bias are applied when a tile is done, while the copies of the next fly.
// Traffic: per 128 x 256 x 128 step a block reads 32 KB from L2, as with 16 bits at half of K.
// Limits: sm_90a; K contiguous in both operands (8-bit wgmma has no other layout), rows at
//   multiples of 16 bytes. Of floats only where use_fast_accum allows for it: the tensor core adds
//   up all of K with some 14 bits.
#pragma once

#include "kernels/scaled_gemm/policies.hpp"
#include "kernels/scaled_gemm/wgmma_parts.hpp"

namespace ws::scaled_gemm {

struct Wgmma {
  static bool supports(const Call& call, Why& why) {
    return is_made(call, why) &&
           why.unless(call.dtype == DType::kI8 || (call.fast && !call.by_blocks),
                      "leaves all sums to the tensor core: needs use_fast_accum, and no scales of "
                      "blocks") &&
           is_k_major(call, why);
  }

  static void run(const Call& call, const Context& context) {
    if (call.dtype == DType::kI8) {
      using Store = tile::WarpStore<int32_t, 1, 32>;
      const auto output = IntegerOutput::of<Store>(call);
      if (prefers<Wide>(call)) {
        launch_wgmma<WgmmaKernel<int8_t, int8_t, Wide, IntegerOutput>>(call, output,
                                                                       context.stream);
      } else {
        launch_wgmma<WgmmaKernel<int8_t, int8_t, Small, IntegerOutput>>(call, output,
                                                                        context.stream);
      }
      return;
    }
    with_pair(call, [&]<class A, class B>() {
      const ScaledOutput output(call);
      launch_wgmma<WgmmaKernel<A, B, Wide, ScaledOutput>>(call, output, context.stream);
    });
  }
};

}  // namespace ws::scaled_gemm
