// Idea: every permutation of every layout: an element's number in y becomes an index for each loop,
//   and those an address in x.
// From row2col: loops of one step are gone, neighbours that walk on in both tensors are one, runs
//   of elements that stay together are elements of up to 8 bytes; the host prepares the divisions.
// Traffic: every byte once where the inner loops agree, or what a block reads in parts it reads
//   wholly in the end; up to a sector of 32 bytes an element where neither is so.
// Limits: none. Over 2^31 elements take several launches, so that a number fits 32 bits.
#include "kernels/transpose/in_order.hpp"

namespace ws::transpose {
namespace {

struct AnyLayout {
  // Halves the outermost loop of a call of more than `limit` elements.
  static void run_parts(Permutation call, Stream stream, int64_t limit) {
    if (call.elements() <= limit) {
      return with_element(call.element_bytes,
                          [&]<class T>() { copy_in_order<T, 1>(call, stream); });
    }
    Loop& loop = *std::ranges::find_if(call.loops, [](const Loop& l) { return l.extent > 1; });
    const int64_t whole = loop.extent;
    loop.extent = whole / 2;
    run_parts(call, stream, limit);
    call.x = static_cast<const char*>(call.x) + loop.extent * loop.strides[kX] * call.element_bytes;
    call.y = static_cast<char*>(call.y) + loop.extent * loop.strides[kY] * call.element_bytes;
    loop.extent = whole - loop.extent;
    run_parts(call, stream, limit);
  }
  static void run(const Permutation& call, const Context& context) {
    run_parts(call, context.stream, kMostInOrder);
  }
};

}  // namespace

extern const Rung kAnyLayout;
constinit const Rung kAnyLayout = rung_of<AnyLayout, Transpose, Permute>({
    .name = "any_layout",
    .from = "row2col",
    .idea = "any permutation, any strides, any size: an element of y a thread",
});

}  // namespace ws::transpose
