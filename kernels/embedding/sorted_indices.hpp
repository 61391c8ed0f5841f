// Indices in order: which rows of a source go to which row of a target, found by a sort.
//
// A key is row and position of an index, complemented, so that keys whose largest come first tell
// rows in their order, and of a row the positions in theirs: what is added up in that order is the
// same in every run. Indices that count nothing come behind all others.
#pragma once

#include "kernels/embedding/add_sorted.hpp"
#include "warpsmith/stream.hpp"
#include "warpsmith/thread/search.hpp"

namespace ws::embedding {

inline constexpr int64_t kNoRow = 0xFFFFFFFF;  // of an index that counts nothing

#if WS_DEVICE_CODE

// Keys in `memory` of sort_bytes(), in order. Counts nothing of those that are `ignored` or wrong,
// which are reported.
const uint64_t* sort_indices(const Indices& index, int64_t count, int64_t ignored, void* memory,
                             Stream stream);

class SortedIndices {
 public:
  SortedIndices() = default;
  SortedIndices(const uint64_t* keys, int64_t count) : keys_(keys), count_(count) {}

  static __device__ __forceinline__ uint64_t key_of(int64_t row, int64_t position) {
    return ~(static_cast<uint64_t>(row) << 32 | static_cast<uint64_t>(position));
  }

  // What begins at a place of the order: all sources of a row, or a piece of them. Rows are cut
  // where a multiple of kPiece places ends, so that a place knows by its neighbour whether a piece
  // begins.
  struct Piece {
    int64_t row = kNoRow;  // that of none: nothing does
    bool is_first = false;
    bool is_alone = false;  // all there is of the row
  };
  __device__ __forceinline__ Piece piece_at(int64_t at) const {
    const int64_t row = row_at(at);
    const bool is_first = at == 0 || row_at(at - 1) != row;
    if (row == kNoRow || !(is_first || at % kPiece == 0)) return {};
    return {row, is_first, is_first && !is_of(row, next_piece(at))};
  }
  // The `nth` of AddSorted::few_starts() places; -1: no piece begins there that is not another's.
  __device__ __forceinline__ int64_t few_start(int64_t nth) const {
    const int64_t regular = divide_up(count_, kPiece);
    if (nth < regular) return nth * kPiece;
    const int64_t row = nth - regular;
    const int64_t at = start_of(row);
    return at % kPiece != 0 && is_of(row, at) ? at : -1;
  }
  // Where a piece that begins at a place ends at the latest.
  __device__ __forceinline__ int64_t piece_end(int64_t at) const {
    const int64_t end = next_piece(at);
    return end < count_ ? end : count_;
  }
  static __device__ __forceinline__ int64_t next_piece(int64_t at) {
    return (at / kPiece + 1) * kPiece;
  }
  // The place where a row of several pieces starts that has its first one in the `block`-th kPiece
  // places; -1: there is none.
  __device__ __forceinline__ int64_t start_of_pieces(int64_t block) const {
    const int64_t first = block * kPiece;
    const int64_t next = first + kPiece;
    if (next >= count_ || row_at(next) == kNoRow) return -1;
    const int64_t row = row_at(next);
    const bool begins_here = row_at(next - 1) == row && (first == 0 || row_at(first - 1) != row);
    return begins_here ? start_of(row) : -1;
  }

  __device__ __forceinline__ int64_t row_at(int64_t at) const {
    return static_cast<int64_t>(~thread::load(keys_ + at) >> 32);
  }
  struct Source {
    int64_t row;
    int64_t position;
  };
  __device__ __forceinline__ Source source_at(int64_t at) const {
    const uint64_t key = ~thread::load(keys_ + at);
    return {static_cast<int64_t>(key >> 32), static_cast<int64_t>(static_cast<uint32_t>(key))};
  }
  // Whether there is a place `at`, of that row.
  __device__ __forceinline__ bool is_of(int64_t row, int64_t at) const {
    return at < count_ && row_at(at) == row;
  }
  // How many places come before those of a row.
  __device__ __forceinline__ int64_t start_of(int64_t row) const {
    return thread::count_larger(keys_, count_, key_of(row, 0));
  }

 private:
  const uint64_t* keys_ = nullptr;
  int64_t count_ = 0;
};

#endif

}  // namespace ws::embedding
