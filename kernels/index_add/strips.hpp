// Elements in an order in which what random rows have of a strip of columns stays in the L2.
#pragma once

#include <algorithm>

#include "kernels/index_add/elements.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
// What take_strips and add_strips share: the table is x of what takes, and y of what adds.
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
#endif

}  // namespace ws::index_add
