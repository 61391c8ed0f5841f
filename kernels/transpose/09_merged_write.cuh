// Idea: four elements of a row of y from the tile, one store.
// From padded_row2col: a quarter of the stores. Rows of 33 elements begin at no multiple of 16
//   bytes, so that the tile is read one element at a time: padding and wide accesses exclude each
//   other.
// Traffic: every byte once.
// Limits: one dense matrix, rows in fours.
#pragma once

#include "kernels/transpose/08_padded.cuh"

namespace ws::transpose {

#if WS_DEVICE_CODE
inline constexpr Seed kMergedWriteSeeds[] = {
    {"{}_f32x4_shared_bcf_merge_write_row2col2d", {}, {DType::kF32}}};
inline constexpr Rung kMergedWrite = rung_of<SharedTile<Side::kY, 33, true>, Transpose>({
    .name = "merged_write",
    .from = "padded_row2col",
    .idea = "four elements of y a store",
    .seeds = kMergedWriteSeeds,
});
#endif

}  // namespace ws::transpose
