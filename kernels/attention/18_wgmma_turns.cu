// Idea: warpgroups issue their products in turns (named barriers), so that they come apart: one has
//   its softmax while another multiplies, which FlashAttention-3 calls pingpong.
// From wgmma_overlap: left alone they multiply at once and have their softmax at once.
// Traffic: wgmma_roles'.
// Limits: wgmma_roles'.
#include "kernels/attention/flash.hpp"

namespace ws::attention {
namespace {

struct WgmmaTurns : FlashRule<kOverlaps | kTakesTurns> {
  static constexpr const char* kName = "attention/wgmma_turns";
};

}  // namespace

extern const Rung kWgmmaTurns;
constinit const Rung kWgmmaTurns =
    rung_of<Flash<WgmmaTurns>, DTypes{DType::kBf16}, Attention, AttentionVarlen>({
        .name = "wgmma_turns",
        .from = "wgmma_overlap",
        .idea =
            "warpgroups take turns to multiply: one has its softmax under the products of another",
        .arch = Arch::kSm90a,
    });

}  // namespace ws::attention
