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
    return why.unless(leaves_sums(call),
                      "leaves all sums to the tensor core: needs use_fast_accum, and no scales of "
                      "blocks") &&
           is_k_major(call, why);
  }

  // In a unit of its own: `realigned` calls it too.
  static void run(const Call& call, const Context& context);
};

}  // namespace ws::scaled_gemm
