// Idea: a block puts its row in the order of one digit after the other, lowest first, three digits
//   for 16 bits of key: what a pass costs does not depend on how long the row is.
// From sort_registers: 3 or 6 passes through shared memory for up to 91 steps of a network; keys
//   are half an element and its place, one 32-bit word for every type.
// Traffic: every element once; of shared memory some ten words an element and pass; the row's
//   elements stay there, so that outputs are the very elements.
// Limits: rows of up to 16384 elements.
#include "kernels/topk/rows.hpp"
#include "warpsmith/block/digit_order.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::topk {
namespace {

template <class T, int kThreads_, int kKeys>
struct RadixRowsKernel {
  static constexpr int kThreads = kThreads_;
  // 24 warps an SM: 80 registers, of which 64 are keys and places.
  static constexpr int kMinBlocks = std::max(24 * kWarpSize / kThreads, 1);
  static constexpr int kCount = kThreads * kKeys;
  using Order = block::DigitOrder<kThreads, kKeys>;
  using Keys = typename Order::Keys;
  using Arguments = Rows<T>;

  // Where element i lies: a word is left out after every 32, so that threads read their keys from
  // different banks.
  static constexpr int kSkewed = kCount + kCount / kWarpSize;
  template <class U>
  __device__ __forceinline__ static uint32_t skewed(uint32_t i) {
    constexpr uint32_t kOfAWord = 4 / sizeof(U);
    return i + i / (kWarpSize * kOfAWord) * kOfAWord;
  }

  struct SharedStorage {
    union {
      typename Order::Storage order;
      SharedArray<uint32_t, kSkewed> words;
    };
    typename Order::WarpSums::Storage sums;
    SharedArray<T, kSkewed> row;
  };

  // Half of what the element at a place is worth, the best the least, above that place. Behind the
  // row's end is the worst, in places behind all others, so that it stays there.
  __device__ __forceinline__ static uint32_t word(SharedStorage& shared, const Arguments& a,
                                                  uint32_t at, bool upper) {
    const uint32_t worth = ~Worth<T>::of(shared.row[skewed<T>(at)], a.flip);
    const uint32_t half = upper ? worth & 0xFFFF0000 : worth << 16;
    return (at < a.columns ? half : 0xFFFF0000) | at;
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    constexpr int kPasses = 3 * sizeof(T) / 2;
    const int64_t row = block_index();
    const auto thread = static_cast<uint32_t>(thread_index());
    const T* x = a.row(row);
#pragma unroll 16
    for (uint32_t i = thread; i < kCount; i += kThreads) {
      T element{};
      if (i < a.columns) element = thread::load(x + i);
      shared.row[skewed<T>(i)] = element;
    }
    Order::sync();

    Keys keys;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      keys[j] = word(shared, a, thread * kKeys + j, sizeof(T) == 2);
    }
    Order order(shared.order, shared.sums);
    const uint32_t mine = skewed<uint32_t>(thread * kKeys);
    // Three passes of 5, 5 and 6 bits from bit 16 on, of each half of a key.
#pragma unroll 1
    for (int pass = 0;; ++pass) {
      const int digit = pass % 3;
      const Keys places = order(keys, 16 + 5 * digit, digit == 2 ? 6 : 5);
      Order::sync();
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        shared.words[skewed<uint32_t>(places[j])] = keys[j];
      }
      Order::sync();
      if (pass == kPasses - 1) break;
#pragma unroll
      for (int j = 0; j < kKeys; ++j) keys[j] = shared.words[mine + j];
      Order::sync();
      if constexpr (sizeof(T) == 4) {
        if (digit < 2) continue;
        // The other half.
#pragma unroll
        for (int j = 0; j < kKeys; ++j) keys[j] = word(shared, a, keys[j] & 0xFFFF, true);
      }
    }

    T* values = a.values + row * a.values_stride;
    int64_t* indices = a.indices + row * a.indices_stride;
#pragma unroll 4
    for (uint32_t i = thread; i < a.k; i += kThreads) {
      const uint32_t place = shared.words[skewed<uint32_t>(i)] & 0xFFFF;
      thread::store(values + i, shared.row[skewed<T>(place)]);
      thread::store(indices + i, int64_t{place});
    }
  }
};

struct RadixRows {
  static constexpr int64_t kMostColumns = 16384;

  // f.operator()<the kernel>().
  template <class F>
  static void with_kernel(const Selection& call, const F& f) {
    with_type<kSelected>(call.dtype, [&]<class T>() {
      const int64_t columns = call.rows.columns;
      if (columns <= 512) return f.template operator()<RadixRowsKernel<T, 32, 16>>();
      if (columns <= 1024) return f.template operator()<RadixRowsKernel<T, 32, 32>>();
      if (columns <= 2048) return f.template operator()<RadixRowsKernel<T, 64, 32>>();
      if (columns <= 4096) return f.template operator()<RadixRowsKernel<T, 128, 32>>();
      if (columns <= 8192) return f.template operator()<RadixRowsKernel<T, 256, 32>>();
      f.template operator()<RadixRowsKernel<T, 512, 32>>();
    });
  }
  static bool supports(const Selection& call, Why& why) {
    if (!has_rows(call, why) ||
        !why.unless(call.rows.columns <= kMostColumns, "takes up to ", kMostColumns,
                    " elements a row, not ", call.rows.columns)) {
      return false;
    }
    size_t bytes = 0;
    with_kernel(call, [&]<class Kernel>() { bytes = sizeof(typename Kernel::SharedStorage); });
    const auto most = static_cast<size_t>(device_facts().shared_bytes);
    return why.unless(bytes <= most, "needs ", bytes, " bytes of shared memory, of ", most);
  }
  static void run(const Selection& call, const Context& context) {
    with_kernel(call, [&]<class Kernel>() {
      launch<Kernel>({.blocks = call.rows.rows, .threads = Kernel::kThreads}, context.stream,
                     typename Kernel::Arguments(call));
    });
  }
};

}  // namespace

extern const Rung kRadixRows;
const Rung kRadixRows =
    rung_of<RadixRows, TopK, Sort>({.name = "radix_rows",
                                    .from = "sort_registers",
                                    .idea = "digit by digit, through counters of each thread"});

}  // namespace ws::topk
