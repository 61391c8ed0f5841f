// What the policies of the rungs for speed are chosen from, a rung each, so that the tuner measures
// them on the harness. Not in the family's table.
#pragma once

#include "kernels/gemv/06_several_rows.cuh"
#include "kernels/gemv/07_short_rows.cuh"
#include "kernels/gemv/08_split_rows.cuh"
#include "kernels/gemv/13_shifted_columns.cuh"

namespace ws::gemv {

// bf16 moves as f16 does, with a cheaper conversion.
inline constexpr DTypes kTuned = {DType::kF32, DType::kF16};

template <class Struct>
constexpr Rung candidate(std::string_view name, std::string_view idea) {
  return rung_of<Struct, kTuned, Gemv>({.name = name, .idea = idea, .may_spill = true});
}
template <int kThreads, int kRows, int kVectors, int kMinBlocks, Cache kCache = Cache::kDefault>
constexpr Rung several_rows_candidate(std::string_view name) {
  return candidate<SeveralRows<SeveralRowsPolicy<kThreads, kRows, kVectors, kMinBlocks, kCache>>>(
      name, "threads x rows of a warp x vectors of each, blocks of an SM");
}
template <int kThreads, int kRows>
constexpr Rung short_rows_candidate(std::string_view name) {
  return candidate<ShortRows<ShortRowsPolicy<kThreads, kRows>>>(name, "threads x rows of each");
}
template <int kThreads, int kMostRows, int kLoads, int kBlocksOfSm>
constexpr Rung split_rows_candidate(std::string_view name) {
  return candidate<SplitRows<SplitRowsPolicy<kThreads, kMostRows, kLoads, kBlocksOfSm>>>(
      name, "threads x rows of a block x loads of a thread, blocks of an SM");
}
template <int kThreads, int kLoads, int kBlocksOfSm, int kLeastAcross>
constexpr Rung split_columns_candidate(std::string_view name) {
  return candidate<SplitColumns<SplitColumnsPolicy<kThreads, kLoads, kBlocksOfSm, kLeastAcross>>>(
      name, "threads x rows of each in flight, blocks of an SM, fewest threads side by side");
}
template <int kThreads, int kLoads, int kBlocksOfSm, int kLeastAcross>
constexpr Rung shifted_columns_candidate(std::string_view name) {
  return candidate<ShiftedColumns<SplitColumnsPolicy<kThreads, kLoads, kBlocksOfSm, kLeastAcross>>>(
      name, "threads x rows of each in flight, blocks of an SM, fewest threads side by side");
}

inline constexpr Rung kSeveralRowsCandidates[] = {
    several_rows_candidate<128, 4, 4, 4>("128x4x4_4"),
    several_rows_candidate<128, 4, 2, 4>("128x4x2_4"),
    several_rows_candidate<128, 2, 4, 4>("128x2x4_4"),
    several_rows_candidate<128, 2, 8, 4>("128x2x8_4"),
    several_rows_candidate<128, 1, 8, 4>("128x1x8_4"),
    several_rows_candidate<128, 8, 2, 3>("128x8x2_3"),
    several_rows_candidate<256, 4, 2, 2>("256x4x2_2"),
    several_rows_candidate<256, 2, 4, 2>("256x2x4_2"),
    several_rows_candidate<64, 4, 4, 8>("64x4x4_8"),
    several_rows_candidate<128, 4, 4, 4, Cache::kStreaming>("128x4x4_4_streaming"),
    several_rows_candidate<128, 4, 4, 4, Cache::kReadOnly>("128x4x4_4_read_only"),
};
inline constexpr Rung kShortRowsCandidates[] = {
    short_rows_candidate<256, 8>("256x8"),   short_rows_candidate<256, 4>("256x4"),
    short_rows_candidate<128, 8>("128x8"),   short_rows_candidate<128, 4>("128x4"),
    short_rows_candidate<256, 16>("256x16"), short_rows_candidate<512, 4>("512x4"),
};
inline constexpr Rung kSplitRowsCandidates[] = {
    split_rows_candidate<256, 4, 8, 3>("256x4x8_3"),
    split_rows_candidate<256, 4, 8, 2>("256x4x8_2"),
    split_rows_candidate<256, 4, 8, 4>("256x4x8_4"),
    split_rows_candidate<128, 4, 8, 6>("128x4x8_6"),
    split_rows_candidate<512, 4, 8, 1>("512x4x8_1"),
    split_rows_candidate<256, 4, 16, 1>("256x4x16_1"),
    split_rows_candidate<256, 4, 16, 2>("256x4x16_2"),
    split_rows_candidate<256, 2, 8, 3>("256x2x8_3"),
    split_rows_candidate<256, 8, 8, 3>("256x8x8_3"),
};
inline constexpr Rung kSplitColumnsCandidates[] = {
    split_columns_candidate<512, 8, 1, 4>("512x8_1_4"),
    split_columns_candidate<512, 8, 1, 8>("512x8_1_8"),
    split_columns_candidate<512, 8, 1, 32>("512x8_1_32"),
    split_columns_candidate<512, 4, 2, 4>("512x4_2_4"),
    split_columns_candidate<256, 8, 2, 2>("256x8_2_2"),
    split_columns_candidate<256, 8, 2, 4>("256x8_2_4"),
    split_columns_candidate<256, 8, 2, 32>("256x8_2_32"),
    split_columns_candidate<256, 16, 1, 4>("256x16_1_4"),
    split_columns_candidate<1024, 4, 1, 4>("1024x4_1_4"),
};
inline constexpr Rung kShiftedColumnsCandidates[] = {
    shifted_columns_candidate<512, 8, 1, 4>("512x8_1_4"),
    shifted_columns_candidate<512, 8, 1, 8>("512x8_1_8"),
    shifted_columns_candidate<512, 8, 2, 4>("512x8_2_4"),
    shifted_columns_candidate<512, 4, 2, 4>("512x4_2_4"),
    shifted_columns_candidate<256, 8, 2, 4>("256x8_2_4"),
    shifted_columns_candidate<256, 8, 2, 8>("256x8_2_8"),
    shifted_columns_candidate<256, 8, 4, 4>("256x8_4_4"),
    shifted_columns_candidate<256, 8, 4, 16>("256x8_4_16"),
    shifted_columns_candidate<256, 16, 2, 8>("256x16_2_8"),
};

}  // namespace ws::gemv
