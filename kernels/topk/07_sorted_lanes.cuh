// Idea: the best eight elements lie in the eight vectors with the best maxima. A few lanes share a
//   row: by networks of minima and maxima in registers they find those, then the best in them.
// From packed_keys: eight at a time, not one by one; a key for a vector, not for each element; a
//   warp takes several rows.
// Traffic: every element once, 16 bytes a lane and load, 128 bytes a thread in flight; eight
//   vectors of the row again, from the L1.
// Limits: k of up to 8; aligned rows of whole vectors, up to 2 KiB.
#pragma once

#include "kernels/topk/candidates_of_row.hpp"
#include "warpsmith/thread/sort.hpp"

namespace ws::topk {

#if WS_DEVICE_CODE
template <class T, int kLanes, int kVectors>  // of a row, of a lane
struct SortedLanesKernel {
  static constexpr int kThreads = 128;
  static constexpr int kRows = kThreads / kLanes;
  static constexpr int kBest = 8;
  static constexpr int kWidth = row::kWidest<T>;
  using Word = std::conditional_t<sizeof(T) == 2, uint32_t, uint64_t>;
  using Keys = thread::Tile<Word, kBest>;
  static_assert(kVectors % kBest == 0);
  using Vector = Vec<T, kWidth>;
  using Arguments = Rows<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kRows + thread_index() / kLanes;
    const int lane = thread_index() % kLanes;
    const bool exists = row < a.rows;  // all lanes stay, for the shuffles
    const T* x = a.row(exists ? row : 0);

    // The vectors with the best maxima. An element of another comes after one of each of theirs.
    const int vectors = static_cast<int>(a.columns) / kWidth;
    Vector loaded[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      loaded[v] = {};
      if (v * kLanes + lane < vectors) {
        loaded[v] = thread::load<kWidth>(x + (v * kLanes + lane) * kWidth);
      }
    }
    Keys first{};
#pragma unroll
    for (int v = 0; v < kVectors; v += kBest) {
      Keys keys;
#pragma unroll
      for (int i = 0; i < kBest; ++i) {
        const int vector = (v + i) * kLanes + lane;
        const Word key = Key<Word>::of(peak(loaded[v + i], a.flip), vector);
        keys[i] = vector < vectors ? key : 0;
      }
      thread::sort_descending(keys);
      first = v == 0 ? keys : thread::largest_of(first, keys);
    }
    first = best_of_lanes(first);

    // The best of their elements.
    constexpr int kMine = kLanes < kBest ? kBest / kLanes : 1;  // vectors of a lane
    constexpr int kTogether = kBest / kWidth;                   // that are sorted at once
    Word which[kMine];
    Vector mine[kMine];
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
      which[m] = nth(first, m * kLanes + lane);
      mine[m] = {};
      if (which[m] != 0) {
        mine[m] = thread::load<kWidth>(x + Key<Word>::place(which[m]) * kWidth);
      }
    }
    Keys best{};
#pragma unroll
    for (int round = 0; round < divide_up(kMine, kTogether); ++round) {
      Keys keys;
#pragma unroll
      for (int i = 0; i < kBest; ++i) {
        const int m = round * kTogether + i / kWidth;
        keys[i] = 0;
        if (m < kMine && which[m] != 0) {
          const int64_t place = Key<Word>::place(which[m]) * kWidth + i % kWidth;
          keys[i] = Key<Word>::of(Worth<T>::of(mine[m][i % kWidth], a.flip), place);
        }
      }
      thread::sort_descending(keys);
      best = round == 0 ? keys : thread::largest_of(best, keys);
    }
    best = best_of_lanes(best);
#pragma unroll
    for (int rank = 0; rank < kBest; rank += kLanes) {
      const Word key = nth(best, rank + lane);
      if (exists && lane < kBest && rank + lane < a.k) a.write(row, rank + lane, key);
    }
  }

 private:
  // Of the row's lanes, to all of them.
  __device__ __forceinline__ static Keys best_of_lanes(Keys keys) {
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
      const Keys others =
          thread::map(keys, [&](Word key) { return warp::shuffle_xor<kLanes>(key, distance); });
      keys = thread::largest_of(keys, others);
    }
    return keys;
  }

  // Key n, which need not be known while compiling; 0 beyond the last.
  __device__ __forceinline__ static Word nth(const Keys& keys, int n) {
    Word nth = 0;
#pragma unroll
    for (int i = 0; i < kBest; ++i) nth = i == n ? keys[i] : nth;
    return nth;
  }
};

struct SortedLanes {
  static constexpr int64_t kShortBytes = 512;  // by four lanes
  static constexpr int64_t kMostBytes = 2048;  // by eight
  static bool supports(const TopK::Call& call, Why& why);
  static void run(const TopK::Call& call, const Context& context);
};
#endif

}  // namespace ws::topk
