// The keys of all sequences and heads as one line that is cut evenly among blocks, so that none
// waits for another whatever lengths are: a block walks its stretch, which may begin and end within
// the keys of some rows (stream-K, Osama et al., 2023, for attention).
//
// Query heads that share a head of keys are rows side by side: row r of a sequence is query
// r / group of head r % group. So many rows as a tile has, with the keys that they see, are an
// item; its keys are counted in units, which hold the keys that any query of the sequence sees.
//
// Two lines, alike to a kernel: of a dense call, where the host knows it all and a block finds its
// stretch by a few multiplications, and of sequences whose lengths are data.
#pragma once

#include "kernels/attention/query_tiles.hpp"
#include "warpsmith/block/scan.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::attention {

// What a block has of an item: units `from` to `end` of so many.
struct KeyPart {
  int batch;
  int head;  // of keys
  int row;   // the item's first
  int units;
  int from;
  int end;
  int first;  // key of unit 0
  // The sequence, as in Sequence.
  int first_query;
  int queries;
  int first_key;
  int keys;

  __device__ __forceinline__ bool is_whole() const { return from == 0 && end == units; }
};

// A row of a head: of numbers that have no sign, products with which take half the instructions.
template <class T>
__device__ __forceinline__ T* row_at(const Heads& heads, int batch, int head, int row) {
  return heads.at<T>(static_cast<uint32_t>(batch), static_cast<uint32_t>(head),
                     static_cast<uint32_t>(row));
}

// Where a block is in the line.
struct KeyWalk {
  KeyPart part;
  int at;    // unit of the line that the item begins with
  int left;  // units of the block behind the part

  // The part of its item from unit `from` on.
  __device__ __forceinline__ void begin(int from) {
    part.from = from;
    part.end = part.units - from < left ? part.units : from + left;
    left -= part.end - from;
  }
};

// What both lines know of rows. Made on the host.
struct KeyRows {
  int left, right;  // of the window
  int kv_heads;
  int group;
  thread::Divider by_group;

  explicit KeyRows(const Call& call)
      : left(narrow_side(call.window.left)),
        right(narrow_side(call.window.right)),
        kv_heads(static_cast<int>(call.kv_heads)),
        group(static_cast<int>(call.group())),
        by_group(call.group()) {}

  __host__ __device__ __forceinline__ Seen<int> seen_of(int queries, int keys) const {
    return {keys - queries, keys, left, right};
  }
  // The part's sequence without what others see of its keys: units of kUnit. One without keys has a
  // unit without keys: its rows are written.
  template <int kUnit>
  __host__ __device__ __forceinline__ void count_units(KeyPart& part) const {
    part.first = seen_of(part.queries, part.keys).first(0) / kUnit * kUnit;
    part.units = part.keys > part.first ? divide_up(part.keys - part.first, kUnit) : 1;
  }
};

// Blocks with fewer units of 16 or 32 keys would cost more to put together than they save.
inline constexpr int kLeastUnits = 8;

#if WS_DEVICE_CODE
// A block's place in the line. kFromEnd: blocks begin in the order of their numbers, so those
// behind a block in the line have begun, and it may wait for them.
template <bool kFromEnd>
__device__ __forceinline__ int64_t block_in_line() {
  return kFromEnd ? grid_blocks() - 1 - block_index() : block_index();
}
#endif

// What each block has of the line.
struct Share {
  int units;
  int multiple;  // that items are padded to, with units without keys

  __host__ __device__ __forceinline__ int padded(int of_item) const {
    return divide_up(of_item, multiple) * multiple;
  }

