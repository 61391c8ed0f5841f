// How the gradient is cut: a block owns rows of one side of all pairs, keys or queries, and meets
// those of the other side that see them or that they see.
#pragma once

#include "kernels/attention/backward.hpp"
#include "kernels/attention/query_tiles.hpp"

namespace ws::attention {

// What a block owns: rows from `row` on of a head; and what it meets: rows first ... end - 1 of the
// heads first_head ... end_head - 1, none where the two are equal.
struct BackwardWalk {
  int batch, head, row;
  int first, end;
  int first_head, end_head;
};

// Made on the host.
struct BackwardGrid {
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
  // What `count` own rows from `row` on see, of those that there are.
  __device__ __forceinline__ SeenTogether seen_by(int row, int count) const {
    const int end = row + count < own_rows ? row + count : own_rows;
    return seen.together(row, end - 1);
  }

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
    return {call, Sequences(call, "attention_backward"), rows};
  }
};

}  // namespace ws::attention
