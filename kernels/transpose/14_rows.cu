// Idea: where the innermost dimension stays, rows move as they are: pieces of 16 bytes, four a
//   thread.
// From any_layout: elements of up to 16 bytes are made of what lies side by side in both tensors,
//   so that an index is computed for a piece, not an element, and 64 bytes are in flight a thread.
// Traffic: every byte once, in rows; rows of less than 32 bytes share sectors with others.
// Limits: elements side by side in both tensors; up to 2^31 - 1 pieces.
#include "kernels/transpose/in_order.hpp"

namespace ws::transpose {
namespace {

using Sixteen = Vec<uint64_t, 2>;

struct Rows {
  static bool supports(const Permutation& call, Why& why) {
    return why.unless(call.rank == 0 || call.run() > 1,
                      "takes elements that lie side by side in both tensors, not ",
                      call.rank == 0 ? 1 : call.inner().strides[kX], " and ",
                      call.rank == 0 ? 1 : call.inner().strides[kY], " apart") &&
           why.unless(widened(call, 16).elements() <= kMostInOrder, "takes up to ", kMostInOrder,
                      " pieces, not ", widened(call, 16).elements());
  }
  static void run(const Permutation& call, const Context& context) {
    constexpr int kEach = 4;  // not yet measured
    const Permutation wide = widened(call, 16);
    if (wide.element_bytes == 16) return copy_in_order<Sixteen, kEach>(wide, context.stream);
    with_element(wide.element_bytes,
                 [&]<class T>() { copy_in_order<T, kEach>(wide, context.stream); });
  }
};

}  // namespace

extern const Rung kRows;
constinit const Rung kRows = rung_of<Rows, Transpose, Permute>({
    .name = "rows",
    .from = "any_layout",
    .idea = "rows that stay together move in pieces of 16 bytes, four a thread",
});

}  // namespace ws::transpose