  // For so many blocks, of `items` with at most `most` units each, where `fair` is what each block
  // has if it has as much as the others. A share that ends where items end spares blocks a second
  // item and its ends; where each item has several blocks, each of these has one part. It may be
  // above the fair one by a sixteenth, or a unit for each of four warps: memory is as busy without
  // some of the blocks.
  __host__ __device__ __forceinline__ static Share of(uint32_t items, uint32_t fair, uint32_t most,
                                                      uint32_t blocks, uint32_t least) {
    uint64_t even = most;
    if (items >= blocks) {
      even *= divide_up(items, blocks);
    } else if (items > 0) {
      const uint32_t parts = std::min(blocks / items, most / least);
      if (parts > 1) even = divide_up(most, parts);
    }
    if (even > fair + std::max(fair / 16, 4U)) return {static_cast<int>(fair), 1};
    return {static_cast<int>(even), even < most ? static_cast<int>(even) : 1};
  }
};

// The line of a dense call: sequences are alike. A tile has kRows rows, a unit kUnit keys.
template <int kRows, int kUnit, int kLeast = kLeastUnits, bool kFromEnd = false>
struct DenseLine : KeyRows {
  static constexpr bool kPacked = false;

  KeyPart sequence{};  // any: what is the same of all
  int units = 0;       // of all
  int share = 1;       // of a block
  int tiles;           // of a head
  thread::Divider by_units, by_tiles, by_heads, by_share;

  // For so many blocks at most.
  DenseLine(const Call& call, const Sequences& /*all*/, int64_t blocks)
      : KeyRows(call),
        tiles(static_cast<int>(divide_up(call.queries * call.group(), kRows))),
        by_tiles(tiles),
        by_heads(kv_heads) {
    sequence.queries = static_cast<int>(call.queries);
    sequence.keys = static_cast<int>(call.keys);
    count_units<kUnit>(sequence);
    const int64_t items = call.batch * kv_heads * tiles;
    const int64_t fair =
        std::max<int64_t>(kLeast, divide_up(items * int64_t{sequence.units}, blocks));
    const Share chosen =
        Share::of(static_cast<uint32_t>(items), static_cast<uint32_t>(fair),
                  static_cast<uint32_t>(sequence.units), static_cast<uint32_t>(blocks), kLeast);
    share = chosen.units;
    sequence.units = chosen.padded(sequence.units);
    units = static_cast<int>(items * sequence.units);
    by_units = thread::Divider(sequence.units);
    by_share = thread::Divider(share);
  }
  int64_t blocks() const { return divide_up(units, share); }

#if WS_DEVICE_CODE
  struct Storage {};

  __device__ __forceinline__ static int64_t block() { return block_in_line<kFromEnd>(); }
  // Where this block begins. False: it has nothing.
  __device__ __forceinline__ bool start(Storage& /*shared*/, KeyWalk& walk) const {
    const int first = static_cast<int>(block()) * share;
    const auto item = static_cast<int>(by_units.quotient(static_cast<uint32_t>(first)));
    const auto matrix = static_cast<int>(by_tiles.quotient(static_cast<uint32_t>(item)));
    walk.part = sequence;
    walk.part.batch = static_cast<int>(by_heads.quotient(static_cast<uint32_t>(matrix)));
    walk.part.head = matrix - walk.part.batch * kv_heads;
    walk.part.row = (item - matrix * tiles) * kRows;
    walk.at = item * sequence.units;
    walk.left = units - first < share ? units - first : share;
    walk.begin(first - walk.at);
    return true;
  }
  // The next part. False: there is none.
  __device__ __forceinline__ bool next(KeyWalk& walk) const {
    if (walk.left == 0) return false;
    walk.at += sequence.units;
    walk.part.row += kRows;
    if (walk.part.row >= sequence.queries * group) {
      walk.part.row = 0;
      if (++walk.part.head == kv_heads) {
        walk.part.head = 0;
        ++walk.part.batch;
      }
    }
    walk.begin(0);
    return true;
  }
  // The block that has a unit of the line.
  __device__ __forceinline__ int block_of(Storage& /*shared*/, int unit) const {
    return static_cast<int>(by_share.quotient(static_cast<uint32_t>(unit)));
  }
  __device__ __forceinline__ void report() const {}
#endif
};

