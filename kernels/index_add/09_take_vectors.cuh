// Idea: what lies side by side under one index is taken 16 bytes at a time, as an element of its
// own.
// From take_quick: a quarter to an eighth of the instructions, and as many times the bytes on their
// way.
// Traffic: a read and a write of every row, 512 bytes a warp; the index once for a row.
// Limits: index_select of rows of whole vectors of 16 bytes; fewer than 2^31 of them.
#pragma once

#include "kernels/index_add/elements.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
struct TakeVectors {
  static bool supports(const IndexSelect::Call& call, Why& why) {
    Indexed vectors{};
    return why.unless(as_vectors(call, vectors), kNeedsVectors) && is_quick(vectors, why);
  }
  static void run(const IndexSelect::Call& call, const Context& context) {
    Indexed vectors{};
    as_vectors(call, vectors);
    take<Vec<uint32_t, 4>, QuickNest<kOperands>>(vectors, "index_select/take_vectors", context);
  }
};

inline constexpr Rung kTakeVectors = rung_of<TakeVectors, IndexSelect>(
    {.name = "take_vectors", .from = "take_quick", .idea = "rows 16 bytes at a time"});
#endif

}  // namespace ws::index_add
