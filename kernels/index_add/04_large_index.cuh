// Idea: all elements of the source are one list, in the order in which they lie.
// From small_index: threads are as busy with rows of one element as with long ones. From
// generic_atomic: the host prepares the divisions, of 32 bits.
// Traffic: as before.
// Limits: fewer than 2^31 elements.
#pragma once

#include "kernels/index_add/elements.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
struct LargeIndex {
  static bool supports(const Indexed& call, Why& why) { return is_quick(call, why); }
  static Workspace workspace(const Adding& call) { return Sums::workspace(call); }
  static void run(const IndexAdd::Call& call, const Context& context) {
    add_elements<QuickNest<kOperands>>(call, "index_add/large_index", context);
  }
  static void run(const ScatterAdd::Call& call, const Context& context) {
    add_elements<QuickNest<kOperands>>(call, "scatter_add/large_index", context);
  }
};

inline constexpr Seed kLargeIndexSeeds[] = {
    {.name = "index_add_large_index", .operation = "index_add"}};
inline constexpr Rung kLargeIndex = rung_of<LargeIndex, IndexAdd, ScatterAdd>(
    {.name = "large_index",
     .from = "small_index",
     .idea = "a thread an element, divisions prepared by the host",
     .deterministic = false,
     .seeds = kLargeIndexSeeds});
#endif

}  // namespace ws::index_add
