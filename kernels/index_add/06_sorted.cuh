// Idea: indices are sorted with their places, so that what goes to one row stands together, and a
// thread adds up a vector of it in f32.
// From vector_atomic: no atomics, the same bits in every run, and 16 bits are rounded once. A row
// that many indices name is added up in pieces, so that a few hot rows keep every SM busy.
// Traffic: x and y once, the source once; in place only rows that get something. 48 bytes for an
// index, a few launches. The kernels stand in embedding/add_sorted.cu.
// Limits: rows of at most two loops; fewer than 2^31 vectors.
#pragma once

#include "kernels/index_add/elements.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
struct Sorted {
  static bool supports(const IndexAdd::Call& call, Why& why) {
    return why.unless(call.has_lines, "takes rows of at most two loops") &&
           call.lines.supported(call.dtype, why);
  }
  static Workspace workspace(const IndexAdd::Call& call) { return call.lines.workspace(); }
  static void run(const IndexAdd::Call& call, const Context& context) {
    embedding::add_sorted(call.lines, call.dtype, line_indices_of(call, "index_add/sorted"), -1,
                          context);
  }
};

inline constexpr Rung kSorted = rung_of<Sorted, IndexAdd>(
    {.name = "sorted",
     .from = "vector_atomic",
     .idea = "sorted indices: each row's sources added up by one thread a vector"});
#endif

}  // namespace ws::index_add
