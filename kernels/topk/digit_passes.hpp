// A pass of a radix sort over tiles of rows, for a digit of 8 bits: a block counts the digits of
// its tile, the counts of the tiles before are added up, and the block puts its keys where they
// belong.
#pragma once

#include <type_traits>

#include "kernels/topk/merge_runs.hpp"
#include "kernels/topk/rows.hpp"
#include "warpsmith/block/digit_ranks.hpp"
#include "warpsmith/block/scan.hpp"
#include "warpsmith/ptx/atomic_shared.hpp"
#include "warpsmith/thread/running_sums.hpp"
#include "warpsmith/warp/scan.hpp"

#if WS_DEVICE_CODE
namespace ws::topk {

inline constexpr int kPassThreads = 512;
inline constexpr int kPassKeys = 16;  // of a thread
inline constexpr int kPassTile = kPassThreads * kPassKeys;
using PassOrder = block::DigitRanks<kPassThreads, kPassKeys>;

// A key: what an element is worth, the best the least; of 16-bit floats in the upper 16 of 32 bits,
// and stored without the rest.
template <class T>
using Stored = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
template <class Bits>
inline constexpr int kUnused = 32 - 8 * static_cast<int>(sizeof(Bits));

// A batch's rows as the call has them: the first pass takes keys from them, the last puts elements
// there.
template <class T>
struct TensorRows {
  using Element = T;
  using Bits = Stored<T>;
  RowLayout<kOperands> layout;
  int64_t first;
  int64_t k;
  uint32_t flip;

  struct Row {
    const T* x;
    T* values;
    int64_t* indices;
    int64_t x_step;
    int64_t values_step;
    int64_t indices_step;
    int64_t k;
    uint32_t flip;

    __device__ __forceinline__ T load(int64_t i) const { return thread::load(x + i * x_step); }
    __device__ __forceinline__ uint32_t key(T element) const {
      return ~Worth<T>::of(element, flip);
    }
    __device__ __forceinline__ uint32_t place(int64_t i) const { return static_cast<uint32_t>(i); }
    __device__ __forceinline__ void put(int64_t i, uint32_t key, uint32_t place) const {
      if (i >= k) return;
      const T* there = x + place * x_step;
      const uint32_t worth = ~key & Worth<T>::kMask;
      thread::store(values + i * values_step, Worth<T>::back(worth, flip, there));
      thread::store(indices + i * indices_step, int64_t{place});
    }
  };
  __device__ __forceinline__ Row row(int64_t r) const {
    return {static_cast<const T*>(layout.data[kX]) + offset(kX, first + r),
            static_cast<T*>(layout.data[kValues]) + offset(kValues, first + r),
            static_cast<int64_t*>(layout.data[kIndices]) + offset(kIndices, first + r),
            layout.inner[kX],
            layout.inner[kValues],
            layout.inner[kIndices],
            k,
            flip};
  }

 private:
  // Without divisions where rows have one stride.
  __device__ __forceinline__ int64_t offset(int operand, int64_t r) const {
    return layout.outer <= 1 ? r * layout.strides[operand][0] : layout.offset(operand, r);
  }
};

// On their way, in the workspace.
template <class Word>
struct KeyRows {
  using Element = Word;
  using Bits = Word;
  Bits* keys;
  uint32_t* places;
  int64_t columns;

  struct Row {
    Bits* keys;
    uint32_t* places;

    __device__ __forceinline__ Bits load(int64_t i) const { return thread::load(keys + i); }
    __device__ __forceinline__ uint32_t key(Bits bits) const {
      return uint32_t{bits} << kUnused<Bits>;
    }
    __device__ __forceinline__ uint32_t place(int64_t i) const { return thread::load(places + i); }
    __device__ __forceinline__ void put(int64_t i, uint32_t key, uint32_t place) const {
      thread::store(keys + i, static_cast<Bits>(key >> kUnused<Bits>));
      thread::store(places + i, place);
    }
  };
  __device__ __forceinline__ Row row(int64_t r) const {
    return {keys + r * columns, places + r * columns};
  }
};

// What the kernels of a pass share: the batch has `blocks` tiles to each row.
struct Pass {
  RowBatch batch;
  int shift;         // of the digit
  uint32_t* counts;  // [row, digit, tile]: how many keys; then, how many in the tiles before
  uint32_t* totals;  // [row, digit]

