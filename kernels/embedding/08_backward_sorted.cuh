// Idea: indices are sorted with their places, so that what goes to one row stands together, and a
// thread adds up a vector of it in f32.
// From backward_atomic: no atomics, no zeros that are written and read again; the same bits in
// every run; 16 bits are rounded once. A row that many indices name is added up in pieces.
// Traffic: a read of dy, a write of the gradient; 48 bytes for an index, a few launches.
// Limits: indices and rows of dy at one stride each; fewer than 2^31 vectors.
#pragma once

#include "kernels/embedding/add_sorted.hpp"
#include "kernels/embedding/lookup.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
inline AddSorted add_of(const EmbeddingBackward::Call& call) {
  AddSorted add;
  add.data = {nullptr, call.table, call.rows.data[kRow]};
  add.rows = call.table_rows;
  add.count = call.rows.rows;
  add.inner = call.rows.columns;
  add.row_strides = {0, call.strides[0], call.rows.stride(kRow)};
  add.inner_strides = {1, call.strides[1], call.rows.inner[kRow]};
  add.by_count = call.by_count;
  return add;
}

struct BackwardSorted {
  static bool supports(const EmbeddingBackward::Call& call, Why& why) {
    return is_even(call, why) && add_of(call).supported(call.dtype, why);
  }
  static Workspace workspace(const EmbeddingBackward::Call& call) {
    return add_of(call).workspace();
  }
  static void run(const EmbeddingBackward::Call& call, const Context& context) {
    add_sorted(add_of(call), call.dtype, indices_of(call, "embedding_backward/backward_sorted"),
               call.ignored, context);
  }
};

inline constexpr Rung kBackwardSorted = rung_of<BackwardSorted, EmbeddingBackward>(
    {.name = "backward_sorted",
     .from = "backward_atomic",
     .idea = "sorted indices: each row's sources added up by one thread a vector"});
#endif

}  // namespace ws::embedding
