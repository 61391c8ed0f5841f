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
    return why.unless(widened(call, vectors), "takes rows of whole vectors of 16 bytes") &&
           is_quick(vectors, why);
  }
  static void run(const IndexSelect::Call& call, const Context& context) {
    Indexed vectors{};
    widened(call, vectors);
    take<Vec<uint32_t, 4>, QuickNest<kOperands>>(vectors, "index_select/take_vectors", context);
  }

 private:
  // The call with a vector as its element; false where it has none.
  static bool widened(const IndexSelect::Call& call, Indexed& vectors) {
    vectors = call;
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    Nest<kOperands>& nest = vectors.nest;
    const bool fits = widen(nest, width, {kEach, kTable}) && call.table_stride % width == 0 &&
                      starts_a_vector(call.each) && starts_a_vector(call.table);
    vectors.table_stride /= width;
    if (!fits) return false;
    const auto inner = static_cast<size_t>(nest.loops - 1);
    return nest.strides[kIndex][inner] == 0 && nest.strides[kPosition][inner] == 0;
  }
};

inline constexpr Rung kTakeVectors = rung_of<TakeVectors, IndexSelect>(
    {.name = "take_vectors", .from = "take_quick", .idea = "rows 16 bytes at a time"});
#endif

}  // namespace ws::index_add
