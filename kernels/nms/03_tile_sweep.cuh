// Idea: 64 boxes a step. Which of them the boxes kept so far suppress, 1024 threads tell with one
//   word each; which of them suppress one another, a warp tells by ballots.
// From pair_mask: two barriers for 64 boxes, not for each that is kept, and no order to follow
// between the words of a step; half the pairs are never looked at.
// Traffic: N^2 / 16 bytes of bits, written by all SMs and read by one.
// Limits: up to 131072 boxes, for which the bits take 1 GiB.
#pragma once

#include "kernels/nms/tiles.hpp"

namespace ws::nms {

template <class Test>
struct Tiled {
  static bool supports(const Call& call, Why& why) { return is_tiled(call, why); }
  static Workspace workspace(const Call& call) {
    return {.bytes = Sorted::bytes(call, words_of_tiles(call))};
  }
  static void run(const Call& call, const Context& context) {
    const Sorted sorted(call, context.workspace);
    sort_by_ranks(call, sorted, context.stream);
    run_tiles<Test>(call, sorted, context.stream);
  }
};

inline constexpr Rung kTileSweep = rung_of<Tiled<Quotient>, NmsIndices>({
    .name = "tile_sweep",
    .from = "pair_mask",
    .idea = "64 boxes a step: suppressed by earlier ones, then, by ballots, by one another",
});

}  // namespace ws::nms
