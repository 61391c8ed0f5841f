// Idea: the maximum is guessed. Weights are raised by that of the keys before, and their sum tells
//   whether they are too large; then, which is rare, the scores are multiplied once more.
// From wgmma_lazy: finding the maximum (an instruction a score and four shuffles, all before the
//   first exponential) is gone from blocks that all queries see whole.
// Traffic: wgmma_roles'.
// Limits: sm_90a; f16 and bf16; rows, heads and batches 16-byte aligned, D and Dv up to 256, Dv a
//   multiple of 8; no bias, ALiBi, sinks, softcap or pages; a scale above 0.
#include "kernels/attention/flash.hpp"

namespace ws::attention {
namespace {

struct WgmmaSpeculative : SpeculativeRule {
  static constexpr const char* kName = "attention/wgmma_speculative";
};

}  // namespace

extern const Rung kWgmmaSpeculative;
constinit const Rung kWgmmaSpeculative =
    rung_of<Flash<WgmmaSpeculative>, kHalves, Attention, AttentionVarlen>({
        .name = "wgmma_speculative",
        .from = "wgmma_lazy",
        .idea = "weights by the maximum of the keys before, looked at afterwards",
        .arch = Arch::kSm90a,
    });

}  // namespace ws::attention
