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

// Queries of a head that a block computes together.
struct FlashTile {
  HeadPlace q;  // of the sequence
  HeadPlace kv;
  int first = 0;    // query of the sequence
  int queries = 0;  // of the sequence
  int keys = 0;
  int lse = 0;     // row of lse that query 0 has
  int batch = -1;  // below zero: there are no more tiles
};

struct TileList {
  static constexpr int kLeastHeads = 24;  // of keys

  Sequences sequences;
  int rows = 0;              // queries of a tile
  int heads_a_tile = 1;      // that share a head of keys, each with the same queries
  int units = 0;             // heads of q, so many at a time; of all batches of a dense call
  int units_a_batch = 0;     // of q
  int group = 0;             // units that share a head of keys
  int64_t section_keys = 0;  // of all heads together: those of 24 MB, half of the L2 of an H100
  bool longest_first = false;
  uint32_t* next = nullptr;  // workspace, zero before and after

  // `parts` warpgroups have `part_rows` queries each: of one head, or, so that causal tiles are
  // less tall, of as many heads as there are warpgroups.
  template <class AnyCall>
  TileList(const AnyCall& call, int part_rows, int parts, const char* rung, void* workspace)
      : sequences(call, rung),
        section_keys((int64_t{24} << 20) / (static_cast<int64_t>(size_of(call.dtype)) *
                                            (call.head_dim + call.value_dim))),
        longest_first(call.window.right >= 0),
        next(static_cast<uint32_t*>(workspace)) {
    const auto heads_of_group = static_cast<int>(call.group());
    if (heads_of_group % parts == 0) heads_a_tile = parts;
    rows = heads_a_tile > 1 ? part_rows : part_rows * parts;
    units_a_batch = static_cast<int>(call.heads) / heads_a_tile;
    units = sequences.packed ? units_a_batch : units_a_batch * static_cast<int>(call.batch);
    group = heads_of_group / heads_a_tile;
  }

  // At most so many tiles there are.
  int64_t most() const {
    if (!sequences.packed) return units * divide_up(sequences.queries, rows);
    return units * (sequences.queries / rows + std::min(sequences.count, sequences.queries));
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
    const int tall = divide_up(static_cast<int>(sequences.queries), rows);
    tiles = static_cast<uint32_t>(tall * units);
    if (index >= tiles) return {};
    const Place place = place_of(static_cast<int>(index), tall, static_cast<int>(sequences.keys));
    const int batch = place.unit / units_a_batch;
    const int unit = place.unit - batch * units_a_batch;
    return {.q = {0, unit * heads_a_tile, batch},
            .kv = {0, unit / group, batch},
            .first = place.tile * rows,
            .queries = static_cast<int>(sequences.queries),
            .keys = static_cast<int>(sequences.keys),
            .lse = 0,
            .batch = batch};
  }

 private:
  struct Place {
    int tile;
    int unit;
  };

  // The index-th of `tall` tiles of each unit.
  __device__ __forceinline__ Place place_of(int index, int tall, int keys) const {
    // Heads that fit into L2 together; or so many that several blocks at a time read each of them.
    int fitting = keys > 0 ? static_cast<int>(section_keys / keys) : units;
    if (fitting < kLeastHeads) fitting = kLeastHeads;
    if (fitting > units) fitting = units;
    const int sections = divide_up(units, fitting * group);
    const int section = round_up(divide_up(units, sections), group);
    const int before = index / (section * tall) * section;
    const int here = units - before < section ? units - before : section;
    const int in = index - before * tall;
    if (!longest_first) return {in % tall, before + in / tall};
    return {tall - 1 - in / here, before + in % here};
  }

  // Sequences 32 at a time, a lane each.
  __device__ __forceinline__ FlashTile packed_at(int index, uint32_t& tiles) const {
    int before = 0;
    const int lane = lane_index();
    for (int64_t first = 0; first < sequences.count; first += kWarpSize) {
      const int64_t b = first + lane;
      Sequence mine;
      if (b < sequences.count) mine = sequences.of(b);
      const int tall = divide_up(static_cast<int>(mine.queries), rows);
      int after = tall * units;
#pragma unroll
      for (int distance = 1; distance < kWarpSize; distance *= 2) {
        const int others = warp::shuffle_up(after, distance);
        if (lane >= distance) after += others;
      }
      const uint32_t here = ptx::vote_sync_ballot(kFullMask, index < before + after);
      if (here != 0) {
        const int source = ptx::lowest_bit(here);
        const int start = warp::shuffle(after - tall * units, source);
        const int queries = warp::shuffle(static_cast<int>(mine.queries), source);
        const int keys = warp::shuffle(static_cast<int>(mine.keys), source);
        const int first_query = warp::shuffle(static_cast<int>(mine.first_query), source);
        const int first_key = warp::shuffle(static_cast<int>(mine.first_key), source);
        const Place place = place_of(index - before - start, divide_up(queries, rows), keys);
        return {.q = {-queries, place.unit * heads_a_tile, first_query + queries},
                .kv = {-keys, place.unit / group, first_key + keys},
                .first = place.tile * rows,
                .queries = queries,
                .keys = keys,
                .lse = first_query,
                .batch = static_cast<int>(first) + source};
      }
      before += warp::shuffle(after, kWarpSize - 1);
    }
    tiles = static_cast<uint32_t>(before);
    return {};
  }
#endif
};

}  // namespace ws::attention
