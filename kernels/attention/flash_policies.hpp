// Tuned constants of the Hopper rungs.
#pragma once

namespace ws::attention {

// What the kernel does beyond copying, multiplying and weighing; a sum.
enum FlashIdea : int {
  kOverlaps = 1,     // scores of the next keys are multiplied under the softmax of these
  kTakesTurns = 2,   // one warpgroup multiplies while the others have their softmax ("pingpong")
  kPersistent = 4,   // a block draws tile after tile: copies and stores of two tiles overlap
  kLazy = 8,         // sums are scaled where a maximum has grown much, not with each block of keys
  kSpeculates = 16,  // weights are those by the old maximum, and looked at afterwards
  kEveryIdea = 31
};

// kDim_ columns of q, k and v, kKeys_ keys a block, kStages_ blocks of keys and of values under
// way, 64 queries for each of kConsumers_ warpgroups, a sum of ideas.
template <int kDim_, int kKeys_, int kStages_, int kConsumers_, int kIdeas_>
struct FlashPolicy {
  static constexpr int kDim = kDim_;
  static constexpr int kKeys = kKeys_;
  static constexpr int kStages = kStages_;
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kProducerRegisters = kConsumers_ == 3 ? 32 : 40;
  static constexpr int kConsumerRegisters = kConsumers_ == 3 ? 160 : 232;
  static constexpr bool has(FlashIdea idea) { return (kIdeas_ & idea) != 0; }
};

// H200 2026-11-22: of 3 warpgroups with 96, 112, 128 or 144 keys and of 2 with 128 or 192 the
// fastest at 64; of 96, 112, 128, 144, 160 and 176 keys at 128; of 64 and 80 at 256. Turns are
// worth 6 % at 64 and cost 1 % at 128.
template <int kIdeas>
using Flash64 = FlashPolicy<64, 128, 3, 3, kIdeas>;
template <int kIdeas>
using Flash128 = FlashPolicy<128, 128, 2, 2, kIdeas>;
template <int kIdeas>
using Flash192 = FlashPolicy<192, 96, 2, 2, kIdeas>;
template <int kIdeas>
using Flash256 = FlashPolicy<256, 64, 2, 2, kIdeas>;

}  // namespace ws::attention
