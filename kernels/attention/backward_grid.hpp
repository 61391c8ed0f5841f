// How the gradient is cut: a block owns rows of one side of all pairs, keys or queries, and meets
// those of the other side that see them or that they see.
#pragma once

#include <type_traits>

#include "kernels/attention/backward.hpp"
#include "kernels/attention/query_facts.hpp"
#include "kernels/attention/query_tiles.hpp"

namespace ws::attention {

// Bytes of keys and values, or of what is met, of the heads that blocks walk together. H200
// 2026-11-30: causal, 32 MB are worth 1 % over 16 at 1, 16, 16384, 128 and 1.5 % at 2, 8, 8192,
// 256; where all see all they cost up to 2 %.
inline int64_t backward_section_bytes(const Call& call) {
  return (call.window.is_open() ? 1 : 2) * QueryTiles::kSectionBytes;
}

// What a block owns: rows from `row` on of a head; and what it meets: rows first ... end - 1 of the
// heads first_head ... end_head - 1, none where the two are equal.
struct BackwardWalk {
  int batch, head, row;
  int first, end;
  int first_head, end_head;
};

// Made on the host.
struct BackwardGrid {
  using Walk = BackwardWalk;

  QueryTiles tiles;  // of own rows
  Seen<int> seen;    // by own rows
  int own_rows, own_heads;
  int met_rows, met_heads;
  int group;

  // Of blocks that own `rows` queries.
  static BackwardGrid of_queries(const BackwardCall& call, int rows) {
    return {.tiles = tiles_of(call, rows),
            .seen = {static_cast<int>(call.keys - call.queries), static_cast<int>(call.keys),
                     narrow_side(call.window.left), narrow_side(call.window.right)},
            .own_rows = static_cast<int>(call.queries),
            .own_heads = static_cast<int>(call.heads),
            .met_rows = static_cast<int>(call.keys),
            .met_heads = static_cast<int>(call.kv_heads),
            .group = static_cast<int>(call.group())};
  }
  // Of blocks that own `rows` keys: who looks the other way.
  static BackwardGrid of_keys(const BackwardCall& call, int rows) {
    Call keys = call;
    keys.heads = call.kv_heads;
    keys.queries = call.keys;
    keys.keys = call.queries * call.group();
    BackwardGrid grid = of_queries(call, rows);
    grid.tiles = tiles_of(keys, rows);
    grid.seen = {-grid.seen.offset, grid.own_rows, grid.seen.right, grid.seen.left};
    std::swap(grid.own_rows, grid.met_rows);
    std::swap(grid.own_heads, grid.met_heads);
    return grid;
  }

#if WS_DEVICE_CODE
  // What a kernel asks that may also be given packed sequences, by its block's walk: how many rows
  // there are of either side, what is seen, and tensors and facts from the first row on. Here they
  // are the arguments that the kernel has, by reference: copies are other machine code.
  // NOLINTBEGIN(bugprone-return-const-ref-from-parameter)
  __device__ __forceinline__ int own_rows_in(const Walk& /*walk*/) const { return own_rows; }
  __device__ __forceinline__ int met_rows_in(const Walk& /*walk*/) const { return met_rows; }
  __device__ __forceinline__ const Seen<int>& seen_in(const Walk& /*walk*/) const { return seen; }
  template <class T>
  __device__ __forceinline__ static const Heads& own_in(const Walk& /*walk*/, const Heads& heads) {
    return heads;
  }
  template <class T>
  __device__ __forceinline__ static const Heads& met_in(const Walk& /*walk*/, const Heads& heads) {
    return heads;
  }
  __device__ __forceinline__ static const QueryFacts& facts_in(const Walk& /*walk*/,
                                                               const QueryFacts& facts) {
    return facts;
  }
  // NOLINTEND(bugprone-return-const-ref-from-parameter)

  // What `count` own rows from `row` on see, of those that there are.
  __device__ __forceinline__ SeenTogether seen_by(int row, int count) const {
    const int end = row + count < own_rows ? row + count : own_rows;
    return seen.together(row, end - 1);
  }

  __device__ __forceinline__ SeenTogether seen_by(const Walk& /*walk*/, int row, int count) const {
    return seen_by(row, count);
  }

  // A walk that a warp has: CutBackwardGrid has to tell the compiler so.
  __device__ __forceinline__ static Walk same_in_all_lanes(Walk walk) { return walk; }
  // Of this block, or of who takes its turn; it owns kOwn rows and meets kMet at a time.
  template <bool kOwnsKeys, int kOwn, int kMet>
  __device__ __forceinline__ BackwardWalk walk(int64_t block = block_index()) const {
    const auto turn = tiles.turn(block);
    const int batch = turn.matrix / own_heads;
    const int head = turn.matrix - batch * own_heads;
    // The longest first, where attention is causal: the first keys, the last queries.
    const int row = (kOwnsKeys ? turn.tile : (own_rows - 1) / kOwn - turn.tile) * kOwn;
    const SeenTogether seen = seen_by(row, kOwn);
    const int first_head = kOwnsKeys ? head * group : head / group;
    const int heads = seen.first >= seen.end ? 0 : kOwnsKeys ? group : 1;
    return {batch, head, row, seen.first / kMet * kMet, seen.end, first_head, first_head + heads};
  }
#endif

