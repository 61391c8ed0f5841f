// The keys of a block in the order of one digit: a pass of a radix sort.
#pragma once

#include "warpsmith/block/scan.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/forget.hpp"
#include "warpsmith/thread/tile.hpp"

#if WS_DEVICE_CODE
namespace ws::block {

// Where each key of a block stands when they are put in the order of a digit, those of one digit as
// threads held them before: thread t has keys t * kKeys to t * kKeys + kKeys - 1.
//
// A thread counts its keys by their digit in counters of its own, and what a counter was is a key's
// place among those of its thread. The sum of all counters before one, digit by digit and in each
// thread by thread, is where that thread's keys of that digit begin (D. Merrill and A. Grimshaw,
// "High Performance and Scalable Radix Sorting", 2011). Nothing depends on what the keys are but
// who meets in a bank where they are put.
//
// A word has the counters of two digits, half of all digits apart, and a thread's words lie in a
// bank that no other lane of its warp has.
template <int kThreads, int kKeys>
class DigitOrder {
  static constexpr int kCount = kThreads * kKeys;
  static constexpr int kMostRows = 32;
  static constexpr uint32_t kRowsAtOnce = 8;
  static_assert(kThreads % kWarpSize == 0 && kCount < 1 << 16 &&
                2 * kMostRows * kThreads <= 1 << 16);

 public:
  using Keys = thread::Tile<uint32_t, kKeys>;
  struct Storage {
    SharedArray<uint32_t, kMostRows * kThreads> counters;
  };
  using WarpSums = ScanOfWarps<uint32_t, kThreads>;

  __device__ __forceinline__ DigitOrder(Storage& storage, typename WarpSums::Storage& sums)
      : storage_(storage), sums_(sums) {}

  // The places of keys by the digit of `bits`, 5 or 6, from bit `shift` on. All threads call; a
  // barrier before, where the storage had something else, and one before it has something else
  // again.
  __device__ __forceinline__ Keys operator()(const Keys& keys, int shift, int bits WS_AND_PLACE) {
    const uint32_t rows = 1U << (bits - 1);
    const auto thread = static_cast<uint32_t>(thread_index());
    const SharedSpan<uint16_t> counters = halves();
#pragma unroll 1
    for (uint32_t first = 0; first < rows; first += kRowsAtOnce) {
#pragma unroll
      for (uint32_t r = 0; r < kRowsAtOnce; ++r) {
        storage_.counters[{(first + r) * kThreads + thread WS_PASS_AND_PLACE}] = 0;
      }
    }
    Keys places;  // until they are known, a counter and, above it, what it was
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const uint32_t row = keys[j] >> shift & (rows - 1);
      const uint32_t half = keys[j] >> (shift + bits - 1) & 1;
      const uint32_t counter = (row * (2 * kThreads) + 2 * thread) | half;
      const uint32_t before = counters[{counter WS_PASS_AND_PLACE}];
      counters[{counter WS_PASS_AND_PLACE}] = static_cast<uint16_t>(before + 1);
      // Packed: taken apart again by the compiler, they would be half as many registers more.
      places[j] = thread::forget(before << 16 | counter);
    }
    sync(WS_PASS_PLACE);
    add_up(thread * rows, rows WS_PASS_AND_PLACE);
    sync(WS_PASS_PLACE);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const uint32_t begin = counters[{places[j] & 0xFFFF WS_PASS_AND_PLACE}];
      places[j] = begin + (places[j] >> 16);
    }
    return places;
  }

  // How many keys of the last call have a smaller digit. Before the storage has something else.
  __device__ __forceinline__ uint32_t before(uint32_t digit, int bits WS_AND_PLACE) const {
    const uint32_t rows = 1U << (bits - 1);
    return halves()[{(digit % rows) * kThreads * 2 + digit / rows WS_PASS_AND_PLACE}];
  }

  // A barrier of the block; of a warp where that is all.
  __device__ __forceinline__ static void sync(WS_PLACE) {
    if constexpr (kThreads == kWarpSize) {
      ptx::syncwarp(kFullMask WS_PASS_AND_PLACE);
    } else {
      ptx::barrier_sync(WS_PASS_PLACE);
    }
  }

 private:
  __device__ __forceinline__ SharedSpan<uint16_t> halves() const {
    return {reinterpret_cast<uint16_t*>(storage_.counters.pointer()), 2 * storage_.counters.size()};
  }

  // Makes counters sums of those before them. A thread has `rows` words from `begin` on; lower
  // halves come before all upper ones. It begins with another word than its neighbours, or all
  // would be in one bank, goes on to its last and then from its first.
  __device__ __forceinline__ void add_up(uint32_t begin, uint32_t rows WS_AND_PLACE) {
    const auto add = [](uint32_t a, uint32_t b) { return a + b; };
    const uint32_t turn = begin / kWarpSize & (rows - 1);
    const auto word = [&](uint32_t step) { return begin | ((step + turn) & (rows - 1)); };
    uint32_t sum = 0;
    uint32_t to_last = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < rows; first += kRowsAtOnce) {
#pragma unroll
      for (uint32_t r = 0; r < kRowsAtOnce; ++r) {
        const uint32_t count = storage_.counters[{word(first + r) WS_PASS_AND_PLACE}];
        sum += count;
        if (first + r + turn + 1 == rows) to_last = sum;
      }
    }
    const uint32_t inclusive = warp::inclusive_scan(sum, add WS_PASS_AND_PLACE);
    uint32_t total = warp::shuffle(inclusive, kWarpSize - 1, kFullMask WS_PASS_AND_PLACE);
    uint32_t before = inclusive - sum;
    if constexpr (kThreads > kWarpSize) {
      const typename WarpSums::Result warps = sums_(total, 0U, add WS_PASS_AND_PLACE);
      before += warps.before;
      total = warps.total;
    }
    before += total << 16;
    uint32_t next = before + (sum - to_last);
#pragma unroll 1
    for (uint32_t first = 0; first < rows; first += kRowsAtOnce) {
#pragma unroll
      for (uint32_t r = 0; r < kRowsAtOnce; ++r) {
        if (first + r + turn == rows) next = before;
        const uint32_t count = storage_.counters[{word(first + r) WS_PASS_AND_PLACE}];
        storage_.counters[{word(first + r) WS_PASS_AND_PLACE}] = next;
        next += count;
      }
    }
  }

  Storage& storage_;
  WarpSums sums_;
};

}  // namespace ws::block
#endif
