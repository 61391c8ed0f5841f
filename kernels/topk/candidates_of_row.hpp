// Candidates: how a warp finds the best k of many elements without sorting them. It keeps those
// that reach a bound, which at least k of all that it has seen do; where there are too many, the
// bound is raised.
#pragma once

#include "kernels/topk/rows.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/half.hpp"
#include "warpsmith/ptx/math.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/tile.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::topk {

inline constexpr int64_t kMostOutputs = 128;  // of the rungs that keep candidates

#if WS_DEVICE_CODE

// ---- Of a vector ------------------------------------------------------------------------------

// The worth of a vector's best element: its maximum, two elements an instruction, or minimum.
// Largest first a NaN is best, and the maximum that is NaN where one is finds it; smallest first it
// is last, and the minimum is of numbers while there are any.
template <class T, int kWidth>
__device__ __forceinline__ uint32_t peak(const Vec<T, kWidth>& vector, uint32_t flip) {
  if constexpr (sizeof(T) == 2) {
    uint32_t words[kWidth / 2];
    std::memcpy(words, &vector, sizeof(vector));
    uint32_t best = words[0];
#pragma unroll
    for (int w = 1; w < kWidth / 2; ++w) {
      best = flip == 0 ? ptx::max_nan_x2<T>(best, words[w]) : ptx::min_x2<T>(best, words[w]);
    }
    T low;
    T high;
    low.bits = static_cast<uint16_t>(best);
    high.bits = static_cast<uint16_t>(best >> 16);
    const uint32_t a = Worth<T>::of(low, flip);
    const uint32_t b = Worth<T>::of(high, flip);
    return a < b ? b : a;
  } else {
    uint32_t best = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const uint32_t worth = Worth<T>::of(vector[i], flip);
      best = best < worth ? worth : best;
    }
    return best;
  }
}

// The n-th largest of a thread's few values, n from 1; 0 beyond them.
template <int kCount>
__device__ __forceinline__ uint32_t nth_of_mine(thread::Tile<uint32_t, kCount> values, int n) {
  const auto largest = [&] {
    return thread::fold(values, 0U, [](uint32_t a, uint32_t b) { return a < b ? b : a; });
  };
  uint32_t nth = largest();
  for (int i = 1; i < n; ++i) {
    bool is_gone = false;  // one of those that are equal
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (!is_gone && values[j] == nth) {
        values[j] = 0;
        is_gone = true;
      }
    }
    nth = largest();
  }
  return nth;
}

// ---- Among lanes ------------------------------------------------------------------------------

// The n-th largest of the lanes' values, n from 1 to 32: a bitonic network of 15 shuffles.
__device__ __forceinline__ uint32_t nth_largest(uint32_t value, int n WS_AND_PLACE) {
#pragma unroll
  for (int size = 2; size <= kWarpSize; size *= 2) {
#pragma unroll
    for (int distance = size / 2; distance > 0; distance /= 2) {
      const uint32_t other = warp::shuffle_xor(value, distance, kFullMask WS_PASS_AND_PLACE);
      const bool larger = ((lane_index() & distance) == 0) == ((lane_index() & size) == 0);
      value = (value < other) == larger ? other : value;
    }
  }
  return warp::shuffle(value, n - 1, kFullMask WS_PASS_AND_PLACE);
}

// A worth that at least k elements of the warp reach, from the peaks of its lanes' vectors: where
// so many lanes have r peaks each that reach it, they are k. 0 where there are not enough.
template <int kVectors>
__device__ __forceinline__ uint32_t reached_by(const thread::Tile<uint32_t, kVectors>& peaks,
                                               int k WS_AND_PLACE) {
  const int of_a_lane = divide_up(k, kWarpSize);
  const uint32_t mine = nth_of_mine(peaks, of_a_lane);
  return nth_largest(mine, divide_up(k, of_a_lane) WS_PASS_AND_PLACE);
}

// How many lanes below this one are in a ballot.
__device__ __forceinline__ int lanes_before(uint32_t ballot) {
  return ptx::count_bits(ballot & ((1U << lane_index()) - 1));
}

// A bound that at least `least` and at most `most` keys reach, by halving, where `low` is reached
// by more, `high` by fewer than `least`, and least <= most: keys differ, so that there is one.
// count(bound) says how many reach it, the same to all who ask.
template <class Count>
__device__ __forceinline__ uint64_t bound_between(uint64_t low, uint64_t high, int least, int most,
                                                  const Count& count) {
  for (;;) {
    const uint64_t middle = low + (high - low) / 2;
    const int reach = count(middle);
    if (reach > most) {
      low = middle;
    } else if (reach < least) {
      high = middle;
    } else {
      return middle;
    }
  }
}

// ---- Of a warp --------------------------------------------------------------------------------

// The candidates of one warp; count and bound are the same in all lanes. k is at most kMostOutputs.
class Candidates {
 public:
  static constexpr int kCapacity = 256;
  static constexpr int kMostKept = 192;  // when the bound is raised
  static_assert(kMostOutputs <= kMostKept && kMostKept + kWarpSize <= kCapacity);

  __device__ __forceinline__ Candidates(SharedSpan<uint64_t> keys, int k, uint64_t bound)
      : keys_(keys), k_(k), bound_(bound) {}

  __device__ __forceinline__ int count() const { return count_; }
  __device__ __forceinline__ uint64_t bound() const { return bound_; }
  __device__ __forceinline__ uint32_t least_worth() const {
    return static_cast<uint32_t>(bound_ >> 32);
  }

