// What the policies of the Hopper rungs are chosen from, a rung each, so that the tuner measures
// them on the harness. Not in the family's table.
#pragma once

#include "kernels/attention/flash.hpp"

namespace ws::attention {

template <class Policy>
struct OnlyFlash {
  static constexpr int64_t kMostDim = Policy::kDim;
  static constexpr const char* kName = "attention/candidate";
  template <class F>
  static void with(const Call& /*call*/, F&& f) {
    f.template operator()<Policy>();
  }
};
template <class Policy>
struct FlashCandidate : Flash<OnlyFlash<Policy>> {
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.head_dim == Policy::kDim, "another head dim") &&
           flash_supports(call, Policy::kDim, why);
  }
};

// Head dim, keys of a block, blocks under way, warpgroups, ideas.
template <int kDim, int kKeys, int kStages, int kConsumers, int kIdeas>
constexpr Rung flash_candidate(std::string_view name) {
  using Candidate = FlashCandidate<FlashPolicy<kDim, kKeys, kStages, kConsumers, kIdeas>>;
  return rung_of<Candidate, DTypes{DType::kBf16}, Attention>(
      {.name = name,
       .idea = "head dim, keys, stages, warpgroups",
       .arch = Arch::kSm90a,
       .may_spill = true});
}

inline constexpr int kNoTurns = kEveryIdea - kTakesTurns;
inline constexpr Rung kFlashCandidates[] = {
    flash_candidate<64, 128, 3, 3, kEveryIdea>("64_128_3_3_turns"),
    flash_candidate<64, 128, 3, 3, kNoTurns>("64_128_3_3"),
    flash_candidate<64, 64, 6, 3, kNoTurns>("64_64_6_3"),
    flash_candidate<128, 64, 4, 3, kNoTurns>("128_64_4_3"),
    flash_candidate<128, 64, 4, 3, kEveryIdea>("128_64_4_3_turns"),
    flash_candidate<128, 80, 3, 3, kNoTurns>("128_80_3_3"),
    flash_candidate<128, 128, 2, 2, kNoTurns>("128_128_2_2"),
    flash_candidate<192, 64, 3, 2, kNoTurns>("192_64_3_2"),
    flash_candidate<192, 96, 2, 2, kNoTurns>("192_96_2_2"),
    flash_candidate<256, 64, 2, 2, kNoTurns>("256_64_2_2"),
    flash_candidate<256, 80, 2, 2, kNoTurns>("256_80_2_2"),
};

}  // namespace ws::attention
