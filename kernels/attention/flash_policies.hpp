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
// way, 64 queries for each of kConsumers_ warpgroups, a sum of ideas, kBlocks_ blocks an SM.
template <int kDim_, int kKeys_, int kStages_, int kConsumers_, int kIdeas_, int kBlocks_ = 1>
struct FlashPolicy {
  static constexpr int kDim = kDim_;
  static constexpr int kKeys = kKeys_;
  static constexpr int kStages = kStages_;
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kBlocks = kBlocks_;
  // kTransposes: values have 8 bits, and some of those that do not multiply transpose them.
  template <bool kTransposes>
  static constexpr int kProducerRegisters = kTransposes        ? 56
                                            : kConsumers_ == 3 ? 32
                                                               : 40;
  template <bool kTransposes>
  static constexpr int kConsumerRegisters =
      kConsumers_ == 3 ? (kTransposes ? 152 : 160) : (kTransposes ? 224 : 232);
  static constexpr bool has(FlashIdea idea) { return (kIdeas_ & idea) != 0; }
};

// H200 2026-11-22, of these beside them: at 64 with 3 warpgroups 80, 96, 112, 128 and 144 keys,
// with 2 or 4 warpgroups 64, 128 and 192; at 128 with 3 warpgroups 48, 64, 72 and 80, with 2 from
// 64 to 176; at 192 64, 80, 96 and 112; at 256 48, 64 and 80. A third warpgroup is worth more than
// larger tiles: at 128 3 % of full, 8 % of causal problems. Turns are worth up to 2 % of full
// problems at 64, and cost 1 to 4 % of causal ones (nobody can run ahead) and 1 % elsewhere.
template <int kIdeas>
using Flash64 = FlashPolicy<64, 128, 3, 3, kIdeas>;
// Half of the tiles of a short causal problem lie on its diagonal: smaller ones are worth 10 % for
// 512 keys, 4 % for 1024, nothing from 2048 on.
template <int kIdeas>
using FlashShort64 = FlashPolicy<64, 64, 6, 3, kIdeas>;
inline constexpr int kMostShortKeys = 1024;
template <int kIdeas>
using Flash128 = FlashPolicy<128, 64, 4, 3, kIdeas>;
template <int kIdeas>
using Flash192 = FlashPolicy<192, 64, 3, 2, kIdeas>;
template <int kIdeas>
using Flash256 = FlashPolicy<256, 64, 2, 2, kIdeas>;

// Of wgmma_blocks. H200 2026-12-03, us (keys, stages, warpgroups, blocks an SM): 32 x 12 heads of
// 197, 64 columns, 29.2; 64, 2, 1, 4 30.5; 128, 1, 1, 3 31.7; 64, 2, 2, 2 31.1. 8 x 16 of 256, 128
// columns, 18.3; 128, 1, 1, 2 20.7; 32, 2, 1, 3 20.0; 64, 2, 2, 1 22.0; 64, 1, 1, 3 22.6, which has
// no warpgroup without queries where there are 64.
using FlashBlocks64 = FlashPolicy<64, 64, 2, 1, kLazy, 5>;
using FlashBlocks128 = FlashPolicy<128, 64, 1, 2, kLazy, 2>;
using FlashBlocksShort128 = FlashPolicy<128, 64, 1, 1, kLazy, 3>;

// Of 8 bits. H200 2026-11-23, beside them: at 64 64 keys, at 128 two warpgroups of 64, 128 and 192
// keys (128 keys are too many registers for three), at 256 two stages. Turns cost 1 to 3 %.
using FlashE4m3Of64 = FlashPolicy<64, 128, 4, 3, kEveryIdea - kTakesTurns>;
using FlashE4m3Of128 = FlashPolicy<128, 64, 6, 3, kEveryIdea - kTakesTurns>;
using FlashE4m3Of256 = FlashPolicy<256, 64, 3, 2, kEveryIdea - kTakesTurns>;

}  // namespace ws::attention
