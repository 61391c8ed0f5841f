// Idea: products of 8 bits, at twice the rate. wgmma wants them with K contiguous, which the values
//   have not: two warps transpose each tile of them in shared memory, bytes in registers. Weights
//   are raised by 8, so that e4m3 has them from 2^-9 of the largest on with all of its digits.
// From wgmma_speculative: half the bytes of q, k and v, and half the time of a product; a scale a
//   head. A sum of weights may grow less before it counts as too large: to 448.
// Traffic: wgmma_roles', in bytes half of it.
// Limits: sm_90a; rows, heads and batches 16-byte aligned, D and Dv up to 256, Dv a multiple of 8,
//   a scale above 0. Sums in the tensor core have some 14 bits.
#include "kernels/attention/flash.hpp"

namespace ws::attention {
namespace {

// By this name it is known to spill.
template <class Policy, class Out>
struct WgmmaE4m3Kernel : FlashKernel<e4m3, Policy, Out> {};

struct WgmmaE4m3 {
  static bool supports(const ScaledCall& call, Why& why) { return flash_supports(call, 256, why); }
  static Workspace workspace(const ScaledCall& call) { return Flash<WgmmaE4m3>::workspace(call); }

  static void run(const ScaledCall& call, const Context& context) {
    with_type<kHalves>(call.out_dtype, [&]<class Out>() {
      const auto run = [&]<class Policy>() {
        using Kernel = WgmmaE4m3Kernel<Policy, Out>;
        Kernel::template run<Kernel>(call, "attention/wgmma_e4m3", context);
      };
      const int64_t columns = columns_of(call);
      if (columns > 128) {
        run.template operator()<FlashE4m3Of256>();
      } else if (columns > 64) {
        run.template operator()<FlashE4m3Of128>();
      } else {
        run.template operator()<FlashE4m3Of64>();
      }
    });
  }
};

}  // namespace

extern const Rung kWgmmaE4m3;
constinit const Rung kWgmmaE4m3 = rung_of<WgmmaE4m3, ScaledAttention>({
    .name = "wgmma_e4m3",
    .from = "any",
    .idea = "tensor cores of 8 bits; values transposed in shared memory by two more warps",
    .arch = Arch::kSm90a,
    .may_spill = true,  // a few words where a tile begins, and of those who transpose
});

}  // namespace ws::attention
