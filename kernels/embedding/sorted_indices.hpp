// Indices in order: which rows of a source go to which row of a target, found by a sort.
//
// A key is row and position of an index, complemented, so that keys whose largest come first tell
// rows in their order, and of a row the positions in theirs: what is added up in that order is the
// same in every run. Indices that count nothing come behind all others.
#pragma once

#include "kernels/embedding/add_sorted.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/search.hpp"
#include "warpsmith/thread/tile.hpp"

namespace ws::embedding {

inline constexpr int64_t kNoRow = 0xFFFFFFFF;  // of an index that counts nothing

#if WS_DEVICE_CODE

// What is sorted.
struct IndexSource {
  Indices index;
  int64_t count = 0;
  int64_t ignored = -1;  // a row whose indices count nothing, as do wrong ones, which are told
  Touched* touched = nullptr;  // by row: 1 is written where an index counts; null: nobody asks
};

// Sorted runs of keys become one: a thread asks kAtOnce of them at a time how many of their keys
// come before its own, by halves.
struct MergeRuns {
  static constexpr int kThreads = 128;
  static constexpr int kRun = 1024;
  static constexpr int kAtOnce = 8;

  const uint64_t* from = nullptr;
  uint64_t* to = nullptr;
  uint32_t count = 0;

  // That there are to launch: of one run none.
  __host__ __device__ int64_t blocks() const {
    return count > kRun ? divide_up(count, uint32_t{kThreads}) : 0;
  }
  const uint64_t* sorted() const { return blocks() > 0 ? to : from; }

  __device__ __forceinline__ void operator()(int64_t block) const {
    const auto mine = static_cast<uint32_t>(block * kThreads + thread_index());
    if (mine >= count) return;
    const uint64_t key = thread::load(from + mine);
    uint32_t place = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < count; first += kAtOnce * kRun) {
      uint32_t before[kAtOnce] = {};
#pragma unroll 1
      for (uint32_t step = kRun; step > 0; step /= 2) {
        uint64_t other[kAtOnce];
#pragma unroll
        for (int r = 0; r < kAtOnce; ++r) {
          const uint32_t next = before[r] + step;
          const uint32_t at = first + static_cast<uint32_t>(r * kRun) + next - 1;
          // No key comes before itself.
          other[r] = thread::load(from + (next <= kRun && at < count ? at : mine));
        }
#pragma unroll
        for (int r = 0; r < kAtOnce; ++r) before[r] += other[r] > key ? step : 0;
      }
#pragma unroll
      for (const uint32_t larger : before) place += larger;
    }
    thread::store(to + place, key);
  }
};

// Keys in `memory` of sort_bytes(), in order.
const uint64_t* sort_indices(const IndexSource& source, void* memory, Stream stream);
// The same of up to kMostMerged, up to the merge, which is left to a launch of the caller's.
MergeRuns sort_runs(const IndexSource& source, void* memory, Stream stream);

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
  // `row` is that of the place.
  __device__ __forceinline__ Piece piece_at(int64_t at, int64_t row) const {
    const int64_t next = next_piece(at);
    const int64_t row_before = row_at(at > 0 ? at - 1 : 0);
    const int64_t row_behind = row_at(next < count_ ? next : count_ - 1);
    const bool is_first = at == 0 || row_before != row;
    if (row == kNoRow || !(is_first || at % kPiece == 0)) return {};
    return {row, is_first, is_first && (next >= count_ || row_behind != row)};
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
  // Those of kCount places; from `end` on, that of `at` again.
  template <int kCount>
  __device__ __forceinline__ thread::Tile<Source, kCount> sources_at(int64_t at,
                                                                     int64_t end) const {
    thread::Tile<Source, kCount> sources;
#pragma unroll
    for (int j = 0; j < kCount; ++j) sources[j] = source_at(at + j < end ? at + j : at);
    return sources;
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
