// The tiles of a call and the order in which blocks draw them: one counter for all, so that a block
// that is done early takes more, the longest first where lengths differ, and heads in sections
// whose keys and values stay in L2 together.
#pragma once

#include <algorithm>

#include "kernels/attention/head_tile.hpp"
#include "kernels/attention/sequences.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::attention {

// What a block computes together: parts side by side of those that a sequence has with a head of
// keys. A part is so many queries of a head; they are counted by queries, and those of the same
// queries by the heads that share the keys: so a causal tile is not taller than it must be, and
// short sequences leave few parts over.
struct FlashTile {
  HeadPlace q;  // of the sequence; the first part's head
  HeadPlace kv;
  int first = 0;    // the first part's first query
  int rows = 0;     // queries from there on that parts have, and more at a sequence's end
  int queries = 0;  // of the sequence
  int keys = 0;
  int lse = 0;     // row of lse that query 0 has
  int batch = -1;  // below zero: there are no more tiles
};

struct TileList {
  static constexpr int kLeastHeads = 24;  // of keys
  static constexpr int kMostParts = 3;

  // What a warpgroup has of a tile.
  struct Share {
    int first;  // query
    int head;
  };

  Sequences sequences;
  int part_rows = 0;         // queries of a part
  int parts = 0;             // of a tile
  int group = 0;             // heads of q that share a head of keys
  int heads_a_batch = 0;     // of keys
  int heads = 0;             // of keys, of all batches of a dense call
  int64_t section_keys = 0;  // of all heads together: those of 24 MB, half of the L2 of an H100
  bool longest_first = false;
  uint32_t* next = nullptr;  // workspace, zero before and after

  template <class AnyCall>
  TileList(const AnyCall& call, int part_rows, int parts, const char* rung, void* workspace)
      : sequences(call, rung),
        part_rows(part_rows),
        parts(parts),
        group(static_cast<int>(call.group())),
        heads_a_batch(static_cast<int>(call.kv_heads)),
        heads(static_cast<int>(call.kv_heads * (sequences.packed ? 1 : call.batch))),
        section_keys((int64_t{24} << 20) / (static_cast<int64_t>(size_of(call.dtype)) *
                                            (call.head_dim + call.value_dim))),
        longest_first(call.window.right >= 0),
        next(static_cast<uint32_t*>(workspace)) {}

  // At most so many tiles there are: of packed sequences each may end with a part of few queries,
  // and a tile of few parts.
  int64_t most() const {
    const int64_t filled = sequences.packed ? std::min(sequences.count, sequences.queries) : 1;
    const int64_t count = std::max<int64_t>(filled, 1);
    const int64_t all = (divide_up(sequences.queries, part_rows) + count - 1) * group;
    return heads * divide_up(all + (count - 1) * (parts - 1), parts);
  }

#if WS_DEVICE_CODE
  // By one thread of each block: numbers from 0 on. `tiles` is the first that is none; each block
  // draws one of those, and the last sets the counter back.
  __device__ __forceinline__ uint32_t draw() const { return ptx::atom_global_add(next, 1U); }
  __device__ __forceinline__ void put_back(uint32_t drawn, uint32_t tiles) const {
    if (drawn == tiles + static_cast<uint32_t>(grid_blocks()) - 1) ptx::atom_global_exch(next, 0U);
  }

  // By all lanes of a warp: tile `index`, and how many there are, where it is none.
  __device__ __forceinline__ FlashTile at(uint32_t index, uint32_t& tiles) const {
    if (sequences.packed) return packed_at(static_cast<int>(index), tiles);
    const int tall = tiles_of(static_cast<int>(sequences.queries));
    tiles = static_cast<uint32_t>(tall * heads);
    if (index >= tiles) return {};
    const Place place = place_of(static_cast<int>(index), tall, static_cast<int>(sequences.keys));
    const int batch = place.head / heads_a_batch;
    const int head = place.head - batch * heads_a_batch;
    const Share first = first_of(place.tile);
    return {.q = {0, head * group + first.head, batch},
            .kv = {0, head, batch},
            .first = first.first,
            .rows = rows_of(first),
            .queries = static_cast<int>(sequences.queries),
            .keys = static_cast<int>(sequences.keys),
            .lse = 0,
            .batch = batch};
  }