  // All lanes offer a key, 0 for none.
  __device__ __forceinline__ void add(uint64_t key WS_AND_PLACE) {
    if (count_ > kCapacity - kWarpSize) raise_bound(WS_PASS_PLACE);
    const bool reaches = key != 0 && key >= bound_;
    const uint32_t ballot = ptx::vote_sync_ballot(kFullMask, reaches WS_PASS_AND_PLACE);
    if (reaches) keys_[{count_ + lanes_before(ballot) WS_PASS_AND_PLACE}] = key;
    count_ += ptx::count_bits(ballot);
  }

 private:
  __device__ __forceinline__ void raise_bound(WS_PLACE) {
    constexpr int kMine = kCapacity / kWarpSize;
    uint64_t mine[kMine];
    uint64_t high = 0;
    ptx::syncwarp(kFullMask WS_PASS_AND_PLACE);
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const int i = lane_index() + j * kWarpSize;
      mine[j] = 0;
      if (i < count_) mine[j] = keys_[{i WS_PASS_AND_PLACE}];
      high = high < mine[j] ? mine[j] : high;
    }
#pragma unroll
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
      const uint64_t other = warp::shuffle_xor(high, distance, kFullMask WS_PASS_AND_PLACE);
      high = high < other ? other : high;
    }
    bound_ = bound_between(bound_, high + 1, k_, kMostKept, [&](uint64_t bound) {
      int reach = 0;
#pragma unroll
      for (const uint64_t key : mine) reach += key >= bound ? 1 : 0;
      return ptx::redux_sync_add(kFullMask, reach WS_PASS_AND_PLACE);
    });
    count_ = 0;
    ptx::syncwarp(kFullMask WS_PASS_AND_PLACE);
#pragma unroll
    for (const uint64_t key : mine) {
      const bool stays = key >= bound_;
      const uint32_t ballot = ptx::vote_sync_ballot(kFullMask, stays WS_PASS_AND_PLACE);
      if (stays) keys_[{count_ + lanes_before(ballot) WS_PASS_AND_PLACE}] = key;
      count_ += ptx::count_bits(ballot);
    }
  }

  SharedSpan<uint64_t> keys_;  // kCapacity
  int k_;
  int count_ = 0;
  uint64_t bound_;
};

// What a row is made of: whole aligned vectors and up to 2 * (kWidth - 1) elements beside them.
template <class T>
struct VectorsOf {
  static constexpr int kWidth = row::kWidest<T>;
  using Vector = Vec<T, kWidth>;
  const T* x;
  uint32_t flip;
  row::Cut<kWidth> cut;

  __device__ __forceinline__ VectorsOf(const T* start, int64_t columns, uint32_t turned)
      : x(start), flip(turned), cut(start, columns) {}

  __device__ __forceinline__ uint64_t key(int64_t i WS_AND_PLACE) const {
    const T element = thread::load(x + i WS_PASS_AND_PLACE);
    return Key<uint64_t>::of(Worth<T>::of(element, flip), i);
  }

  // The elements in no vector.
  __device__ __forceinline__ void add_edges(Candidates& best) const {
    best.add(lane_index() < cut.edges ? key(cut.edge(lane_index())) : 0);
  }

  // All loads are issued before anything waits for one; what the row does not have is worth 0.
  template <int kVectors>
  __device__ __forceinline__ thread::Tile<uint32_t, kVectors> peaks(
      int64_t first, int64_t step WS_AND_PLACE) const {
    Vector vectors[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (first + v * step < cut.vectors) {
        vectors[v] = thread::load<kWidth>(x + cut.at(first + v * step) WS_PASS_AND_PLACE);
      } else {
        vectors[v] = {};
      }
    }
    thread::Tile<uint32_t, kVectors> peaks;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const uint32_t here = peak(vectors[v], flip);
      peaks[v] = first + v * step < cut.vectors ? here : 0;
    }
    return peaks;
  }

  // Adds what reaches the bound in a warp's vectors. Of these it lists the few that do, by their
  // peaks; then a lane looks at an element of the list, whichever lane found its vector.
  template <int kVectors>
  __device__ __forceinline__ void add(const thread::Tile<uint32_t, kVectors>& peaks, int64_t first,
                                      int64_t step, SharedSpan<uint32_t> list,
                                      Candidates& best) const {
    int listed = 0;
    ptx::syncwarp();  // the list may still be read
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const bool is_there = first + v * step < cut.vectors;  // an integer may be worth 0
      const bool reaches = is_there && peaks[v] >= best.least_worth();
      const uint32_t ballot = ptx::vote_sync_ballot(kFullMask, reaches);
      if (reaches) list[listed + lanes_before(ballot)] = static_cast<uint32_t>(first + v * step);
      listed += ptx::count_bits(ballot);
    }
    ptx::syncwarp();
    for (int i = lane_index(); i - lane_index() < listed * kWidth; i += kWarpSize) {
      uint64_t here = 0;
      if (i < listed * kWidth) {
        const uint32_t vector = list[i / kWidth];
        here = key(cut.at(vector) + i % kWidth);
      }
      best.add(here);
    }
  }
};

// Writes the best k of `count` keys: each counts how many are larger, which is its place.
// `threads` threads share them.
template <class T>
__device__ __forceinline__ void write_best(const Rows<T>& rows, int64_t row,
                                           const SharedSpan<uint64_t>& keys, int count, int thread,
                                           int threads WS_AND_PLACE) {
  for (int i = thread; i < count; i += threads) {
    const uint64_t mine = keys[{i WS_PASS_AND_PLACE}];
    int rank = 0;
    for (int j = 0; j < count; ++j) {
      const uint64_t other = keys[{j WS_PASS_AND_PLACE}];
      rank += other > mine ? 1 : 0;
    }
    if (rank < rows.k) rows.write(row, rank, mine WS_PASS_AND_PLACE);
  }
}

#endif

}  // namespace ws::topk
