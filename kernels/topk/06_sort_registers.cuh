// Idea: a thread holds up to 16 neighbours of the order, so that most steps of the network are
//   between registers or lanes, and few go through shared memory and barriers.
// From bitonic: the same network; keys of 16-bit floats, value and place, are one 32-bit word.
// Traffic: every element once, a pass over shared memory for steps beyond a warp, one to write in
//   order of the output.
// Limits: rows of up to 8192 elements.
#pragma once

#include "kernels/topk/rows.hpp"
#include "warpsmith/block/sort.hpp"

namespace ws::topk {

#if WS_DEVICE_CODE
template <class T, int kThreads_, int kKeys>
struct SortRegistersKernel {
  static constexpr int kThreads = kThreads_;
  static constexpr int kCount = kThreads * kKeys;
  using Word = std::conditional_t<sizeof(T) == 2, uint32_t, uint64_t>;
  using Sorter = block::BitonicSort<Word, kThreads, kKeys>;
  using Arguments = Rows<T>;
  union SharedStorage {  // the sort ends with a barrier after its last read
    typename Sorter::Storage sort;
    // Skewed by a key for every 32, so that lanes which are kKeys apart meet in few banks.
    SharedArray<Word, kCount + kCount / kWarpSize> sorted;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t row = block_index();
    const T* x = a.row(row);
    typename Sorter::Keys keys;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {  // in any order: neighbours load neighbours
      const int i = j * kThreads + thread_index();
      keys[j] = 0;
      if (i < a.columns) keys[j] = Key<Word>::of(Worth<T>::of(thread::load(x + i), a.flip), i);
    }
    Sorter{shared.sort}(keys);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int i = thread_index() * kKeys + j;
      shared.sorted[i + i / kWarpSize] = keys[j];
    }
    ptx::barrier_sync();
    for (int i = thread_index(); i < a.k; i += kThreads) {
      const Word key = shared.sorted[i + i / kWarpSize];
      a.write(row, i, key);
    }
  }
};

struct SortRegisters {
  static constexpr int64_t kMostColumns = 8192;
  static bool supports(const Selection& call, Why& why);
  static void run(const Selection& call, const Context& context);
};
#endif

}  // namespace ws::topk
