// What compact_front's policies were chosen from, a rung each, so that the tuner measures them on
// the harness: threads of a block x loads of a thread. Not in the family's table.
#pragma once

#include "kernels/elementwise/03_compact_front.cuh"

namespace ws::elementwise {

// For one operation of one input and one of two: the others only compute more.
template <int kThreads, int kLoads>
constexpr Rung front_candidate(std::string_view name) {
  using Policy = Front<kThreads, kLoads>;
  return rung_of<CompactFront<Policy, Policy>, Relu, Add>(
      {.name = name, .idea = "threads of a block x loads of a thread", .may_spill = true});
}

inline constexpr Rung kFrontCandidates[] = {
    front_candidate<128, 1>("128x1"), front_candidate<128, 2>("128x2"),
    front_candidate<128, 4>("128x4"), front_candidate<256, 1>("256x1"),
    front_candidate<256, 2>("256x2"), front_candidate<256, 4>("256x4"),
    front_candidate<512, 1>("512x1"), front_candidate<512, 2>("512x2"),
};

}  // namespace ws::elementwise
