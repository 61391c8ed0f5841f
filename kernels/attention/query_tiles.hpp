// In which order a grid walks tiles of queries: sections of heads whose keys and values stay in the
// L2 together, and within one the last tiles first, which are the longest where attention is
// causal: what ends a grid is short.
#pragma once

#include <algorithm>

#include "kernels/attention/seen.hpp"
#include "kernels/attention/sequences.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::attention {

// Of sequences as 32-bit numbers: queries, keys and windows are below this. A window wider than
// every sequence is as one of so many.
inline constexpr int64_t kMostSeen = int64_t{1} << 29;
inline int narrow_side(int64_t width) {
  return static_cast<int>(width < kMostSeen ? width : kMostSeen);
}

// What a block computes: rows from `row` on of a sequence; none where `row` is not below `queries`.
// The sequence as in Sequence, in 32 bits.
struct QueryTile {
  int batch = 0;
  int head = 0;
  int row = 0;
  int first_query = 0;
  int queries = 0;
  int first_key = 0;
  int keys = 0;
};

// Made on the host.
class QueryTiles {
 public:
  // A section's keys and values: less than a third of an H200's L2, since each half of it may hold
  // its own copy.
  static constexpr int64_t kSectionBytes = int64_t{16} << 20;

  // Tiles of `rows` queries. Sequences that are packed have at most as many tiles as the rows of
  // all of them, and one each.
  QueryTiles(const Call& call, const Sequences& sequences, int rows,
             int64_t section_bytes = kSectionBytes)
      : rows_(rows), heads_(static_cast<int>(call.heads)) {
    const int64_t tiles = sequences.packed ? sequences.queries / rows + sequences.count
                                           : divide_up(sequences.queries, rows);
    const int64_t matrices = sequences.packed ? call.heads : call.batch * call.heads;
    require(tiles * matrices < int64_t{1} << 31, "attention of ", tiles * matrices,
            " tiles of queries, of at most 2^31 - 1");
    tiles_ = static_cast<int>(tiles);
    matrices_ = static_cast<int>(matrices);
    const int64_t bytes = sequences.keys * (call.head_dim + call.value_dim) *
                          static_cast<int64_t>(size_of(call.dtype));
    const int64_t fitting = std::max<int64_t>(1, section_bytes / std::max<int64_t>(1, bytes));
    // Sections are alike, for a short last one would end the grid with long tiles, while most
    // multiprocessors have nothing left to do; so each has up to half as many heads again.
    group_ = static_cast<int>(std::max<int64_t>(1, call.group()));  // of no heads there is none
    const int64_t heads = matrices / group_;
    const int64_t sections = std::max<int64_t>(1, (2 * heads + fitting - 1) / (2 * fitting));
    section_ = static_cast<int>(heads / sections) * group_;
    in_short_ = matrices_ - static_cast<int>(heads % sections) * (section_ + group_);
  }

  int64_t count() const { return int64_t{tiles_} * matrices_; }

#if WS_DEVICE_CODE
  // Of a block: which head of which batch, and how many tiles come before it.
  struct Turn {
    int matrix;
    int tile;
  };
  __device__ __forceinline__ Turn turn(int64_t block) const {
    const int index = static_cast<int>(block);
    const bool is_short = index < tiles_ * in_short_;
    const int width = is_short ? section_ : section_ + group_;
    const int first = is_short ? 0 : in_short_;
    const int before = first + (index - tiles_ * first) / (tiles_ * width) * width;
    const int within = index - tiles_ * before;
    return {before + within % width, within / width};
  }

  __device__ __forceinline__ QueryTile at(int64_t block, const Sequences& sequences) const {
    const auto [matrix, tile] = turn(block);
    if (!sequences.packed) {
      const int batch = matrix / heads_;
      return made(batch, matrix - batch * heads_, tiles_ - 1 - tile, sequences.of(0));
    }
    // Sequence b has the tiles from starts_q[b] / rows + b on, and never reaches those of the next.
    const int b = sequences.of_tile(tile, rows_);
    if (b < 0) return {};
    const Sequence sequence = sequences.of(b);
    if (!sequences.has_its_pages(b, sequence)) return {};
    const int nth = tile - (static_cast<int>(sequence.first_query) / rows_ + b);
    const int last = (static_cast<int>(sequence.queries) + rows_ - 1) / rows_ - 1;
    return nth <= last ? made(b, matrix, last - nth, sequence) : QueryTile{};
  }
#endif

 private:
#if WS_DEVICE_CODE
  __device__ __forceinline__ QueryTile made(int batch, int head, int tile,
                                            const Sequence& sequence) const {
    return {batch,
            head,
            tile * rows_,
            static_cast<int>(sequence.first_query),
            static_cast<int>(sequence.queries),
            static_cast<int>(sequence.first_key),
            static_cast<int>(sequence.keys)};
  }
#endif

  int rows_;
  int tiles_;  // of a matrix; a grid has less than 2^31 in all
  int matrices_, heads_;
  int group_;
  int section_;   // matrices of one; the last ones have a group more
  int in_short_;  // matrices of sections that have not
};

}  // namespace ws::attention
