// Idea: elements are walked in strips of columns, 128 bytes of a row of the table wide, so that
// what random rows have of a strip stays in the L2.
// From take_quick and large_index: the same kernels, over the same elements in another order.
// Traffic: indices, elements and the table once; a sector of the L2 for each element, as before,
// but no longer one of DRAM.
// Limits: columns that lie side by side in the table, by a divisor of their number.
#pragma once

#include <algorithm>

#include "kernels/index_add/elements.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
struct Strips {
  // The order of a call's elements: its columns in strips, around the loop along the dimension. No
  // loops where they have no such order.
  static Nest<kOperands> order(const Indexed& call, int64_t size_of_element) {
    const Nest<kOperands>& nest = call.nest;
    if (nest.loops < 2 || nest.loops == kMaxRank) return {};
    const auto inner = static_cast<size_t>(nest.loops - 1);
    if (nest.strides[kTable][inner] != 1) return {};
    size_t along = 0;
    while (along < inner && nest.strides[kTable][along] != 0) ++along;
    const int64_t width = width_of(nest.extents[inner], kBytes / size_of_element);
    if (along == inner || width == 1) return {};

    Nest<kOperands> strips = nest;
    ++strips.loops;
    const auto insert = [&](auto& of_loops, int64_t outer, int64_t last) {
      std::copy_backward(of_loops.begin() + along, of_loops.end() - 1, of_loops.end());
      of_loops[along] = outer;
      of_loops[inner + 1] = last;
    };
    insert(strips.extents, nest.extents[inner] / width, width);
    for (auto& strides : strips.strides) insert(strides, strides[inner] * width, strides[inner]);
    return strips;
  }
  static bool supports(const Indexed& call, int64_t size, Why& why) {
    return why.unless(order(call, size).loops > 0,
                      "takes several strips of columns, which lie side by side in the table, of up "
                      "to ",
                      kBytes / size, " elements, behind up to ", kMaxRank - 2, " other loops") &&
           is_quick(call, why);
  }
  // Where the rows that the elements of a column are in are more than the L2 keeps, and a strip of
  // whole sectors is not. Between the two borders nothing is lost (JOURNAL.md).
  static bool is_worth(const Indexed& call, int64_t size) {
    constexpr int64_t kSector = 32;
    constexpr int64_t kLeastBytes = int64_t{16} << 20;
    constexpr int64_t kMostRows = int64_t{1} << 20;
    const Nest<kOperands> strips = order(call, size);
    if (strips.loops == 0) return false;
    const int64_t width = strips.extents[static_cast<size_t>(strips.loops - 1)];
    const int64_t columns = call.nest.extents[static_cast<size_t>(call.nest.loops - 1)];
    return width * size >= kSector && call.rows <= kMostRows &&
           call.rows * columns * size >= kLeastBytes && call.nest.count >= kLeastBytes / size;
  }

 private:
  static constexpr int64_t kBytes = 128;

  // The largest divisor of `columns` up to `most`, and not all of them.
  static int64_t width_of(int64_t columns, int64_t most) {
    int64_t width = std::min(most, columns / 2);
    while (width > 1 && columns % width != 0) --width;
    return std::max<int64_t>(width, 1);
  }
};

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

inline constexpr Rung kTakeStrips =
    rung_of<TakeStrips, Gather>({.name = "take_strips",
                                 .from = "take_quick",
                                 .idea = "columns in strips, of which the L2 keeps all rows"});
inline constexpr Rung kAddStrips =
    rung_of<AddStrips, ScatterAdd>({.name = "add_strips",
                                    .from = "large_index",
                                    .idea = "columns in strips, of which the L2 keeps all rows",
                                    .deterministic = false});
#endif

}  // namespace ws::index_add
