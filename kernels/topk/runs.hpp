// Rows of keys in order, however long: blocks sort runs of 4096, then two runs at a time become
// one.
#pragma once

#include "kernels/topk/rows.hpp"
#include "warpsmith/block/sort.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::topk {

// Rows of a call that are under way.
struct RowRange {
  int64_t first;
  int64_t rows;
};

#if WS_DEVICE_CODE
// Rows [first, ...) of the call that are under way, `blocks` blocks to each.
struct Batch {
  int64_t first;
  int64_t columns;
  int64_t blocks;

  __device__ __forceinline__ int64_t row() const { return block_index() / blocks; }
  __device__ __forceinline__ int64_t part() const { return block_index() % blocks; }
};

template <class T, int kThreads_, int kKeys>
struct RunsKernel {
  static constexpr int kThreads = kThreads_;
  static constexpr int kCount = kThreads * kKeys;  // of a run
  using Sorter = block::BitonicSort<uint64_t, kThreads, kKeys>;
  struct Arguments {
    Batch batch;
    RowLayout<kOperands> rows;
    uint32_t flip;
    uint64_t* keys;
  };
  struct SharedStorage {
    typename Sorter::Storage sort;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t row = a.batch.row();
    const int64_t start = a.batch.part() * kCount;
    const T* x = static_cast<const T*>(a.rows.data[kX]) + a.rows.offset(kX, a.batch.first + row);
    typename Sorter::Keys keys;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int64_t i = start + j * kThreads + thread_index();
      keys[j] = 0;
      if (i < a.batch.columns) {
        keys[j] =
            Key<uint64_t>::of(Worth<T>::of(thread::load(x + i * a.rows.inner[kX]), a.flip), i);
      }
    }
    Sorter{shared.sort}(keys);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int64_t i = start + thread_index() * kKeys + j;
      if (i < a.batch.columns) thread::store(a.keys + row * a.batch.columns + i, keys[j]);
    }
  }
};

struct MergeKernel {
  static constexpr int kThreads = 256;
  static constexpr int kCount = 4 * kThreads;  // of a block
  struct Arguments {
    Batch batch;
    const uint64_t* from;
    uint64_t* to;
    int64_t run;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t columns = a.batch.columns;
    const uint64_t* from = a.from + a.batch.row() * columns;
    uint64_t* to = a.to + a.batch.row() * columns;
    for (int j = 0; j < kCount / kThreads; ++j) {
      const int64_t i = a.batch.part() * kCount + j * kThreads + thread_index();
      if (i >= columns) return;
      const int64_t mine = i / a.run * a.run;
      const bool is_first = i / a.run % 2 == 0;
      const int64_t other = is_first ? mine + a.run : mine - a.run;
      const uint64_t key = thread::load(from + i);
      // How many of the other run are larger: between `low` and `high`.
      int64_t low = 0;
      int64_t high = columns - other < a.run ? columns - other : a.run;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (thread::load(from + other + middle) > key) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      thread::store(to + (is_first ? mine : other) + (i - mine) + low, key);
    }
  }
};

inline constexpr int kKeysOfARun = 4096;

// Sorts the keys of rows, best first, in `keys` or in `others`, each of which has room for them; in
// which, it returns.
template <class T>
uint64_t* sort_rows(const RowLayout<kOperands>& layout, const RowRange& range, uint32_t flip,
                    uint64_t* keys, uint64_t* others, Stream stream) {
  const int64_t columns = layout.columns;
  const auto sort_runs = [&]<int kThreads, int kKeys>() {
    using Kernel = RunsKernel<T, kThreads, kKeys>;
    const Batch runs{range.first, columns, divide_up(columns, Kernel::kCount)};
    launch<Kernel>({.blocks = range.rows * runs.blocks, .threads = kThreads}, stream,
                   {runs, layout, flip, keys});
  };
  if (columns <= 256) {
    sort_runs.template operator()<32, 8>();
  } else {
    sort_runs.template operator()<256, kKeysOfARun / 256>();
  }
  for (int64_t run = kKeysOfARun; run < columns; run *= 2) {
    const Batch merged{range.first, columns, divide_up(columns, MergeKernel::kCount)};
    launch<MergeKernel>({.blocks = range.rows * merged.blocks, .threads = MergeKernel::kThreads},
                        stream, {merged, keys, others, run});
    std::swap(keys, others);
  }
  return keys;
}
#endif

}  // namespace ws::topk