  // What the warpgroup has that computes part `index` of a tile; from query tile.queries on if
  // there are no more.
  __device__ __forceinline__ Share share_of(const FlashTile& tile, int index) const {
    const int end = (tile.kv.head + 1) * group;
    Share share{tile.first, tile.q.head + index};
#pragma unroll
    for (int before = 1; before < kMostParts; ++before) {
      if (share.head < end) continue;
      share.head -= group;
      share.first += part_rows;
    }
    return share;
  }

 private:
  struct Place {
    int tile;
    int head;  // of keys
  };

  // The first part of a tile, its head as one of those that share the keys.
  __device__ __forceinline__ Share first_of(int tile) const {
    const int above = tile * parts / group;
    return {above * part_rows, tile * parts - above * group};
  }
  __device__ __forceinline__ int rows_of(const Share& first) const {
    return divide_up(first.head + parts, group) * part_rows;
  }
  // Those that so many queries have with a head of keys.
  __device__ __forceinline__ int tiles_of(int queries) const {
    return divide_up(divide_up(queries, part_rows) * group, parts);
  }

  // The index-th of `tall` tiles of each head of keys.
  __device__ __forceinline__ Place place_of(int index, int tall, int keys) const {
    // Heads that fit into L2 together; or so many that several blocks at a time read each of them.
    int fitting = keys > 0 ? static_cast<int>(section_keys / keys) : heads;
    if (fitting < kLeastHeads) fitting = kLeastHeads;
    if (fitting > heads) fitting = heads;
    const int section = divide_up(heads, divide_up(heads, fitting));
    const int before = index / (section * tall) * section;
    const int here = heads - before < section ? heads - before : section;
    const int in = index - before * tall;
    if (!longest_first) return {in % tall, before + in / tall};
    return {tall - 1 - in / here, before + in % here};
  }

  // Sequences 32 at a time, a lane each.
  __device__ __forceinline__ FlashTile packed_at(int index, uint32_t& tiles) const {
    int before = 0;
    const int lane = lane_index();
    for (int64_t from = 0; from < sequences.count; from += kWarpSize) {
      const int64_t b = from + lane;
      Sequence mine;
      if (b < sequences.count) mine = sequences.of(b);
      const int mine_in_all = tiles_of(static_cast<int>(mine.queries)) * heads;
      int after = mine_in_all;
#pragma unroll
      for (int distance = 1; distance < kWarpSize; distance *= 2) {
        const int others = warp::shuffle_up(after, distance);
        if (lane >= distance) after += others;
      }
      const uint32_t here = ptx::vote_sync_ballot(kFullMask, index < before + after);
      if (here != 0) {
        const int source = ptx::lowest_bit(here);
        const int start = warp::shuffle(after - mine_in_all, source);
        const int queries = warp::shuffle(static_cast<int>(mine.queries), source);
        const int keys = warp::shuffle(static_cast<int>(mine.keys), source);
        const int first_query = warp::shuffle(static_cast<int>(mine.first_query), source);
        const int first_key = warp::shuffle(static_cast<int>(mine.first_key), source);
        const Place place = place_of(index - before - start, tiles_of(queries), keys);
        const Share first = first_of(place.tile);
        return {.q = {-queries, place.head * group + first.head, first_query + queries},
                .kv = {-keys, place.head, first_key + keys},
                .first = first.first,
                .rows = rows_of(first),
                .queries = queries,
                .keys = keys,
                .lse = first_query,
                .batch = static_cast<int>(from) + source};
      }
      before += warp::shuffle(after, kWarpSize - 1);
    }
    tiles = static_cast<uint32_t>(before);
    return {};
  }
#endif
};

}  // namespace ws::attention