// The line of sequences whose lengths are data: each block counts them, kThreads at a time. A block
// may have kOthers more threads, behind those. kPads: where items are about as long as each other
// shares end where they end.
template <int kRows, int kUnit, int kThreads, int kLeast = kLeastUnits, int kOthers = 0,
          bool kPads = false, bool kFromEnd = false>
struct PackedLine : KeyRows {
  static constexpr bool kPacked = true;

  Sequences sequences;
  int64_t most_blocks;
  int each;  // sequences a thread counts
  thread::Divider by_blocks;

  PackedLine(const VarlenCall& call, const Sequences& all, int64_t blocks)
      : KeyRows(call),
        sequences(all),
        most_blocks(blocks),
        each(static_cast<int>(divide_up(all.count, kThreads))),
        by_blocks(blocks) {}
  int64_t blocks() const { return most_blocks; }

#if WS_DEVICE_CODE
  struct Storage {
    typename block::ScanOfWarps<int, kThreads>::Storage scan;
    // Of each warp's sequences: items, and the most units of one.
    struct None {};
    [[no_unique_address]] std::conditional_t<kPads, SharedArray<int, 2 * kThreads / kWarpSize>,
                                             None> counts;
    SharedArray<KeyWalk, 1> first;
    SharedArray<int, 1> share;
  };

  __device__ __forceinline__ static int64_t block() { return block_in_line<kFromEnd>(); }
  // Where this block begins. False: it has nothing.
  __device__ __forceinline__ bool start(Storage& shared, KeyWalk& walk) const {
    if constexpr (kOthers == 0) {
      if (!count(shared, walk)) return false;
      ptx::barrier_sync();
    } else {
      if (thread_index() >= kThreads) {
        ptx::barrier_sync();  // those of the scans
        if constexpr (kPads) ptx::barrier_sync();
      } else if (!count(shared, walk) && thread_index() == 0) {
        shared.share[0] = 0;
      }
      ptx::barrier_sync();
      const int share = shared.share[0];
      if (share == 0) return false;
    }
    walk = shared.first[0];
    return true;
  }
  __device__ __forceinline__ bool next(KeyWalk& walk) const {
    if (walk.left == 0) return false;
    walk.at += walk.part.units;
    walk.part.row += kRows;
    if (walk.part.row >= walk.part.queries * group) {
      walk.part.row = 0;
      if (++walk.part.head == kv_heads) {
        walk.part.head = 0;
        while (!enter(walk.part, walk.part.batch + 1)) {
        }
      }
    }
    walk.begin(0);
    return true;
  }
  __device__ __forceinline__ int block_of(Storage& shared, int unit) const {
    const int share = shared.share[0];
    return static_cast<int>(static_cast<uint32_t>(unit) / static_cast<uint32_t>(share));
  }
  __device__ __forceinline__ void report() const {
    sequences.report_lengths(block_index() * kThreads + thread_index(), grid_blocks() * kThreads);
  }

