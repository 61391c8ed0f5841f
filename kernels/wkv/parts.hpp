// How lines are cut into parts, one after the other, which threads walk side by side.
#pragma once

#include <algorithm>

#include "kernels/wkv/operations.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::wkv {

// Each part is folded by all behind it, one by one: what there are too many of is no gain.
struct Parts {
  static constexpr int64_t kThreads = 128;
  static constexpr int64_t kWanted = 132 * 1536;  // threads that fill a large device
  static constexpr int64_t kLeastSteps = 16;      // of a part
  static constexpr int64_t kMost = 128;

  int64_t lines = 0;
  int64_t steps = 0;   // of a part
  int64_t count = 1;   // of parts
  int64_t blocks = 0;  // of a part

  Parts() = default;
  explicit Parts(const Inputs& call) : lines(call.lines()) {
    const int64_t wanted = divide_up(kWanted, std::max<int64_t>(lines, 1));
    const int64_t most = std::clamp<int64_t>(call.length / kLeastSteps, 1, kMost);
    steps = std::max<int64_t>(divide_up(call.length, std::min(wanted, most)), 1);
    count = std::max<int64_t>(divide_up(call.length, steps), 1);
    blocks = divide_up(lines, kThreads);
  }
};

}  // namespace ws::wkv
