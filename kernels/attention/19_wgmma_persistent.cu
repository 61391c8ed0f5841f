// Idea: a block an SM, which draws tiles from a counter, the longest first, each when the copies of
//   the last are issued: start, first copies and stores of a tile lie under products of another.
// From wgmma_turns: of causal tiles none is begun last that takes long.
// Traffic: wgmma_roles'; the heads of a section are read by several blocks at a time, from L2.
// Limits: wgmma_roles'; four bytes of workspace.
#include "kernels/attention/flash.hpp"

namespace ws::attention {
namespace {

struct WgmmaPersistent : FlashRule<kOverlaps | kTakesTurns | kPersistent> {
  static constexpr const char* kName = "attention/wgmma_persistent";
};

}  // namespace

extern const Rung kWgmmaPersistent;
constinit const Rung kWgmmaPersistent =
    rung_of<Flash<WgmmaPersistent>, DTypes{DType::kBf16}, Attention, AttentionVarlen>({
        .name = "wgmma_persistent",
        .from = "wgmma_turns",
        .idea =
            "a block draws tile after tile, the longest first; the next one's queries come early",
        .arch = Arch::kSm90a,
    });

}  // namespace ws::attention
