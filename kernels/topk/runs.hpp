// Rows of keys in order, however long: blocks sort runs of 4096, then two runs at a time become
// one.
#pragma once

#include "kernels/topk/merge_runs.hpp"
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
template <class T, int kThreads_, int kKeys>
struct RunsKernel {
  static constexpr int kThreads = kThreads_;
  static constexpr int kCount = kThreads * kKeys;  // of a run
  using Sorter = block::BitonicSort<uint64_t, kThreads, kKeys>;
  struct Arguments {
    RowBatch batch;
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

inline constexpr int kKeysOfARun = 4096;

// Sorts the keys of rows, best first, in `keys` or in `others`, each of which has room for them; in
// which, it returns.
template <class T>
uint64_t* sort_rows(const RowLayout<kOperands>& layout, const RowRange& range, uint32_t flip,
                    uint64_t* keys, uint64_t* others, Stream stream) {
  const int64_t columns = layout.columns;
  const auto sort_runs = [&]<int kThreads, int kKeys>() {
    using Kernel = RunsKernel<T, kThreads, kKeys>;
    const RowBatch runs{range.first, columns, divide_up(columns, Kernel::kCount)};
    launch<Kernel>({.blocks = range.rows * runs.blocks, .threads = kThreads}, stream,
                   {runs, layout, flip, keys});
  };
  if (columns <= 256) {
    sort_runs.template operator()<32, 8>();
  } else {
    sort_runs.template operator()<256, kKeysOfARun / 256>();
  }
  return merge_runs(keys, others, range.rows, columns, kKeysOfARun, stream);
}
#endif

}  // namespace ws::topk
