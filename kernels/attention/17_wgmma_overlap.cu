// Idea: a warpgroup issues the scores of the next keys together with the sums of the last, and has
//   its softmax while the latter are under way.
// From wgmma_roles: tensor cores no longer wait for exponentials of their own warpgroup.
// Traffic: wgmma_roles'.
// Limits: wgmma_roles'; a second set of weights takes 32 registers.
#include "kernels/attention/flash.hpp"

namespace ws::attention {
namespace {

struct WgmmaOverlap : FlashRule<kOverlaps> {
  static constexpr const char* kName = "attention/wgmma_overlap";
};

}  // namespace

extern const Rung kWgmmaOverlap;
constinit const Rung kWgmmaOverlap =
    rung_of<Flash<WgmmaOverlap>, DTypes{DType::kBf16}, Attention, AttentionVarlen>({
        .name = "wgmma_overlap",
        .from = "wgmma_roles",
        .idea = "the scores of the next keys are multiplied before the softmax of these",
        .arch = Arch::kSm90a,
    });

}  // namespace ws::attention
