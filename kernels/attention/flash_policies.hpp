// Tuned constants of the Hopper rungs.
#pragma once

namespace ws::attention {

// kDim_ columns of q, k and v, kKeys_ keys a block, kStages_ blocks of keys and of values under
// way, 64 queries for each of kConsumers_ warpgroups.
template <int kDim_, int kKeys_, int kStages_, int kConsumers_>
struct FlashTile {
  static constexpr int kDim = kDim_;
  static constexpr int kKeys = kKeys_;
  static constexpr int kStages = kStages_;
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kProducerRegisters = kConsumers_ == 3 ? 32 : 40;
  static constexpr int kConsumerRegisters = kConsumers_ == 3 ? 160 : 232;
};

// How the kernel works on it; see flash_kernel.hpp.
template <class Tile, bool kOverlaps_, bool kTakesTurns_, bool kPersistent_, bool kLazy_,
          int kPolynomial_ = 0>
struct FlashPolicy : Tile {
  static constexpr bool kOverlaps = kOverlaps_;
  static constexpr bool kTakesTurns = kTakesTurns_;
  static constexpr bool kPersistent = kPersistent_;
  static constexpr bool kLazy = kLazy_;
  static constexpr int kPolynomial = kPolynomial_;  // 0: none
};

using Flash64 = FlashTile<64, 128, 2, 3>;
using Flash128 = FlashTile<128, 128, 2, 2>;
using Flash256 = FlashTile<256, 80, 2, 2>;

}  // namespace ws::attention
