// Idea: a maximum that is a little too low does no harm: weights up to 2^8 are as precise as those
//   up to 1. So sums are scaled only where a maximum has grown by more than that.
// From wgmma_persistent: of some 7 instructions a score one is gone, and the wait for it.
// Traffic: wgmma_roles'.
// Limits: wgmma_roles'.
#include "kernels/attention/flash.hpp"

namespace ws::attention {
namespace {

struct WgmmaLazy : FlashRule<kOverlaps | kTakesTurns | kPersistent | kLazy> {
  static constexpr const char* kName = "attention/wgmma_lazy";
};

}  // namespace

extern const Rung kWgmmaLazy;
constinit const Rung kWgmmaLazy =
    rung_of<Flash<WgmmaLazy>, DTypes{DType::kBf16}, Attention, AttentionVarlen>({
        .name = "wgmma_lazy",
        .from = "wgmma_persistent",
        .idea = "sums are scaled where a maximum has grown much, not with each block of keys",
        .arch = Arch::kSm90a,
    });

}  // namespace ws::attention
