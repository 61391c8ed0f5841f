// Idea: the result's vectors are one list, which small blocks walk in the order of addresses; a
// thread has two rows' indices on their way, then two vectors.
// From vector: a block is as full with rows of 64 elements as with long ones, and what it waits for
// is there for both vectors at once. A vector's number becomes row and column by a multiplication
// that the host prepares; the index of a row comes from L1 for all threads but the first.
// Traffic: a read and a write of every row; writes reach the memory as whole pages. The kernel
// stands in take_rows.hpp.
// Limits: rows of whole vectors of 16 bytes, at one stride; fewer than 2^31 vectors.
#pragma once

#include "kernels/embedding/lookup.hpp"
#include "kernels/embedding/take_rows.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
struct CompactFront {
  static bool supports(const Embedding::Call& call, Why& why) {
    return is_even(call, why) && needs_vectors(call, why) &&
           TakenRows::are_few_enough(call.rows.columns / width_of(call) * call.rows.rows, why);
  }
  static void run(const Embedding::Call& call, const Context& context) {
    using Vector = TakenRows::Vector;
    const int64_t width = width_of(call);
    TakenRows rows;
    rows.index = indices_of(call, "embedding/compact_front");
    rows.table = static_cast<const Vector*>(call.table);
    rows.y = call.rows.as<Vector>(kRow);
    rows.table_stride = call.strides[0] / width;
    rows.of_row = call.rows.columns / width;
    rows.extents[1] = call.rows.rows;
    rows.strides[TakenRows::kY][1] = call.rows.stride(kRow) / width;
    rows.strides[TakenRows::kIndex][1] = call.rows.stride(kIndex);
    rows.strides[TakenRows::kPosition][1] = 1;
    take_rows(rows, context);
  }
};

inline constexpr Rung kCompactFront = rung_of<CompactFront, Embedding>(
    {.name = "compact_front",
     .from = "vector",
     .idea = "all rows' vectors as one list, two of a thread on their way"});
#endif

}  // namespace ws::embedding
