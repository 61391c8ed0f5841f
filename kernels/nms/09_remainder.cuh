// Idea: what is left of the intersection, the threshold's share of the union taken off, in one
//   multiply-add of f32: exact where it decides (boxes.hpp says why).
// From relay: two conversions to f64 cost sixteen instructions of f32, and more on a GPU that has
// little f64; some boxes of a warp meet a rival in two of five cases.
// Traffic: that of relay.
// Limits: those of relay.
#pragma once

#include "kernels/nms/08_relay.cuh"

namespace ws::nms {

inline constexpr Rung kRemainder = rung_of<Relay<Remainder>, NmsIndices>({
    .name = "remainder",
    .from = "relay",
    .idea = "one multiply-add of f32, exact where it decides, in the place of a product in f64",
});

}  // namespace ws::nms
