// Rows that indices name, copied as one list of vectors of 16 bytes, which small blocks walk in the
// order of addresses. Shared by embedding, index_select and gather.
//
// A thread asks for two indices, then for two vectors, and is gone: what is written reaches the
// memory as whole pages (H200 2026-11-30: two take 1 to 2 % less than four; one and eight more).
// Where a vector's row lies is told by multiplications that the host prepares. All indices are
// under way before one is looked at; one that is no row switches its vector off, and is told of
// when the last vector has been written.
#pragma once

#include <algorithm>

#include "kernels/embedding/indices.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE

// Rows of vectors, along two loops of which the outer one may be of one round; strides of y and of
// the table are in vectors.
struct TakenRows {
  enum Operand {
    kY,
    kIndex,
    kPosition,  // its number, for messages
    kTable,     // where a row 0 for this index would lie
    kOperands
  };
  using Vector = Vec<uint32_t, 4>;
  Indices index;
  const Vector* table = nullptr;
  Vector* y = nullptr;
  int64_t table_stride = 0;  // from row to row
  int64_t of_row = 1;        // vectors
  int64_t extents[2] = {1, 1};
  int64_t strides[kOperands][2] = {};

  int64_t vectors() const { return extents[0] * extents[1] * of_row; }
  // Whether numbers of 32 bits do, those of threads behind the last vector too.
  static bool are_few_enough(int64_t vectors, Why& why) {
    return why.unless(vectors < (int64_t{1} << 31) - 4096, "takes fewer than 2^31 vectors, not ",
                      vectors);
  }
};

template <bool kHasOuter>
struct TakeRowsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kLoads = 2;
  static constexpr int kMinBlocks = 16;
  static constexpr int kTile = kThreads * kLoads;
  using Rows = TakenRows;
  struct Arguments {
    Rows rows;
    uint32_t vectors;
    thread::Divider row;    // vectors of a row
    thread::Divider outer;  // rows of a round of the outer loop
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const uint32_t first =
        static_cast<uint32_t>(block_index()) * kTile + static_cast<uint32_t>(thread_index());
    uint32_t row[kLoads];
    uint32_t column[kLoads];
    int64_t at[kLoads];
    bool is_there[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const uint32_t vector = first + static_cast<uint32_t>(j * kThreads);
      is_there[j] = vector < a.vectors;
      // Behind the last one its row again: an index without a branch.
      row[j] = a.row.quotient(is_there[j] ? vector : a.vectors - 1);
      column[j] = vector - row[j] * a.row.divisor();
      at[j] = offset<Rows::kIndex>(a, row[j]);
    }
    int64_t from[kLoads];
    a.rows.index.read(at, from);

    typename Rows::Vector values[kLoads];
    bool are_right = true;
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const bool is_right = a.rows.index.exists(from[j]);
      are_right = are_right && is_right;
      is_there[j] = is_there[j] && is_right;
      if (is_there[j]) {
        values[j] = thread::load(a.rows.table + (offset<Rows::kTable>(a, row[j]) +
                                                 from[j] * a.rows.table_stride + column[j]));
      }
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (is_there[j]) {
        thread::store(a.rows.y + (offset<Rows::kY>(a, row[j]) + column[j]), values[j]);
      }
    }
    if (!are_right) tell(a, first);
  }

 private:
  // A thread's indices again: so they are in no register while its vectors are.
  __device__ static void tell(const Arguments& a, uint32_t first) {
#pragma unroll 1
    for (uint32_t vector = first; vector < std::min(first + kTile, a.vectors); vector += kThreads) {
      const uint32_t row = a.row.quotient(vector);
      a.rows.index.is_right(a.rows.index.at_offset(offset<Rows::kIndex>(a, row)),
                            offset<Rows::kPosition>(a, row));
    }
  }
  template <int kOperand>
  __device__ __forceinline__ static int64_t offset(const Arguments& a, uint32_t row) {
    const auto& strides = a.rows.strides[kOperand];
    if constexpr (kHasOuter) {
      const uint32_t outer = a.outer.quotient(row);
      return outer * strides[0] + (row - outer * a.outer.divisor()) * strides[1];
    } else {
      return row * strides[1];
    }
  }
};

inline void take_rows(const TakenRows& rows, const Context& context) {
  if (rows.vectors() == 0) return;
  const auto start = [&]<bool kHasOuter>() {
    using Kernel = TakeRowsKernel<kHasOuter>;
    launch<Kernel>(
        {.blocks = divide_up(rows.vectors(), int64_t{Kernel::kTile}), .threads = Kernel::kThreads},
        context.stream,
        {rows, static_cast<uint32_t>(rows.vectors()), thread::Divider(rows.of_row),
         thread::Divider(rows.extents[1])});
  };
  if (rows.extents[0] == 1) {
    start.template operator()<false>();
  } else {
    start.template operator()<true>();
  }
}

#endif

}  // namespace ws::embedding
