// A tile of the list of entries and rows' ends: its entries are multiplied, the products wait in
// shared memory, and its rows are added up from there by as many lanes as each is worth.
//
// Of a tile's rows Greathouse and Daga, "Efficient sparse matrix-vector multiplication on GPUs
// using the CSR storage format", 2014.
#pragma once

#include "kernels/spmv/csr.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::spmv {

inline constexpr int kTileThreads = 256;
inline constexpr int kTileWidth = 4;   // entries side by side of a thread
inline constexpr int kTileRounds = 2;  // as often
inline constexpr int kTileSlots = kTileRounds * kTileThreads * kTileWidth;
// A tile's entries begin anywhere in a vector.
inline constexpr int kTileItems = kTileSlots - kTileWidth;

// Whether values and columns begin at multiples of a vector.
template <class T, class I>
bool has_vectors(const Matrix& matrix) {
  return begins_at_vector<T, kTileWidth>(matrix.values) &&
         begins_at_vector<I, kTileWidth>(matrix.col);
}
// Whether x is within 2^31 elements.
inline bool is_near(const VectorCall& call) {
  constexpr int64_t kMost = int64_t{1} << 31;
  constexpr int64_t kLargestElement = sizeof(double);
  return call.columns < kMost && call.x_step >= 0 && call.x_step < kMost / kLargestElement &&
         call.columns * call.x_step < kMost;
}

#if WS_DEVICE_CODE
struct Tile {
  int64_t first_entry;
  int rows;  // that end in it
  int entries;

  // Products of entries from a multiple of a vector on lie at multiples of it.
  __device__ __forceinline__ int shift() const {
    return static_cast<int>(first_entry) & (kTileWidth - 1);
  }
  __device__ __forceinline__ int64_t start() const { return first_entry - shift(); }
};

template <class T, class I>
struct TileProducts {
  static constexpr int kThreads = kTileThreads;
  static constexpr int kWidth = kTileWidth;
  static constexpr int kRounds = kTileRounds;
  static constexpr uint16_t kWrong = 0xFFFF;  // an end that is none of the tile's
  // Where the tile's rows end, counted from its first entry, from ends[1] on.
  using Ends = SharedArray<uint16_t, kTileItems + 1>;
  using Products = SharedArray<Sum<T>, kTileSlots>;  // by place_of

  const Csr<T, I>& a;
  const Strided<const T>& x;
  bool has_vectors;
  bool is_near;  // and has vectors

  // What a thread has of a tile, on its way.
  struct Entries {
    Vec<T, kRounds * kWidth> values;
    Vec<I, kRounds * kWidth> columns;
  };

  // Whether all of the tile's slots may be read, by vectors.
  __device__ __forceinline__ bool at_once(const Tile& tile) const {
    return is_near && tile.start() + kTileSlots <= a.entries;
  }
  __device__ __forceinline__ void load(const Tile& tile, Entries& entries) const {
    if (!at_once(tile)) return;
    if (has_round(tile, kRounds - 1)) {
      load_rounds<kRounds>(tile, entries);
    } else if (has_round(tile, 0)) {
      load_rounds<1>(tile, entries);
    }
  }
  __device__ __forceinline__ void multiply(const Tile& tile, const Entries& entries,
                                           Products& products) const {
    bool is_done = false;
    if (at_once(tile)) {
      if (has_round(tile, kRounds - 1)) {
        is_done = fills_round(tile, kRounds - 1)
                      ? multiply_rounds<kRounds, true>(tile, entries, products)
                      : multiply_rounds<kRounds, false>(tile, entries, products);
      } else {
        is_done = !has_round(tile, 0) || multiply_rounds<1, false>(tile, entries, products);
      }
    }
    if (!is_done) multiply_by_checks(tile, products);
  }

  // The tile's rows, and behind them what it has of the row that is open at its end, by as many
  // lanes each as there are for all of them at once; a row that is too long for these a whole warp
  // adds up. done(row, sum, is_right) is called by one lane each; is_right: it ends in the tile,
  // and not before it begins.
  template <class Done>
  __device__ __forceinline__ static void add_up(const Tile& tile, Ends& ends, Products& products,
                                                const Done& done) {
    constexpr int kMostSteps = 32;
    const auto sum_of = [&](int first, int end, int step) {
      Sum<T> sum = 0;
#pragma unroll 4
      for (int slot = tile.shift() + first; slot < tile.shift() + end; slot += step) {
        sum += products[place_of(slot)];
      }
      return sum;
    };
    // The most lanes with which all of them have some at once, from 32 for 8 rows on.
    constexpr int kNone = 24;  // leading zeros of kThreads - 1
    static_assert(kThreads == 1 << (32 - kNone));
    const int room = ptx::leading_zeros(static_cast<uint32_t>(tile.rows)) - kNone;
    const int log_lanes = room < 0 ? 0 : room < 5 ? room : 5;
    const int lanes = 1 << log_lanes;
    const int lane = thread_index() & (lanes - 1);
    for (int first = (warp_index() * kWarpSize) >> log_lanes; first <= tile.rows;
         first += kThreads >> log_lanes) {
      const int row = first + (lane_index() >> log_lanes);
      int begin = 0;
      int end = 0;
      if (row <= tile.rows) {
        begin = ends[row];
        end = row < tile.rows ? static_cast<int>(ends[row + 1]) : tile.entries;
      }
      const bool is_right = begin <= end && end <= tile.entries;
      if (!is_right) begin = end;
      const bool is_long = lanes < kWarpSize && end - begin > kMostSteps * lanes;
      Sum<T> sum = sum_of(begin + lane, is_long ? begin : end, lanes);
      for (uint32_t long_ones = ptx::vote_sync_ballot(kFullMask, is_long); long_ones != 0;) {
        const int leader = ptx::lowest_bit(long_ones);
        const int from = warp::shuffle(begin, leader);
        const int to = warp::shuffle(end, leader);
        const Sum<T> of_lane = sum_of(from + lane_index(), to, kWarpSize);
        const Sum<T> all = warp::all_reduce(of_lane, [](auto a, auto b) { return a + b; });
        if (lane_index() == leader) sum = all;
        long_ones &= ~(((1U << lanes) - 1) << leader);
      }
      for (int distance = lanes / 2; distance > 0; distance /= 2) {
        sum += warp::shuffle_xor(sum, distance);
      }
      if (lane == 0 && row <= tile.rows) done(row, sum, is_right);
    }
  }

