// The keys of all sequences and heads as one line that is cut evenly among blocks, so that none
// waits for another whatever lengths are: a block walks its stretch, which may begin and end within
// the keys of some rows (stream-K, Osama et al., 2023, for attention).
//
// Query heads that share a head of keys are rows side by side: row r of a sequence is query
// r / group of head r % group. So many rows as a tile has, with the keys that they see, are an
// item; its keys are counted in units, which hold the keys that any query of the sequence sees.
#pragma once

#include "kernels/attention/query_tiles.hpp"
#include "warpsmith/block/scan.hpp"

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

// Made on the host. A tile has kRows rows, a unit kUnit keys.
template <int kRows, int kUnit, int kThreads>
struct KeyLine {
  // Blocks with less would cost more to put together than they save.
  static constexpr int kLeast = 8;  // units
  static constexpr int kTileRows = kRows;
  static constexpr int kStarts = kThreads;

  Sequences sequences;
  int left, right;  // of the window
  int kv_heads;
  int group;
  int each;  // sequences a thread counts
  thread::Divider by_group;

  KeyLine(const Call& call, const Sequences& all)
      : sequences(all),
        left(narrow_side(call.window.left)),
        right(narrow_side(call.window.right)),
        kv_heads(static_cast<int>(call.kv_heads)),
        group(static_cast<int>(call.group())),
        each(static_cast<int>(divide_up(all.count, kThreads))),
        by_group(call.group()) {}

#if WS_DEVICE_CODE
  // Of a sequence: those of each item, of which there are some for each head of keys.
  struct Span {
    int first = 0;
    int units = 0;
    int items = 0;
  };
  // Units that blocks before sequences of a thread have, and of all behind the last.
  struct Storage {
    SharedArray<int, kThreads + 1> starts;
    typename block::ScanOfWarps<int, kThreads>::Storage scan;
  };

  __device__ __forceinline__ Seen<int> seen_of(int queries, int keys) const {
    return {keys - queries, keys, left, right};
  }
  // A sequence without keys has a unit without keys: its rows are written.
  __device__ __forceinline__ Span span_of(const Sequence& sequence) const {
    const auto queries = static_cast<int>(sequence.queries);
    const auto keys = static_cast<int>(sequence.keys);
    if (queries == 0) return {};
    const int first = seen_of(queries, keys).first(0) / kUnit * kUnit;
    const int units = keys > first ? divide_up(keys - first, kUnit) : 1;
    return {first, units, divide_up(queries * group, kRows) * kv_heads};
  }

  // The line, by all threads: its units.
  __device__ __forceinline__ int lay_out(Storage& shared) const {
    const auto add = [](int a, int b) { return a + b; };
    const auto count = static_cast<int>(sequences.count);
    int units = 0;
    for (int i = 0; i < each; ++i) {
      const int b = thread_index() * each + i;
      if (b >= count) break;
      const Span span = span_of(sequences.of(b));
      units += span.units * span.items;
    }
    const int here = warp::inclusive_scan(units, add);
    block::ScanOfWarps<int, kThreads> scan(shared.scan);
    const auto [before, total] = scan(warp::shuffle(here, kWarpSize - 1), 0, add);
    shared.starts[thread_index()] = before + here - units;
    if (thread_index() == 0) shared.starts[kThreads] = total;
    ptx::barrier_sync();
    return total;
  }
#endif
};

// How a line of so many units is cut.
struct KeyCut {
  int units;
  int blocks;  // that have a part of it

  __device__ __forceinline__ KeyCut(int units, int least) : units(units), blocks(units / least) {
    const auto all = static_cast<int>(grid_blocks());
    if (blocks > all) blocks = all;
    if (blocks < 1) blocks = 1;
  }
  __device__ __forceinline__ int first_of(int block) const {
    return static_cast<int>(int64_t{units} * block / blocks);
  }
  __device__ __forceinline__ int block_of(int unit) const {
    return static_cast<int>((int64_t{unit + 1} * blocks - 1) / units);
  }
};

#if WS_DEVICE_CODE
// A block's parts, one after the other.
template <class Line>
class KeyWalk {
 public:
  KeyWalk() = default;
  // From unit `first` of the line on, `count` of them, of which there is one.
  __device__ __forceinline__ KeyWalk(const Line& line, typename Line::Storage& shared, int first,
                                     int count)
      : line_(&line), at_(first), left_(count) {
    int low = 0;
    int high = Line::kStarts;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (shared.starts[middle] <= first ? low : high) = middle;
    }
    int before = shared.starts[low];
    batch_ = low * line_->each;
    enter();
    while (first - before >= part_.units * items_) {
      before += part_.units * items_;
      ++batch_;
      enter();
    }
    item_ = (first - before) / part_.units;
    begin(first - before - item_ * part_.units);
  }

  // False: there are no more.
  __device__ __forceinline__ bool next() {
    if (left_ == 0) return false;
    at_ += part_.end - part_.from;
    if (++item_ == items_) {
      item_ = 0;
      do {
        ++batch_;
        enter();
      } while (items_ == 0);
    }
    begin(0);
    return true;
  }

  __device__ __forceinline__ const KeyPart& part() const { return part_; }
  // Where the item begins in the line.
  __device__ __forceinline__ int item_at() const { return at_ - part_.from; }

 private:
  // Sequence batch_.
  __device__ __forceinline__ void enter() {
    const Sequence sequence = line_->sequences.of(batch_);
    const auto span = line_->span_of(sequence);
    items_ = span.items;
    part_.batch = batch_;
    part_.units = span.units;
    part_.first = span.first;
    part_.first_query = static_cast<int>(sequence.first_query);
    part_.queries = static_cast<int>(sequence.queries);
    part_.first_key = static_cast<int>(sequence.first_key);
    part_.keys = static_cast<int>(sequence.keys);
  }
  // Item item_ of it.
  __device__ __forceinline__ void begin(int from) {
    const int tiles = items_ / line_->kv_heads;
    part_.head = item_ / tiles;
    part_.row = (item_ - part_.head * tiles) * Line::kTileRows;
    part_.from = from;
    part_.end = part_.units - from < left_ ? part_.units : from + left_;
    left_ -= part_.end - part_.from;
  }

  const Line* line_ = nullptr;
  int at_;    // unit of the line that the part begins with
  int left_;  // units behind it
  int batch_, item_, items_;
  KeyPart part_;
};
#endif

}  // namespace ws::attention
