// Idea: rows of the tile 33 elements apart: a column of it lies in 32 banks.
// From shared_col2row, shared_row2col: the one number. Elements of 1 and 2 bytes share a bank by
//   fours and twos, and still meet.
// Traffic: as before; no bank conflicts for elements of 4 and 8 bytes.
// Limits: as shared_col2row and shared_row2col.
#pragma once

#include "kernels/transpose/07_shared.cuh"

namespace ws::transpose {

#if WS_DEVICE_CODE
inline constexpr Seed kPaddedCol2rowSeeds[] = {
    {"{}_f32x4_shared_bcf_col2row2d", {}, {DType::kF32}}};
inline constexpr Rung kPaddedCol2row = rung_of<SharedTile<Side::kX, 33, false>, Transpose>({
    .name = "padded_col2row",
    .from = "shared_col2row",
    .idea = "rows of the tile 33 elements apart: no two lanes in a bank",
    .seeds = kPaddedCol2rowSeeds,
    .file = "08_padded.cuh",
});

inline constexpr Seed kPaddedRow2colSeeds[] = {
    {"{}_f32x4_shared_bcf_row2col2d", {}, {DType::kF32}}};
inline constexpr Rung kPaddedRow2col = rung_of<SharedTile<Side::kY, 33, false>, Transpose>({
    .name = "padded_row2col",
    .from = "shared_row2col",
    .idea = "the same where the tile lies as y does",
    .seeds = kPaddedRow2colSeeds,
    .file = "08_padded.cuh",
});
#endif

}  // namespace ws::transpose