 private:
  // A thread's entries of a round, from the tile's first vector on.
  __device__ __forceinline__ static int slot_of(int round) {
    return (round * kThreads + thread_index()) * kWidth;
  }
  // Whether any lane of the warp has entries in it.
  __device__ __forceinline__ static bool has_round(const Tile& tile, int round) {
    const int first_of_warp = (round * kThreads + warp_index() * kWarpSize) * kWidth;
    return first_of_warp < tile.shift() + tile.entries;
  }
  // Whether all of them have.
  __device__ __forceinline__ static bool fills_round(const Tile& tile, int round) {
    const int end_of_warp = (round * kThreads + (warp_index() + 1) * kWarpSize) * kWidth;
    return end_of_warp <= tile.shift() + tile.entries;
  }
  // Rows of 8, 16 or 32 would begin in the same banks: vectors are shuffled from 32 to 32.
  __device__ __forceinline__ static int place_of(int slot) { return slot ^ (slot >> 3 & 0x1C); }

  // All of it is asked for before the first is used.
  template <int kCount>
  __device__ __forceinline__ void load_rounds(const Tile& tile, Entries& entries) const {
    const int64_t from = tile.start() + slot_of(0);
    constexpr int kStep = kThreads * kWidth;
#pragma unroll
    for (int round = 0; round < kCount; ++round) {
      const auto values = thread::load<kWidth, Cache::kPassing>(a.values + from + round * kStep);
      const auto columns = thread::load<kWidth, Cache::kPassing>(a.col + from + round * kStep);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        entries.values[round * kWidth + e] = values[e];
        entries.columns[round * kWidth + e] = columns[e];
      }
    }
  }

  // False where a column is wrong. Of neighbours' entries before the tile's first there are
  // products, too, which nobody adds up. Those behind its last, where the warp is not full, all
  // have column 0: each of their own would be a request of the L2.
  template <int kCount, bool kFull>
  __device__ __forceinline__ bool multiply_rounds(const Tile& tile, const Entries& entries,
                                                  Products& shared) const {
    // No load moves over this: the compiler would ask for values behind elements of x, and so
    // behind the wait for columns.
    ptx::syncwarp();
    Vec<T, kCount * kWidth> values;
    Vec<I, kCount * kWidth> columns;
#pragma unroll
    for (int i = 0; i < kCount * kWidth; ++i) {
      const int slot = slot_of(i / kWidth) + i % kWidth;
      const bool is_ours = kFull || slot < tile.shift() + tile.entries;
      values[i] = entries.values[i];
      columns[i] = is_ours ? entries.columns[i] : I{0};
    }
    Vec<Sum<T>, kCount * kWidth> products{};
    if (!a.columns.multiply_all(values, columns, x, products)) return false;
#pragma unroll
    for (int round = 0; round < kCount; ++round) {
      Vec<Sum<T>, kWidth> of_round;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) of_round[e] = products[round * kWidth + e];
      shared.template store<kWidth>(place_of(slot_of(round)), of_round);
    }
    return true;
  }

  __device__ __forceinline__ void multiply_by_checks(const Tile& tile, Products& shared) const {
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
      const int slot = slot_of(round);
      if (slot >= tile.shift() + tile.entries) break;
      const int64_t first = tile.start() + slot;
      bool known[kWidth];
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        known[e] = slot + e >= tile.shift() && slot + e < tile.shift() + tile.entries;
      }
      const bool at_once = has_vectors && first + kWidth <= a.entries;
      const auto values = load_known<kWidth>(a.values + first, 1, at_once, known);
      const auto columns = load_known<kWidth>(a.col + first, 1, at_once, known);
      const auto products =
          a.columns.products(values, columns, known, x, [&](int e) { return first + e; });
      shared.template store<kWidth>(place_of(slot), products);
    }
  }
};
#endif

}  // namespace ws::spmv