 private:
  static QueryTiles tiles_of(const Call& call, int rows) {
    return {call, Sequences(call, "attention_backward"), rows, backward_section_bytes(call)};
  }
};

// Of packed sequences: rows are counted from the first of the block's own sequence on.
struct PackedBackwardWalk : BackwardWalk {
  int own_rows, own_first;
  int met_rows, met_first;
  int facts_first;
};

// As BackwardGrid, but what a block's sequence is is on the device. Made on the host.
struct PackedBackwardGrid {
  using Walk = PackedBackwardWalk;

  Sequences sequences;
  QueryTiles tiles;  // of own rows, of which each sequence has its own
  int left, right;   // of what is met, as seen by own rows
  int own_heads, met_heads;
  int group;

  static PackedBackwardGrid of_queries(const VarlenBackwardCall& call, const char* rung, int rows) {
    const Sequences sequences(call, rung);
    return {.sequences = sequences,
            .tiles = {call, sequences, rows, backward_section_bytes(call)},
            .left = narrow_side(call.window.left),
            .right = narrow_side(call.window.right),
            .own_heads = static_cast<int>(call.heads),
            .met_heads = static_cast<int>(call.kv_heads),
            .group = static_cast<int>(call.group())};
  }
  static PackedBackwardGrid of_keys(const VarlenBackwardCall& call, const char* rung, int rows) {
    PackedBackwardGrid grid = of_queries(call, rung, rows);
    Call keys = call;
    keys.heads = call.kv_heads;
    Sequences of_keys = grid.sequences;
    of_keys.queries = call.total_keys;
    of_keys.keys = call.total_queries * call.group();
    grid.tiles = {keys, of_keys, rows, backward_section_bytes(call)};
    std::swap(grid.left, grid.right);
    std::swap(grid.own_heads, grid.met_heads);
    return grid;
  }

#if WS_DEVICE_CODE
  __device__ __forceinline__ static int own_rows_in(const Walk& walk) { return walk.own_rows; }
  __device__ __forceinline__ static int met_rows_in(const Walk& walk) { return walk.met_rows; }
  template <class T>
  __device__ __forceinline__ static Heads own_in(const Walk& walk, const Heads& heads) {
    return from_row<T>(heads, walk.own_first);
  }
  template <class T>
  __device__ __forceinline__ static Heads met_in(const Walk& walk, const Heads& heads) {
    return from_row<T>(heads, walk.met_first);
  }
  __device__ __forceinline__ static QueryFacts facts_in(const Walk& walk, const QueryFacts& facts) {
    return {facts.lse + walk.facts_first, facts.deltas + walk.facts_first, facts.rows};
  }
  // Bottom right is bottom right, whoever looks.
  __device__ __forceinline__ Seen<int> seen_in(const Walk& walk) const {
    return {walk.met_rows - walk.own_rows, walk.met_rows, left, right};
  }
  __device__ __forceinline__ SeenTogether seen_by(const Walk& walk, int row, int count) const {
    const int end = row + count < walk.own_rows ? row + count : walk.own_rows;
    return seen_in(walk).together(row, end - 1);
  }

  __device__ __forceinline__ static Walk same_in_all_lanes(Walk walk) { return walk; }
  // A block whose tile is nobody's owns no rows.
  template <bool kOwnsKeys, int kOwn, int kMet>
  __device__ __forceinline__ Walk walk(int64_t block = block_index()) const {
    const auto turn = tiles.turn(block);
    const int b =
        sequences.of_tile(kOwnsKeys ? sequences.starts_k : sequences.starts_q, turn.tile, kOwn);
    if (b < 0) return {};
    const Sequence sequence = sequences.of<kOwnsKeys>(b);
    const auto first_query = static_cast<int>(sequence.first_query);
    const auto first_key = static_cast<int>(sequence.first_key);
    const auto queries = static_cast<int>(sequence.queries);
    const auto keys = static_cast<int>(sequence.keys);
    Walk walk{};
    walk.head = turn.matrix;
    walk.own_first = kOwnsKeys ? first_key : first_query;
    walk.own_rows = kOwnsKeys ? keys : queries;
    walk.met_first = kOwnsKeys ? first_query : first_key;
    walk.met_rows = kOwnsKeys ? queries : keys;
    walk.facts_first = (first_query / QueryFacts::kTogether + b) * QueryFacts::kTogether;
    const int nth = turn.tile - (walk.own_first / kOwn + b);
    const int last = (walk.own_rows - 1) / kOwn;
    if (walk.own_rows <= 0 || nth < 0 || nth > last) return {};
    walk.row = (kOwnsKeys ? nth : last - nth) * kOwn;
    const SeenTogether seen = seen_by(walk, walk.row, kOwn);
    walk.first = seen.first / kMet * kMet;
    walk.end = seen.end;
    walk.first_head = kOwnsKeys ? walk.head * group : walk.head / group;
    walk.end_head = walk.first_head + (seen.first >= seen.end ? 0 : kOwnsKeys ? group : 1);
    return walk;
  }

 private:
  template <class T>
  __device__ __forceinline__ static Heads from_row(const Heads& heads, int row) {
    return {heads.at<T>(0, 0, row), heads.batch, heads.head, heads.row, heads.column};
  }
#endif
};

template <class AnyCall>
using BackwardGridOf = std::conditional_t<kIsPacked<AnyCall>, PackedBackwardGrid, BackwardGrid>;

}  // namespace ws::attention
