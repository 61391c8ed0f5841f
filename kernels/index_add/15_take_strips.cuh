// Idea: elements are walked in strips of columns, 128 bytes of a row of the table wide, so that
// what random rows have of a strip stays in the L2.
// From take_quick: the same kernel, over the same elements in another order.
// Traffic: indices, elements and the table once; a sector of the L2 for each element, as before,
// but no longer one of DRAM.
// Limits: columns that lie side by side in the table, by a divisor of their number.
#pragma once

#include "kernels/index_add/strips.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
struct TakeStrips {
  static int64_t size(const Indexed& call) { return static_cast<int64_t>(size_of(call.dtype)); }
  static bool supports(const Indexed& call, Why& why) {
    return Strips::supports(call, size(call), why);
  }
  static bool is_worth(const Indexed& call) { return Strips::is_worth(call, size(call)); }
  static void run(const Gather::Call& call, const Context& context) {
    Indexed strips = call;
    strips.nest = Strips::order(call, size(call));
    with_word<kMoved>(call.dtype, [&]<class Word>() {
      take<Word, QuickNest<kOperands>>(strips, "gather/take_strips", context);
    });
  }
};

inline constexpr Rung kTakeStrips =
    rung_of<TakeStrips, Gather>({.name = "take_strips",
                                 .from = "take_quick",
                                 .idea = "columns in strips, of which the L2 keeps all rows"});
#endif

}  // namespace ws::index_add
