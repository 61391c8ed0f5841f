// Idea: a line is cut into parts, over as many warps as the device holds: each part's segments,
// then each part's outputs from the state that the parts before it leave.
// From warp_scan: few long channels keep all SMs busy. Two launches, no waiting: a part folds the
// segments before it by itself, in their order, so that bits do not depend on who was quick.
// Traffic: delta, u and b twice, 8 bytes a state and part.
// Limits: exponentials twice: for where there are too few channels, not for many.
#include <algorithm>

#include "kernels/selective_scan/line_scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {
namespace {

struct Chunked {
  using Policy = LinePolicy<WarpTeam<1>, 4, 1, 8, InVectors>;
  // Warps that fill a large device, and parts that are folded one by one at most.
  static constexpr int64_t kWarps = 132 * 16;
  static constexpr int64_t kMostParts = 64;

  static int64_t part_steps(const ForwardCall& call) {
    const int64_t stretch = Policy::kStretch;
    const int64_t stretches = std::max<int64_t>(divide_up(call.length, stretch), 1);
    const int64_t wanted = divide_up(kWarps, std::max<int64_t>(call.rows(), 1));
    const int64_t parts = std::clamp<int64_t>(wanted, 1, std::min(stretches, kMostParts));
    return divide_up(stretches, parts) * stretch;
  }
  static int64_t parts(const ForwardCall& call) {
    return std::max<int64_t>(divide_up(call.length, part_steps(call)), 1);
  }
  static bool supports(const ForwardCall& call, Why& why) {
    return LineScan<Policy>::supports(call, why) &&
           why.unless(parts(call) * Policy::row_blocks(call) < int64_t{1} << 31,
                      "takes fewer than 2^31 parts");
  }
  static Workspace workspace(const ForwardCall& call) {
    const int64_t segments = parts(call) * call.rows() * call.states;
    return {.bytes = static_cast<size_t>(segments) * sizeof(Segments)};
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Totals = LineScanKernel<T, Policy, Part::kTotals>;
      using Results = LineScanKernel<T, Policy, Part::kResults>;
      const int64_t row_blocks = Policy::row_blocks(call);
      const Grid grid{.blocks = parts(call) * row_blocks, .threads = Totals::kThreads};
      auto* segments = static_cast<Segments*>(context.workspace);
      launch<Totals>(grid, context.stream, {call, row_blocks, part_steps(call), segments});
      launch<Results>(grid, context.stream, {call, row_blocks, part_steps(call), segments});
    });
  }
};

}  // namespace

extern const Rung kChunked;
const Rung kChunked = rung_of<Chunked, SelectiveScan>(
    {.name = "chunked",
     .from = "warp_scan",
     .idea = "parts of a line side by side: their segments, then their outputs"});

}  // namespace ws::selective_scan
#endif