 private:
  // Leaves where the block begins to be read behind a barrier. False: it has nothing.
  __device__ __forceinline__ bool count(Storage& shared, KeyWalk& walk) const {
    // Lengths that are right have up to 2^30 units; wrong starts that overlap may have any number,
    // and are walked by nobody.
    constexpr uint32_t kMost = 0x7fffffff;
    const auto add = [](int a, int b) {
      const uint32_t sum = static_cast<uint32_t>(a) + static_cast<uint32_t>(b);
      return static_cast<int>(sum < kMost ? sum : kMost);
    };
    const int begin = thread_index() * each;
    int size = 0;
    int items = 0;
    int most = 0;
#pragma unroll 1
    for (int i = 0; i < each; ++i) {
      if (!enter(walk.part, begin + i)) continue;
      const int more = items_of(walk.part);
      size = add(size, walk.part.units * more);
      items = add(items, more);
      most = std::max(most, walk.part.units);
    }
    const auto higher = [](int a, int b) { return std::max(a, b); };
    if constexpr (kPads) {
      items = warp::all_reduce(items, add);
      most = warp::all_reduce(most, higher);
      if (lane_index() == 0) {
        shared.counts.template store<2>(warp_index() * 2, Vec<int, 2>{items, most});
      }
    }
    int here = warp::inclusive_scan(size, add);
    block::ScanOfWarps<int, kThreads> scan(shared.scan);
    auto [before, units] = scan(warp::shuffle(here, kWarpSize - 1), 0, add);
    const bool fits = units < static_cast<int>(kMost);
    const auto equal = static_cast<int>(
        by_blocks.quotient(static_cast<uint32_t>(units) + by_blocks.divisor() - 1));
    Share share{std::max(equal, kLeast), 1};
    if constexpr (kPads) {
      constexpr int kWarps = kThreads / kWarpSize;
      const auto counts = shared.counts.template load<2>(lane_index() % kWarps * 2);
      items = warp::all_reduce<kWarps>(counts[0], add);
      most = warp::all_reduce<kWarps>(counts[1], higher);
      share = Share::of(static_cast<uint32_t>(items), static_cast<uint32_t>(share.units),
                        static_cast<uint32_t>(most), by_blocks.divisor(), kLeast);
      if (fits && share.multiple > 1) {
        size = 0;
#pragma unroll 1
        for (int i = 0; i < each; ++i) {
          if (!enter_again(walk.part, begin + i)) continue;
          size += share.padded(walk.part.units) * items_of(walk.part);
        }
        here = warp::inclusive_scan(size, add);
        const auto padded = scan(warp::shuffle(here, kWarpSize - 1), 0, add);
        before = padded.before;
        units = padded.total;
      } else {
        ptx::barrier_sync();  // as other threads of the block do
      }
    }
    walk.at = before + here - size;
    const int first = static_cast<int>(block()) * share.units;
    if (!fits || first >= units) return false;
    // One thread has counted the sequence that the block begins in.
    if (walk.at <= first && first < walk.at + size) {
      walk.left = units - first < share.units ? units - first : share.units;
      find(walk, begin, first, share);
      shared.first[0] = walk;
      shared.share[0] = share.units;
    }
    return true;
  }
  // The part's sequence is that of a batch. False: there is none, or it has no queries.
  __device__ __forceinline__ bool enter(KeyPart& part, int batch) const {
    part.batch = batch;
    part.queries = 0;
    if (batch >= static_cast<int>(sequences.count)) return false;
    const Sequence sequence = sequences.of(batch);
    part.first_query = static_cast<int>(sequence.first_query);
    part.queries = static_cast<int>(sequence.queries);
    part.first_key = static_cast<int>(sequence.first_key);
    part.keys = static_cast<int>(sequence.keys);
    count_units<kUnit>(part);
    return part.queries > 0;
  }
  // The same once more: who has counted one sequence is still in it.
  __device__ __forceinline__ bool enter_again(KeyPart& part, int batch) const {
    return each > 1 ? enter(part, batch) : part.queries > 0;
  }
  __device__ __forceinline__ int items_of(const KeyPart& part) const {
    return divide_up(part.queries * group, kRows) * kv_heads;
  }
  // To unit `first` of the line, from where the sequences from `batch` on begin in it.
  __device__ __forceinline__ void find(KeyWalk& walk, int batch, int first,
                                       const Share& share) const {
    KeyPart& part = walk.part;
#pragma unroll 1
    for (;; ++batch) {
      if (!enter_again(part, batch)) continue;
      part.units = share.padded(part.units);
      const int size = part.units * items_of(part);
      if (first - walk.at < size) break;
      walk.at += size;
    }
    const auto item = static_cast<uint32_t>(first - walk.at) / static_cast<uint32_t>(part.units);
    const auto tiles = static_cast<uint32_t>(divide_up(part.queries * group, kRows));
    part.head = static_cast<int>(item / tiles);
    part.row = (static_cast<int>(item) - part.head * static_cast<int>(tiles)) * kRows;
    walk.at += static_cast<int>(item) * part.units;
    walk.begin(first - walk.at);
  }
#endif
};

}  // namespace ws::attention
