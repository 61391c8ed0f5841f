// Idea: a bitonic network sorts the row's keys in shared memory: every step compares pairs at one
//   distance, whatever the numbers are, so that all threads always do the same.
// From rank: N log(N)^2 / 4 comparisons instead of N^2, and k does not matter.
// Traffic: every element once; log(N)^2 / 2 passes over shared memory, a barrier each.
// Limits: rows of up to 4096 elements; they are filled up to a power of two.
#pragma once

#include "kernels/topk/rows.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::topk {

#if WS_DEVICE_CODE
template <class T>
struct BitonicKernel {
  static constexpr int kThreads = 512;
  static constexpr int kMostKeys = 4096;
  struct Arguments {
    Rows<T> rows;
    int count;  // a power of two, not below the columns
  };
  struct SharedStorage {
    SharedArray<uint64_t, kMostKeys> keys;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Rows<T>& rows = a.rows;
    const int64_t row = block_index();
    for (int i = thread_index(); i < a.count; i += block_threads()) {
      uint64_t key = 0;  // of no element: last
      if (i < rows.columns) {
        key = Key<uint64_t>::of(Worth<T>::of(thread::load(rows.row(row) + i), rows.flip), i);
      }
      shared.keys[i] = key;
    }
    for (int size = 2; size <= a.count; size *= 2) {  // of the parts that are in order afterwards
      for (int distance = size / 2; distance > 0; distance /= 2) {
        ptx::barrier_sync();
        for (int pair = thread_index(); pair < a.count / 2; pair += block_threads()) {
          const int i = 2 * pair - (pair & (distance - 1));  // bit `distance` of it is not set
          const uint64_t first = shared.keys[i];
          const uint64_t second = shared.keys[i + distance];
          const bool descends = (i & size) == 0;
          if ((first < second) == descends) {
            shared.keys[i] = second;
            shared.keys[i + distance] = first;
          }
        }
      }
    }
    ptx::barrier_sync();
    for (int i = thread_index(); i < rows.k; i += block_threads()) {
      const uint64_t key = shared.keys[i];
      rows.write(row, i, key);
    }
  }
};

struct Bitonic {
  static bool supports(const Selection& call, Why& why) {
    constexpr int kMost = BitonicKernel<float>::kMostKeys;
    return has_rows(call, why) && why.unless(call.rows.columns <= kMost, "takes up to ", kMost,
                                             " elements a row, not ", call.rows.columns);
  }
  static void run(const Selection& call, const Context& context) {
    with_type<kSelected>(call.dtype, [&]<class T>() {
      using Kernel = BitonicKernel<T>;
      int count = 1;
      while (count < call.rows.columns) count *= 2;
      const int threads = std::clamp(count / 2, kWarpSize, Kernel::kThreads);
      launch<Kernel>({.blocks = call.rows.rows, .threads = threads}, context.stream,
                     {Rows<T>(call), count});
    });
  }
};

inline constexpr Rung kBitonic = rung_of<Bitonic, TopK, Sort>(
    {.name = "bitonic", .from = "rank", .idea = "a bitonic network over keys in shared memory"});
#endif

}  // namespace ws::topk
