// Keys in the order of their upper halves by passes over all of them, a digit each: a block counts
// the digits of its tile, the counts before each are added up, and the block puts its keys there.
#pragma once

#include <algorithm>
#include <utility>

#include "kernels/embedding/add_sorted.hpp"
#include "warpsmith/block/digit_order.hpp"
#include "warpsmith/block/scan.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic_shared.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/running_sums.hpp"

#if WS_DEVICE_CODE
namespace ws::embedding {

inline constexpr int kRadixThreads = 256;
inline constexpr int kRadixKeys = static_cast<int>(kRadixTile) / kRadixThreads;  // of a thread

// Bits of the row that a key tells, complemented, in its upper half.
struct RowDigit {
  int shift;
  int bits;  // 5 or 6

  __device__ __forceinline__ static uint32_t row(uint64_t key) {
    return static_cast<uint32_t>(~key >> 32);
  }
  __device__ __forceinline__ uint32_t of(uint64_t key) const {
    return row(key) >> shift & ((1U << bits) - 1);
  }
};

// counts[digit * tiles + tile]: how many keys of a tile have a digit.
struct CountDigitsKernel {
  static constexpr int kThreads = kRadixThreads;
  struct Arguments {
    const uint64_t* keys;
    uint32_t* counts;
    int64_t count;
    RowDigit digit;
  };
  struct SharedStorage {
    SharedArray<uint32_t, kRadixDigits> counts;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const int thread = thread_index();
    if (thread < kRadixDigits) shared.counts[thread] = 0;
    ptx::barrier_sync();
    const int64_t first = block_index() * kRadixTile + thread;
    thread::Tile<uint64_t, kRadixKeys> keys;  // all on their way before the first is counted
#pragma unroll
    for (int j = 0; j < kRadixKeys; ++j) {
      keys[j] = 0;
      if (first + j * kThreads < a.count) keys[j] = thread::load(a.keys + first + j * kThreads);
    }
#pragma unroll
    for (int j = 0; j < kRadixKeys; ++j) {
      if (first + j * kThreads >= a.count) break;
      ptx::red_shared_increment(shared.counts.pointer(a.digit.of(keys[j])));
    }
    ptx::barrier_sync();
    if (thread < 1 << a.digit.bits) {
      thread::store(a.counts + thread * grid_blocks() + block_index(), shared.counts[thread]);
    }
  }
};

// Makes the counts of a digit, one block's, sums of those before them, and tells the sum of all.
struct AddUpDigitKernel {
  static constexpr int kThreads = 256;
  using Scan = block::ScanOfWarps<uint32_t, kThreads>;
  struct Arguments {
    uint32_t* counts;
    uint32_t* totals;
    int64_t tiles;
  };
  struct SharedStorage {
    typename Scan::Storage scan;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const auto add = [](uint32_t x, uint32_t y) { return x + y; };
    Scan scan(shared.scan);
    const uint32_t total = thread::running_sums<kThreads>(
        a.counts + block_index() * a.tiles, a.tiles, thread_index(), [&](uint32_t sum) {
          const uint32_t up_to = warp::inclusive_scan(sum, add);
          const auto warps = scan(warp::shuffle(up_to, kWarpSize - 1), 0U, add);
          return thread::SumsOfTurn{warps.before + up_to - sum, warps.total};
        });
    if (thread_index() == 0) thread::store(a.totals + block_index(), total);
  }
};

// Puts a tile's keys in the order of the digit, in shared memory, so that those of one digit, which
// go to places side by side, are written together.
struct ScatterKernel {
  static constexpr int kThreads = kRadixThreads;
  static constexpr int kMinBlocks = 3;
  static constexpr int kTile = static_cast<int>(kRadixTile);
  using Order = block::DigitOrder<kThreads, kRadixKeys>;
  struct Arguments {
    const uint64_t* from;
    uint64_t* to;
    const uint32_t* counts;
    const uint32_t* totals;
    int64_t count;
    RowDigit digit;
  };
  struct SharedStorage {
    union {
      typename Order::Storage order;
      SharedArray<uint64_t, kTile + kTile / kRadixKeys> keys;
    };
    typename Order::WarpSums::Storage sums;
    SharedArray<uint32_t, kRadixDigits> starts;  // where a digit's keys go, less their place here
  };
  // A key after those of a thread, so that threads read theirs from different banks.
  __device__ __forceinline__ static uint32_t skewed(uint32_t i) { return i + i / kRadixKeys; }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const auto thread = static_cast<uint32_t>(thread_index());
    const int64_t first = block_index() * kTile;
    const int64_t left = a.count - first;
    const auto count = static_cast<uint32_t>(left < kTile ? left : kTile);
    const uint64_t* from = a.from + first;
    // Behind the last key there is one of no row, which stays behind all.
#pragma unroll
    for (int j = 0; j < kRadixKeys; ++j) {
      const uint32_t i = j * kThreads + thread;
      uint64_t key = 0;
      if (i < count) key = thread::load(from + i);
      shared.keys[skewed(i)] = key;
    }
    ptx::barrier_sync();
    thread::Tile<uint64_t, kRadixKeys> keys;
#pragma unroll
    for (int j = 0; j < kRadixKeys; ++j) keys[j] = shared.keys[skewed(thread * kRadixKeys) + j];
    ptx::barrier_sync();
    Order order(shared.order, shared.sums);
    const auto places = order(thread::map(keys, RowDigit::row), a.digit.shift, a.digit.bits);
    if (warp_index() == 0) start_digits(shared, a, order);
    ptx::barrier_sync();
#pragma unroll
    for (int j = 0; j < kRadixKeys; ++j) shared.keys[skewed(places[j])] = keys[j];
    ptx::barrier_sync();
#pragma unroll
    for (int j = 0; j < kRadixKeys; ++j) {
      const uint32_t i = j * kThreads + thread;
      if (i >= count) break;
      const uint64_t key = shared.keys[skewed(i)];
      const uint32_t start = shared.starts[a.digit.of(key)];
      thread::store(a.to + (start + i), key);
    }
  }

