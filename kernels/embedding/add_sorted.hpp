// Sources that are added to the rows of a target in the order of their indices: what rungs of both
// families launch that are deterministic.
//
//   y[r] = x[r] + scale * sum(source[i] : index[i] = r)
//
// Sorted, the sources of a row stand together. A thread adds up some vectors of up to kPiece of
// them in f32; where a row gets more, each piece leaves its sum in the workspace, and a second
// launch adds these. So a row with one source costs what it moves, and one with all sources keeps
// every SM busy. Rows that get nothing are marked before the sort, and written while it ends,
// unless they are right already (y is x).
#pragma once

#include "catalogue/catalogue.hpp"
#include "kernels/embedding/indices.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::embedding {

// Sources that one thread adds up; of a row that gets more each so many are a piece.
inline constexpr int64_t kPiece = 64;

// Up to so many indices are sorted by merging runs, in two launches; more by digits, some ten
// launches whose work grows with the count alone.
inline constexpr int64_t kMostMerged = 16384;
inline constexpr int64_t kRadixTile = 4096;  // keys of a block
inline constexpr int kRadixDigits = 64;      // at most

// Counts of a sort by digits: each tile's of each digit, and the sum of each.
inline int64_t radix_counts(int64_t count) {
  return count > kMostMerged ? kRadixDigits * (divide_up(count, kRadixTile) + 1) : 0;
}
// Bytes that a sort of so many takes, a multiple of 256.
inline size_t sort_bytes(int64_t count) {
  return round_up(2 * static_cast<size_t>(count) * sizeof(uint64_t) +
                      static_cast<size_t>(radix_counts(count)) * sizeof(uint32_t),
                  size_t{256});
}

// Whether a row gets something: the smallest word that many threads may store to.
using Touched = uint16_t;

enum Target { kX, kY, kSource, kTargets };

// Where the vectors of a row lie: `outer` stretches of `inner` elements each, in every tensor.
struct AddSorted {
  std::array<void*, kTargets> data{};  // x null: zeros; x may be y
  int64_t rows = 0;                    // of x and y
  int64_t count = 0;                   // of sources
  int64_t outer = 1;
  int64_t inner = 1;
  std::array<int64_t, kTargets> row_strides{};
  std::array<int64_t, kTargets> outer_strides{};
  std::array<int64_t, kTargets> inner_strides{};
  float scale = 1;
  bool by_count = false;  // the sum is divided by how many there are

  bool keeps_rows() const { return data[kX] == nullptr || data[kX] != data[kY]; }
  // Elements of an access of 16 bytes where every stretch is made of such, else 1.
  int64_t width(DType dtype) const {
    const auto widest = static_cast<int64_t>(16 / size_of(dtype));
    for (size_t k = 0; k < kTargets; ++k) {
      const bool fits = reinterpret_cast<uintptr_t>(data[k]) % 16 == 0 && inner_strides[k] == 1 &&
                        row_strides[k] % widest == 0 && outer_strides[k] % widest == 0;
      if (data[k] != nullptr && !fits) return 1;
    }
    return inner % widest == 0 ? widest : 1;
  }
  int64_t vectors(DType dtype) const { return outer * inner / width(dtype); }  // of a row
  // Places where a piece may begin: all there are; where rows are few, every kPiece-th and the
  // first of each row, so that a block has something to do.
  int64_t few_starts() const { return divide_up(count, kPiece) + rows; }
  bool has_few_rows() const { return 8 * few_starts() <= count; }
  int64_t slots() const { return count > kPiece ? 2 * divide_up(count, kPiece) : 0; }

  bool supported(DType dtype, Why& why) const {
    constexpr int64_t kMost = (int64_t{1} << 31) - 4096;
    const int64_t most = std::max(rows, count);
    return why.unless(most < kMost && most * vectors(dtype) < kMost, "takes tensors of fewer than ",
                      kMost, " vectors, not ", most, " rows of ", vectors(dtype));
  }
  Workspace workspace() const {
    const auto sums = static_cast<size_t>(slots() * outer * inner) * sizeof(float);
    return {.bytes = sort_bytes(count) + sums +
                     (keeps_rows() ? static_cast<size_t>(rows) * sizeof(Touched) : 0)};
  }
};

#if WS_DEVICE_CODE
// Enqueues it; nothing is added by indices that are `ignored`, or wrong, which are reported.
void add_sorted(const AddSorted& call, DType dtype, const Indices& index, int64_t ignored,
                const Context& context);
#endif

}  // namespace ws::embedding
