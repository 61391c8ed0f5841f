// The policies of compact_front, which rungs of other families take too.
#pragma once

namespace ws::elementwise {

// Threads of a block, loads of a thread.
template <int kThreadCount, int kLoadCount>
struct Front {
  static constexpr int kThreads = kThreadCount;
  static constexpr int kLoads = kLoadCount;
};

// candidates.hpp has what they were chosen from.
using OneInput = Front<128, 2>;   // H200 2026-11-21, gelu f16 16384 x 4096: 99.5 % of copy
using TwoInputs = Front<256, 1>;  // H200 2026-11-21, add f16 16384 x 4096: 104.3 % of copy
}  // namespace ws::elementwise