 private:
  // Two digits a lane.
  __device__ __forceinline__ static void start_digits(SharedStorage& shared, const Arguments& a,
                                                      const Order& order) {
    const uint32_t digit = 2 * static_cast<uint32_t>(lane_index());
    const bool exist = digit < 1U << a.digit.bits;
    uint32_t totals[2] = {};
    if (exist) {
      totals[0] = thread::load(a.totals + digit);
      totals[1] = thread::load(a.totals + digit + 1);
    }
    const uint32_t sum = totals[0] + totals[1];
    uint32_t start = warp::inclusive_scan(sum, [](uint32_t x, uint32_t y) { return x + y; }) - sum;
    if (!exist) return;
#pragma unroll
    for (uint32_t d = 0; d < 2; ++d) {
      const uint32_t before = thread::load(a.counts + (digit + d) * grid_blocks() + block_index());
      shared.starts[digit + d] = start + before - order.before(digit + d, a.digit.bits);
      start += totals[d];
    }
  }
};

// Sorts by rows of `row_bits`; keys of one row stay in their order. `counts` is the room of
// radix_counts(); gives the memory, of the two, in which the keys then are.
inline uint64_t* sort_by_digits(uint64_t* keys, uint64_t* others, uint32_t* counts, int64_t count,
                                int row_bits, Stream stream) {
  const int64_t tiles = divide_up(count, kRadixTile);
  uint32_t* const totals = counts + kRadixDigits * tiles;
  const int passes = divide_up(row_bits, 6);
  const int bits = std::max(divide_up(row_bits, passes), 5);
  for (int pass = 0; pass < passes; ++pass) {
    const RowDigit digit{std::min(pass * bits, 32 - bits), bits};
    launch<CountDigitsKernel>({.blocks = tiles, .threads = kRadixThreads, .overlaps = true}, stream,
                              {keys, counts, count, digit});
    launch<AddUpDigitKernel>(
        {.blocks = int64_t{1} << bits, .threads = AddUpDigitKernel::kThreads, .overlaps = true},
        stream, {counts, totals, tiles});
    launch<ScatterKernel>({.blocks = tiles, .threads = kRadixThreads, .overlaps = true}, stream,
                          {keys, others, counts, totals, count, digit});
    std::swap(keys, others);
  }
  return keys;
}

}  // namespace ws::embedding
#endif
