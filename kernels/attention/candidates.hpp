// What the policies of the Hopper rungs are chosen from, a rung each, so that the tuner measures
// them on the harness. Not in the family's table.
#pragma once

#include "kernels/attention/flash.hpp"

namespace ws::attention {

template <class Policy_>
struct OnlyFlash {
  static constexpr int64_t kMostDim = Policy_::kDim;
  static constexpr const char* kName = "attention/candidate";
  template <class F>
  static void with(int64_t /*dim*/, F&& f) {
    f.template operator()<Policy_>();
  }
};
template <class Policy>
struct FlashCandidate : Flash<OnlyFlash<Policy>> {
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.head_dim == Policy::kDim, "another head dim") &&
           flash_supports(call, Policy::kDim, why);
  }
};

enum Way : uint8_t { kOverlapping = 1, kTurns = 2, kStays = 4, kLazily = 8, kEverything = 15 };

// Head dim, keys of a block, blocks under way, warpgroups, what it does, one in how many
// exponentials is a polynomial.
template <int kDim, int kKeys, int kStages, int kConsumers, int kWay, int kPolynomial = 0>
constexpr Rung flash_candidate(std::string_view name) {
  using Policy =
      FlashPolicy<FlashTile<kDim, kKeys, kStages, kConsumers>, (kWay & kOverlapping) != 0,
                  (kWay & kTurns) != 0, (kWay & kStays) != 0, (kWay & kLazily) != 0, kPolynomial>;
  return rung_of<FlashCandidate<Policy>, DTypes{DType::kBf16}, Attention>(
      {.name = name,
       .idea = "head dim, keys, stages, warpgroups",
       .arch = Arch::kSm90a,
       .may_spill = true});
}

}  // namespace ws::attention
