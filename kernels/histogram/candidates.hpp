// What the policies of streamed and bytes are chosen from, a rung each, so that the tuner measures
// them on the harness: threads of a block x blocks of an SM x loads of a thread. Not in the
// family's table.
#pragma once

#include "kernels/histogram/05_streamed.cuh"
#include "kernels/histogram/06_bytes.cuh"

namespace ws::histogram {

template <int kThreads, int kBlocks, int kLoads>
constexpr Rung streamed_candidate(std::string_view name) {
  using Policy = StreamedPolicy<kThreads, kBlocks, kLoads>;
  return rung_of<Streamed<Policy>, DTypes{DType::kI32}, CountBins>(
      {.name = name, .idea = "threads of a block x blocks of an SM x loads of a thread"});
}
template <int kThreads, int kBlocks, int kLoads>
constexpr Rung bytes_candidate(std::string_view name) {
  using Policy = StreamedPolicy<kThreads, kBlocks, kLoads>;
  return rung_of<Bytes<Policy>, DTypes{DType::kU8}, CountBins>(
      {.name = name, .idea = "threads of a block x blocks of an SM x loads of a thread"});
}

inline constexpr Rung kStreamedCandidates[] = {
    streamed_candidate<256, 6, 4>("256x6x4"),   streamed_candidate<512, 2, 4>("512x2x4"),
    streamed_candidate<512, 3, 2>("512x3x2"),   streamed_candidate<512, 3, 4>("512x3x4"),
    streamed_candidate<1024, 1, 4>("1024x1x4"),
};
inline constexpr Rung kBytesCandidates[] = {
    bytes_candidate<256, 4, 4>("256x4x4"),
    bytes_candidate<512, 2, 2>("512x2x2"),
    bytes_candidate<512, 2, 4>("512x2x4"),
    bytes_candidate<1024, 1, 4>("1024x1x4"),
};

}  // namespace ws::histogram
