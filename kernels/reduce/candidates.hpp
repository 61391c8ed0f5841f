// What the policies of one_pass and columns are chosen from, a rung each, so that the tuner
// measures them on the harness: threads of a block x loads of a thread x parts, or blocks of an SM.
// Not in the family's table.
#pragma once

#include "kernels/reduce/15_one_pass.cuh"
#include "kernels/reduce/17_columns.cuh"

namespace ws::reduce {

// Of the sum alone, in two dtypes: the others read the same way.
inline constexpr DTypes kTuned = kF32 | kBf16;

template <int kThreads, int kLoads, int64_t kMostParts>
constexpr Rung one_pass_candidate(std::string_view name) {
  return rung_of<OnePass<OnePassPolicy<kThreads, kLoads, kMostParts>, kTuned>, kTuned, Sum>(
      {.name = name, .idea = "threads of a block x loads of a thread x parts"});
}
template <int kThreads, int kLoads, int kBlocksOfSm>
constexpr Rung columns_candidate(std::string_view name) {
  return rung_of<Columns<ColumnsPolicy<kThreads, kLoads, kBlocksOfSm>, kTuned>, kTuned, Sum>(
      {.name = name, .idea = "threads of a block x rows of a thread x blocks of an SM"});
}

inline constexpr Rung kOnePassCandidates[] = {
    one_pass_candidate<128, 8, 8192>("128x8x8192"), one_pass_candidate<128, 8, 2048>("128x8x2048"),
    one_pass_candidate<256, 4, 8192>("256x4x8192"), one_pass_candidate<256, 4, 2048>("256x4x2048"),
    one_pass_candidate<256, 8, 2048>("256x8x2048"), one_pass_candidate<256, 8, 8192>("256x8x8192"),
    one_pass_candidate<256, 8, 1024>("256x8x1024"), one_pass_candidate<256, 8, 528>("256x8x528"),
    one_pass_candidate<512, 4, 8192>("512x4x8192"), one_pass_candidate<512, 8, 8192>("512x8x8192"),
};
inline constexpr Rung kColumnsCandidates[] = {
    columns_candidate<128, 8, 4>("128x8x4"), columns_candidate<256, 8, 1>("256x8x1"),
    columns_candidate<256, 8, 2>("256x8x2"), columns_candidate<256, 8, 3>("256x8x3"),
    columns_candidate<256, 4, 4>("256x4x4"), columns_candidate<512, 4, 2>("512x4x2"),
    columns_candidate<512, 8, 1>("512x8x1"), columns_candidate<512, 8, 2>("512x8x2"),
};

}  // namespace ws::reduce