  __device__ __forceinline__ int64_t start() const { return batch.part() * kPassTile; }
  // Of this block's tile.
  __device__ __forceinline__ uint32_t keys() const {
    const int64_t left = batch.columns - start();
    return static_cast<uint32_t>(left < kPassTile ? left : kPassTile);
  }
  __device__ __forceinline__ uint32_t* count(int64_t digit) const {
    return counts + (batch.row() * PassOrder::kDigits + digit) * batch.blocks + batch.part();
  }
};

// The keys of a tile that a thread ranks. Behind the last there are some that stay behind it.
template <class From>
__device__ __forceinline__ PassOrder::Keys keys_of_tile(const From& from, const Pass& pass) {
  const auto row = from.row(pass.batch.row());
  const uint32_t count = pass.keys();
  const uint32_t mine = PassOrder::first();
  const int64_t first = pass.start() + mine;
  // All on their way before the first is looked at.
  thread::Tile<typename From::Element, kPassKeys> elements;
#pragma unroll
  for (int j = 0; j < kPassKeys; ++j) {
    elements[j] = {};
    if (mine + j * kWarpSize < count) elements[j] = row.load(first + j * kWarpSize);
  }
  PassOrder::Keys keys;
#pragma unroll
  for (int j = 0; j < kPassKeys; ++j) {
    keys[j] = row.key(elements[j]) | (mine + j * kWarpSize < count ? 0 : 0xFFFFFFFF);
  }
  return keys;
}

template <class From>
struct CountDigitsKernel {
  static constexpr int kThreads = kPassThreads;
  // Of each counter. Where all keys have one digit, four lanes meet at a counter, not 32.
  static constexpr uint32_t kCopies = 8;
  struct Arguments {
    Pass pass;
    From from;
  };
  struct SharedStorage {
    SharedArray<uint32_t, PassOrder::kDigits * kCopies> counts;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto thread = static_cast<uint32_t>(thread_index());
    for (uint32_t i = thread; i < PassOrder::kDigits * kCopies; i += kThreads) shared.counts[i] = 0;
    const PassOrder::Keys keys = keys_of_tile(a.from, a.pass);
    ptx::barrier_sync();
#pragma unroll
    for (int j = 0; j < kPassKeys; ++j) {
      if (PassOrder::first() + j * kWarpSize >= a.pass.keys()) break;
      const uint32_t digit = PassOrder::digit(keys[j], a.pass.shift);
      ptx::red_shared_increment(shared.counts.pointer(digit * kCopies + thread % kCopies));
    }
    ptx::barrier_sync();
    if (thread >= PassOrder::kDigits) return;
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t c = 0; c < kCopies; ++c) {
      // From another copy on than the threads whose counters begin in the same bank.
      sum += shared.counts[thread * kCopies + (c + thread / 4) % kCopies];
    }
    thread::store(a.pass.count(thread), sum);
  }
};

// Makes counts sums of those of the tiles before: a warp those of a digit of a row.
struct AddUpTilesKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    uint32_t* counts;
    uint32_t* totals;
    int64_t tiles;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t digit = block_index() * kWarps + warp_index();
    const uint32_t total = thread::running_sums<kWarpSize>(
        a.counts + digit * a.tiles, a.tiles, lane_index(), [](uint32_t sum) {
          const uint32_t up_to =
              warp::inclusive_scan(sum, [](uint32_t x, uint32_t y) { return x + y; });
          return thread::SumsOfTurn{up_to - sum, warp::shuffle(up_to, kWarpSize - 1)};
        });
    if (lane_index() == 0) thread::store(a.totals + digit, total);
  }
};

