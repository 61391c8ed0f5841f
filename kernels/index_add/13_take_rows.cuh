// Idea: rows by the kernel that looks up those of a table: a vector's number is taken apart into a
// row and a place in it, and rows into at most two loops.
// From take_vectors: a nest of up to six loops is walked for no vector, which took most of 200
// instructions; two indices are under way, then two vectors, in 32 registers where there were 72.
// Traffic: a read and a write of every row, 512 bytes a warp; the index from the L1 for all threads
// but the first. The kernel stands in embedding/take_rows.hpp.
// Limits: rows of whole vectors of 16 bytes under one index, along at most two loops; fewer than
// 2^31 vectors. Of gather: where the index is one number for a row, repeated at a stride of 0.
#pragma once

#include "kernels/embedding/take_rows.hpp"
#include "kernels/index_add/elements.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
struct TakeRows {
  static bool supports(const Indexed& call, Why& why) {
    Indexed vectors{};
    return why.unless(as_vectors(call, vectors), kNeedsVectors) &&
           why.unless(vectors.nest.loops <= 3, "takes rows along at most two loops") &&
           embedding::TakenRows::are_few_enough(vectors.nest.count, why);
  }
  static void run(const IndexSelect::Call& call, const Context& context) {
    embedding::take_rows(rows_of(call, "index_select/take_rows"), context);
  }
  static void run(const Gather::Call& call, const Context& context) {
    embedding::take_rows(rows_of(call, "gather/take_rows"), context);
  }

 private:
  static embedding::TakenRows rows_of(const Indexed& call, const char* rung) {
    using Rows = embedding::TakenRows;
    Indexed vectors{};
    as_vectors(call, vectors);
    Rows rows;
    rows.index = indices_of(call, rung);
    rows.table = static_cast<const Rows::Vector*>(call.table);
    rows.y = static_cast<Rows::Vector*>(call.each);
    rows.table_stride = vectors.table_stride;
    // The innermost loop is a row's, the one around it that of most rows.
    const Nest<kOperands>& nest = vectors.nest;
    rows.of_row = nest.extents[static_cast<size_t>(nest.loops - 1)];
    for (int loop = nest.loops - 2, to = 1; loop >= 0; --loop, --to) {
      const auto at = static_cast<size_t>(loop);
      rows.extents[to] = nest.extents[at];
      constexpr Operand kOf[] = {kEach, kIndex, kPosition, kTable};
      for (int k = 0; k < Rows::kOperands; ++k) {
        rows.strides[k][to] = nest.strides[kOf[k]][at];
      }
    }
    return rows;
  }
};

inline constexpr Rung kTakeRows = rung_of<TakeRows, IndexSelect, Gather>(
    {.name = "take_rows",
     .from = "take_vectors",
     .idea = "rows as one list of vectors: a row and a place in it, no nest of loops"});
#endif

}  // namespace ws::index_add
