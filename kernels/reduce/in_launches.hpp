// The sum of a whole tensor in several launches, for the rungs that tell the classic sequence: each
// launch leaves a sum a block, until one is left.
#pragma once

#include "kernels/reduce/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

#if WS_DEVICE_CODE
namespace ws::reduce {

struct SumArguments {
  const float* x;
  float* sums;  // one of each block
  int64_t count;
};

// Kernel::kPerBlock elements a block, in at most Kernel::kMostBlocks blocks.
template <class Kernel>
struct SumInLaunches {
  static int64_t blocks(int64_t count) {
    return std::min<int64_t>(divide_up(count, Kernel::kPerBlock), Kernel::kMostBlocks);
  }
  static bool supports(const Sum::Call& call, Why& why) {
    return why.unless(call.has_rows() && call.outputs == 1 && call.output_dtype == DType::kF32,
                      "adds up all elements of a tensor without gaps");
  }
  static Workspace workspace(const Sum::Call& call) {
    size_t sums = 0;
    for (int64_t left = blocks(call.count); left > 1; left = blocks(left)) {
      sums += static_cast<size_t>(round_up(left, int64_t{64}));
    }
    return {.bytes = sums * sizeof(float)};
  }
  static void run(const Sum::Call& call, const Context& context) {
    const float* x = call.input<float>(0);
    auto* sums = static_cast<float*>(context.workspace);
    int64_t count = call.count;
    for (;;) {
      const int64_t left = blocks(count);
      float* to = left == 1 ? static_cast<float*>(call.output) : sums;
      launch<Kernel>({.blocks = left, .threads = Kernel::kThreads}, context.stream, {x, to, count});
      if (left == 1) return;
      x = sums;
      count = left;
      sums += round_up(left, int64_t{64});
    }
  }
};

inline constexpr int64_t kAnyBlocks = 0x7FFFFFFF;  // as many as a launch may have

}  // namespace ws::reduce
#endif
