// Idea: a thread an element of y, which it reads where its index says; four of them on their way.
// Traffic: a read and a write of each element, and its index; a thread finds them by divisions of
// 64 bits.
// Limits: none.
#pragma once

#include "kernels/index_add/elements.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
struct Take {
  static void run(const IndexSelect::Call& call, const Context& context) {
    take_words(call, "index_select/take", context);
  }
  static void run(const Gather::Call& call, const Context& context) {
    take_words(call, "gather/take", context);
  }

 private:
  static void take_words(const Indexed& call, const char* rung, const Context& context) {
    with_word<kMoved>(call.dtype,
                      [&]<class Word>() { take<Word, Nest<kOperands>>(call, rung, context); });
  }
};

inline constexpr Rung kTake = rung_of<Take, IndexSelect, Gather>(
    {.name = "take", .idea = "a thread an element of y reads where its index says, any strides"});
#endif

}  // namespace ws::index_add
