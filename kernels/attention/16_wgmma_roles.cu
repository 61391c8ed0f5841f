// Idea: wgmma. A warp copies queries, keys and values (TMA); a warpgroup has 64 queries, of which
//   scores, weights and sums stay in its registers: accumulators lie as the A operand does.
// From mma_flash: the tensor cores read keys and values where the copies landed; no thread moves
//   them.
// Traffic: a block of 192 queries reads all keys and values that they see once, from L2.
// Limits: sm_90a, bf16; rows, heads and batches 16-byte aligned, D and Dv up to 128, Dv a multiple
//   of 8; no bias, ALiBi, sinks, softcap or pages; a scale above 0.
#include "kernels/attention/flash.hpp"

namespace ws::attention {
namespace {

struct WgmmaRoles : FlashRule<0> {
  static constexpr const char* kName = "attention/wgmma_roles";
};

}  // namespace

extern const Rung kWgmmaRoles;
constinit const Rung kWgmmaRoles =
    rung_of<Flash<WgmmaRoles>, DTypes{DType::kBf16}, Attention, AttentionVarlen>({
        .name = "wgmma_roles",
        .from = "mma_flash",
        .idea = "a warp copies, warpgroups multiply: scores, weights and what is gathered stay in "
                "registers",
        .arch = Arch::kSm90a,
    });

}  // namespace ws::attention
