// The keys of a block in the order of one digit of 8 bits: a pass of a radix sort by few, wide
// digits.
#pragma once

#include "warpsmith/block/scan.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/forget.hpp"
#include "warpsmith/thread/tile.hpp"
#include "warpsmith/warp/match.hpp"

#if WS_DEVICE_CODE
namespace ws::block {

// Where each key of a block stands when they are put in the order of a digit, those of one digit as
// they were before: warp after warp, key j of all lanes before key j + 1 of any, so that a warp may
// load 32 that lie side by side.
//
// A warp has a counter for each digit. Lanes whose keys have the same digit find each other by
// ballots, and read its counter; the last of them adds them all. Counters are added up digit by
// digit, and in each warp by warp. Beside DigitOrder, whose threads have counters of their own: one
// pass where that needs two of 4 bits, no more counters for more keys, but 8 ballots a key.
template <int kThreads, int kKeys>
class DigitRanks {
 public:
  static constexpr int kDigits = 256;

 private:
  static constexpr int kWarps = kThreads / kWarpSize;
  static_assert(kThreads % kWarpSize == 0 && kThreads >= kDigits);
  static_assert(kKeys % 2 == 0 && kKeys * kWarpSize < 1 << 16);

 public:
  using Keys = thread::Tile<uint32_t, kKeys>;
  using Ranks = thread::Tile<uint32_t, kKeys / 2>;  // two in a word
  using WarpSums = ScanOfWarps<uint32_t, kThreads>;
  struct Storage {
    SharedArray<uint32_t, kWarps * kDigits> counters;
    typename WarpSums::Storage sums;
  };

  __device__ __forceinline__ explicit DigitRanks(Storage& storage) : storage_(storage) {}

  // Which of the block's keys is this thread's first; the others follow 32 apart.
  __device__ __forceinline__ static uint32_t first() {
    return static_cast<uint32_t>(warp_index() * kKeys * kWarpSize + lane_index());
  }
  __device__ __forceinline__ static uint32_t digit(uint32_t key, int shift) {
    return key >> shift & (kDigits - 1);
  }

  // Counts keys by the digit from bit `shift` on: of each, how many of its warp come before it.
  __device__ __forceinline__ Ranks count(const Keys& keys, int shift WS_AND_PLACE) {
    const uint32_t counters = mine();
#pragma unroll
    for (int i = 0; i < kDigits / kWarpSize; ++i) {
      storage_.counters[{counters + i * kWarpSize + lane_index() WS_PASS_AND_PLACE}] = 0;
    }
    ptx::syncwarp(kFullMask WS_PASS_AND_PLACE);
    Ranks ranks;
    uint32_t even = 0;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const uint32_t counter = counters + digit(keys[j], shift);
      const uint32_t peers = warp::match<8>(digit(keys[j], shift) WS_PASS_AND_PLACE);
      const uint32_t before = storage_.counters[{counter WS_PASS_AND_PLACE}];
      const uint32_t below = peers & ((1U << lane_index()) - 1);
      const uint32_t rank = before + static_cast<uint32_t>(ptx::count_bits(below));
      ptx::syncwarp(kFullMask WS_PASS_AND_PLACE);
      if (peers >> lane_index() == 1) {
        storage_.counters[{counter WS_PASS_AND_PLACE}] = rank + 1;
      }
      ptx::syncwarp(kFullMask WS_PASS_AND_PLACE);
      // Packed: taken apart again by the compiler, they would be half as many registers more.
      if (j % 2 == 0) {
        even = rank;
      } else {
        ranks[j / 2] = thread::forget(even | rank << 16);
      }
    }
    return ranks;
  }

  // The places of keys, from what count() gave. All threads call.
  __device__ __forceinline__ Keys places(const Ranks& ranks, const Keys& keys,
                                         int shift WS_AND_PLACE) {
    ptx::barrier_sync(WS_PASS_PLACE);
    add_up(WS_PASS_PLACE);
    ptx::barrier_sync(WS_PASS_PLACE);
    Keys places;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      // Not kept from count(): as many registers again.
      const uint32_t counter = mine() + digit(thread::forget(keys[j]), shift);
      const uint32_t begin = storage_.counters[{counter WS_PASS_AND_PLACE}];
      places[j] = begin + (j % 2 == 0 ? ranks[j / 2] & 0xFFFF : ranks[j / 2] >> 16);
    }
    return places;
  }

  // How many of the keys that were placed last have a smaller digit.
  __device__ __forceinline__ uint32_t before(uint32_t digit WS_AND_PLACE) const {
    return storage_.counters[{digit WS_PASS_AND_PLACE}];
  }

 private:
  __device__ __forceinline__ static uint32_t mine() {
    return static_cast<uint32_t>(warp_index()) * kDigits;
  }

  // Makes counters sums of those before them, a thread those of a digit.
  __device__ __forceinline__ void add_up(WS_PLACE) {
    const auto add = [](uint32_t a, uint32_t b) { return a + b; };
    const auto digit = static_cast<uint32_t>(thread_index());
    uint32_t sum = 0;
    if (digit < kDigits) {
#pragma unroll 4
      for (uint32_t warp = 0; warp < kWarps; ++warp) {
        sum += storage_.counters[{warp * kDigits + digit WS_PASS_AND_PLACE}];
      }
    }
    const uint32_t inclusive = warp::inclusive_scan(sum, add WS_PASS_AND_PLACE);
    const uint32_t total = warp::shuffle(inclusive, kWarpSize - 1, kFullMask WS_PASS_AND_PLACE);
    WarpSums sums(storage_.sums);
    const typename WarpSums::Result warps = sums(total, 0U, add WS_PASS_AND_PLACE);
    if (digit >= kDigits) return;
    uint32_t next = warps.before + inclusive - sum;
#pragma unroll 4
    for (uint32_t warp = 0; warp < kWarps; ++warp) {
      const uint32_t count = storage_.counters[{warp * kDigits + digit WS_PASS_AND_PLACE}];
      storage_.counters[{warp * kDigits + digit WS_PASS_AND_PLACE}] = next;
      next += count;
    }
  }

  Storage& storage_;
};

}  // namespace ws::block
#endif
