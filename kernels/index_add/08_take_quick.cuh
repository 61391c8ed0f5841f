// Idea: the host prepares the divisions.
// From take: a division is three instructions, not a subroutine.
// Traffic: as before.
// Limits: fewer than 2^31 elements.
#pragma once

#include "kernels/index_add/elements.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
struct TakeQuick {
  static bool supports(const Indexed& call, Why& why) { return is_quick(call, why); }
  static void run(const IndexSelect::Call& call, const Context& context) {
    take_words(call, "index_select/take_quick", context);
  }
  static void run(const Gather::Call& call, const Context& context) {
    take_words(call, "gather/take_quick", context);
  }

 private:
  static void take_words(const Indexed& call, const char* rung, const Context& context) {
    with_word<kMoved>(call.dtype,
                      [&]<class Word>() { take<Word, QuickNest<kOperands>>(call, rung, context); });
  }
};

inline constexpr Rung kTakeQuick = rung_of<TakeQuick, IndexSelect, Gather>(
    {.name = "take_quick", .from = "take", .idea = "divisions that the host prepares"});
#endif

}  // namespace ws::index_add
