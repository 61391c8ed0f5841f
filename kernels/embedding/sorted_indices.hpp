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

  // What begins at a place of the order: all sources of a row, or a piece of them.
  struct Piece {
    int64_t row = kNoRow;  // that of none: nothing does
    bool is_first = false;
    bool is_alone = false;  // all there is of the row
  };
  __device__ __forceinline__ Piece piece_at(int64_t at) const {
    const int64_t row = row_at(at);
    if (row == kNoRow) return {};
    int64_t start = at;
    if (at > 0 && row_at(at - 1) == row) {
      if (at < kPiece || row_at(at - kPiece) != row) return {};
      start = start_of(row);
      if ((at - start) % kPiece != 0) return {};
    }
    return {row, start == at, !is_of(row, start + kPiece)};
  }
  // The place where a row of several pieces starts that has its first one in the `block`-th kPiece
  // places; -1: there is none.
  __device__ __forceinline__ int64_t start_of_pieces(int64_t block) const {
    const int64_t next = (block + 1) * kPiece;
    if (next >= count_ || row_at(next) == kNoRow) return -1;
    const int64_t start = start_of(row_at(next));
    return start >= block * kPiece && is_of(row_at(next), start + kPiece) ? start : -1;
  }

  __device__ __forceinline__ int64_t row_at(int64_t at) const {
    return static_cast<int64_t>(~thread::load(keys_ + at) >> 32);
  }
  __device__ __forceinline__ int64_t position_at(int64_t at) const {
    return static_cast<int64_t>(static_cast<uint32_t>(~thread::load(keys_ + at)));
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
