// Idea: a thread an element of the source, added in global memory to where its index says.
// From naive: what is done is proportional to the source. A thread finds its element by divisions
// of 64 bits, so that any strides will do; 16-bit tensors add up in f32 in the workspace, and a
// last launch rounds them once.
// Traffic: x both ways; the source once, an atomic of the L2 for each of its elements; of 16-bit
// tensors 8 bytes for an element of y besides.
// Limits: none. Equal indices queue, in an order that is nobody's.
#pragma once

#include "kernels/index_add/elements.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
struct GenericAtomic {
  static Workspace workspace(const Adding& call) { return Sums::workspace(call); }
  static void run(const IndexAdd::Call& call, const Context& context) {
    add_elements<Nest<kOperands>>(call, "index_add/generic_atomic", context);
  }
  static void run(const ScatterAdd::Call& call, const Context& context) {
    add_elements<Nest<kOperands>>(call, "scatter_add/generic_atomic", context);
  }
};

inline constexpr Seed kGenericAtomicSeeds[] = {
    {.name = "index_add_generic_atomic", .operation = "index_add"}};
inline constexpr Rung kGenericAtomic = rung_of<GenericAtomic, IndexAdd, ScatterAdd>(
    {.name = "generic_atomic",
     .from = "naive",
     .idea = "a thread an element of the source, any strides, atomics in f32",
     .deterministic = false,
     .seeds = kGenericAtomicSeeds});
#endif

}  // namespace ws::index_add
