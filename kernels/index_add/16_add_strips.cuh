// Idea: elements are walked in strips of columns, 128 bytes of a row of the table wide, so that
// what random rows of y have of a strip stays in the L2.
// From large_index: the same kernel, over the same elements in another order.
// Traffic: indices, source and y once; a sector of the L2 for each element, as before,
// but no longer one of DRAM.
// Limits: columns that lie side by side in y, by a divisor of their number.
#pragma once

#include "kernels/index_add/strips.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
// Sums are f32, in y or beside it.
struct AddStrips {
  static bool supports(const Adding& call, Why& why) { return Strips::supports(call, kSize, why); }
  static bool is_worth(const Adding& call) { return Strips::is_worth(call, kSize); }
  static Workspace workspace(const Adding& call) { return Sums::workspace(call); }
  static void run(const ScatterAdd::Call& call, const Context& context) {
    Adding strips = call;
    strips.nest = Strips::order(call, kSize);
    add_elements<QuickNest<kOperands>>(strips, "scatter_add/add_strips", context);
  }

 private:
  static constexpr int64_t kSize = sizeof(float);
};

inline constexpr Rung kAddStrips =
    rung_of<AddStrips, ScatterAdd>({.name = "add_strips",
                                    .from = "large_index",
                                    .idea = "columns in strips, of which the L2 keeps all rows",
                                    .deterministic = false});
#endif

}  // namespace ws::index_add
