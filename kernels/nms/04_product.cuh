// Idea: no division: inter > threshold * union, in a way that decides as the rounded quotient does
//   (boxes.hpp says why), and for pairs that have something in common alone.
// From tile_sweep: a division is some ten instructions and a branch, for each pair; most pairs have
// nothing in common, and of the others f64 has an exact product.
// Traffic: that of tile_sweep.
// Limits: those of tile_sweep. GPUs that compute little in f64 take that for the pairs that meet.
#pragma once

#include "kernels/nms/03_tile_sweep.cuh"

namespace ws::nms {

inline constexpr Rung kProduct = rung_of<Tiled<Product>, NmsIndices>({
    .name = "product",
    .from = "tile_sweep",
    .idea = "an exact product in f64 in the place of a division, where boxes meet at all",
});

}  // namespace ws::nms
