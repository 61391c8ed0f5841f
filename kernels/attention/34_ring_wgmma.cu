// Idea: the merge is the kernel's last act. What a tile of queries has gathered is still in
//   registers, in f32, when what was met before is read, weighed by both lse and written: there is
//   no kernel that merges, and no part of 16 bits.
// From wgmma_speculative: out is read and written by lanes, 32 bytes of a row by four of them, and
//   not staged: a block has more shared memory than it needs.
// Traffic: wgmma_speculative's; out, of f32, read and written: 8 Sq Dv bytes a head.
// Limits: sm_90a; rows, heads and batches 16-byte aligned, D and Dv up to 256, Dv a multiple of 8,
//   a scale above 0.
#include "kernels/attention/flash.hpp"
#include "kernels/attention/ring.hpp"

namespace ws::attention {
namespace {

struct RingWgmma {
  static bool supports(const RingCall& call, Why& why) {
    return flash_supports(call, SpeculativeRule::kMostDim, why);
  }
  static Workspace workspace(const RingCall& call) {
    return Flash<SpeculativeRule>::workspace(call);
  }
  static void run(const RingCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      SpeculativeRule::with(call, [&]<class Policy>() {
        FlashKernel<T, Policy, float, true>::run(call, "attention/ring_wgmma", context);
      });
    });
  }
};

}  // namespace

extern const Rung kRingWgmma;
constinit const Rung kRingWgmma = rung_of<RingWgmma, kHalves, RingAttentionStep>({
    .name = "ring_wgmma",
    .from = "ring_any",
    .idea = "Hopper's attention, whose last act is the merge: in f32, from registers",
    .arch = Arch::kSm90a,
});

}  // namespace ws::attention
