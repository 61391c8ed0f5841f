// Idea: squares in diagonal order: blocks that run together write rows of y that lie in different
//   channels of memory, where a matrix's width is a multiple of what tells channels apart.
// From row2col_2d: GPUs of 2009 chose a channel by few bits of an address ("partition camping").
//   Newer ones hash all of them, so that the order should be worth nothing, and reuse of lines
//   less.
// Traffic: as row2col_2d.
// Limits: one dense matrix.
#pragma once

#include "kernels/transpose/03_blocks_2d.cuh"

namespace ws::transpose {

#if WS_DEVICE_CODE
inline constexpr Seed kDiagonal2dSeeds[] = {{"{}_f32_diagonal2d", {}, {DType::kF32}}};
inline constexpr Rung kDiagonal2d =
    rung_of<Blocks2d<Side::kY, true>, Transpose>({.name = "diagonal_2d",
                                                  .from = "row2col_2d",
                                                  .idea = "squares in diagonal order",
                                                  .seeds = kDiagonal2dSeeds});
#endif

}  // namespace ws::transpose
