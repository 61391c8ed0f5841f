// A line in one piece, or in parts that are scanned side by side: what a launch computes of them,
// how parts go on from one another, and the rungs of a way to scan.
#pragma once

#include <algorithm>

#include "kernels/selective_scan/formula.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

// What a launch computes: all of a line; of each part of it its segments; of each part its outputs.
enum class Part { kWhole, kTotals, kResults };

// x -> decay * x + value of a state, [parts, rows, states].
using Segments = Vec<float, 2>;

struct ScanArguments {
  ForwardCall call;
  int64_t row_blocks;
  int64_t part_steps;
  Segments* segments;  // of kWhole none
};

// What a size is multiplied by for a decay as a power of 2.
__device__ __forceinline__ float exponent_of(const ForwardCall& call, int64_t channel, int n) {
  return thread::load(call.a.at<const float>(0, channel) + n * call.a.state) * thread::kLog2E;
}

// The state before the first part; 0 where only what a part does is asked for.
template <Part kPart>
__device__ __forceinline__ float first_state(const ForwardCall& call, int64_t batch,
                                             int64_t channel, int n) {
  if (kPart == Part::kTotals || !call.initial_state.exists) return 0;
  return thread::load(call.initial_state.at<const float>(batch, channel) +
                      n * call.initial_state.state);
}
// The same after one part more.
__device__ __forceinline__ float after_part(const ScanArguments& a, int64_t part, int64_t row,
                                            int n, float x) {
  const Segments segment =
      thread::load(a.segments + (part * a.call.rows() + row) * a.call.states + n);
  return thread::fma(segment[0], x, segment[1]);
}

// A way to scan has Kernel<T, Part>, row_blocks, dynamic_shared and supports of a call, kStretch
// and kRowsOfDevice.
//
// Lines in one piece.
template <class Scan>
struct InOnePiece {
  static bool supports(const ForwardCall& call, Why& why) {
    return Scan::supports(call, why) &&
           why.unless(Scan::row_blocks(call) < int64_t{1} << 31, "takes fewer than 2^31 channels");
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = typename Scan::template Kernel<T, Part::kWhole>;
      const int64_t blocks = Scan::row_blocks(call);
      launch<Kernel>({.blocks = blocks,
                      .threads = Kernel::kThreads,
                      .dynamic_shared = Scan::dynamic_shared(call)},
                     context.stream, {call, blocks, call.length, nullptr});
    });
  }
};

// Lines in parts, as many as fill the device.
template <class Scan>
struct InParts {
  static constexpr int64_t kMostParts = 64;  // that are folded one by one

  static int64_t part_steps(const ForwardCall& call) {
    const int64_t stretches = std::max<int64_t>(divide_up(call.length, Scan::kStretch), 1);
    const int64_t wanted = divide_up(Scan::kRowsOfDevice, std::max<int64_t>(call.rows(), 1));
    const int64_t parts = std::clamp<int64_t>(wanted, 1, std::min(stretches, kMostParts));
    return divide_up(stretches, parts) * Scan::kStretch;
  }
  static int64_t parts(const ForwardCall& call) {
    return std::max<int64_t>(divide_up(call.length, part_steps(call)), 1);
  }
  static bool supports(const ForwardCall& call, Why& why) {
    return Scan::supports(call, why) &&
           why.unless(parts(call) * Scan::row_blocks(call) < int64_t{1} << 31,
                      "takes fewer than 2^31 parts");
  }
  static Workspace workspace(const ForwardCall& call) {
    const int64_t segments = parts(call) * call.rows() * call.states;
    return {.bytes = static_cast<size_t>(segments) * sizeof(Segments)};
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Totals = typename Scan::template Kernel<T, Part::kTotals>;
      using Results = typename Scan::template Kernel<T, Part::kResults>;
      const int64_t row_blocks = Scan::row_blocks(call);
      const Grid grid{.blocks = parts(call) * row_blocks,
                      .threads = Totals::kThreads,
                      .dynamic_shared = Scan::dynamic_shared(call)};
      auto* segments = static_cast<Segments*>(context.workspace);
      launch<Totals>(grid, context.stream, {call, row_blocks, part_steps(call), segments});
      launch<Results>(grid, context.stream, {call, row_blocks, part_steps(call), segments});
    });
  }
};

}  // namespace ws::selective_scan
#endif