template <class From, class To>
struct ScatterDigitsKernel {
  static constexpr int kThreads = kPassThreads;
  static constexpr int kMinBlocks = 2;
  using Bits = typename From::Bits;
  using Totals = block::ScanOfWarps<uint32_t, kThreads>;
  struct Arguments {
    Pass pass;
    From from;
    To to;
  };
  struct SharedStorage {
    PassOrder::Storage order;
    typename Totals::Storage totals;
    // Where in the row a digit's keys go, less their place here.
    SharedArray<uint32_t, PassOrder::kDigits> starts;
    SharedArray<uint32_t, kPassTile> places;
    SharedArray<Bits, kPassTile> keys;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto thread = static_cast<uint32_t>(thread_index());
    const int64_t row = a.pass.batch.row();
    const auto from = a.from.row(row);
    const uint32_t count = a.pass.keys();
    const int shift = a.pass.shift;
    const uint32_t mine = PassOrder::first();
    const int64_t first = a.pass.start() + mine;
    const PassOrder::Keys keys = keys_of_tile(a.from, a.pass);
    start_digits(shared, a.pass);
    PassOrder order(shared.order);
    const PassOrder::Ranks ranks = order.count(keys, shift);
    PassOrder::Keys places;
#pragma unroll
    for (int j = 0; j < kPassKeys; ++j) {
      places[j] = 0;
      if (mine + j * kWarpSize < count) places[j] = from.place(first + j * kWarpSize);
    }
    const PassOrder::Keys at = order.places(ranks, keys, shift);
    if (thread < PassOrder::kDigits) {
      shared.starts[thread] = shared.starts[thread] - order.before(thread);
    }
#pragma unroll
    for (int j = 0; j < kPassKeys; ++j) {
      shared.keys[at[j]] = static_cast<Bits>(keys[j] >> kUnused<Bits>);
      shared.places[at[j]] = places[j];
    }
    ptx::barrier_sync();
    const auto to = a.to.row(row);
#pragma unroll 4
    for (uint32_t i = thread; i < count; i += kThreads) {
      const uint32_t key = uint32_t{shared.keys[i]} << kUnused<Bits>;
      const uint32_t place = shared.places[i];
      to.put(shared.starts[PassOrder::digit(key, shift)] + i, key, place);
    }
  }

 private:
  // Where in the row this tile's keys of each digit begin, a thread for each.
  __device__ __forceinline__ static void start_digits(SharedStorage& shared, const Pass& pass) {
    const auto add = [](uint32_t x, uint32_t y) { return x + y; };
    const int digit = thread_index();
    uint32_t total = 0;
    uint32_t before = 0;
    if (digit < PassOrder::kDigits) {
      total = thread::load(pass.totals + pass.batch.row() * PassOrder::kDigits + digit);
      before = thread::load(pass.count(digit));
    }
    const uint32_t up_to = warp::inclusive_scan(total, add);
    Totals totals(shared.totals);
    before += totals(warp::shuffle(up_to, kWarpSize - 1), 0U, add).before + up_to - total;
    if (digit < PassOrder::kDigits) shared.starts[digit] = before;
  }
};

// Puts `rows` of the batch in the order of the digit.
template <class From, class To>
void sort_digit(const Pass& pass, int64_t rows, const From& from, const To& to, Stream stream) {
  const Grid tiles{.blocks = rows * pass.batch.blocks, .threads = kPassThreads};
  launch<CountDigitsKernel<From>>(tiles, stream, {pass, from});
  launch<AddUpTilesKernel>({.blocks = rows * PassOrder::kDigits / AddUpTilesKernel::kWarps,
                            .threads = AddUpTilesKernel::kThreads},
                           stream, {pass.counts, pass.totals, pass.batch.blocks});
  launch<ScatterDigitsKernel<From, To>>(tiles, stream, {pass, from, to});
}

}  // namespace ws::topk
#endif
