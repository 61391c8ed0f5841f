// Sorted runs of distinct keys become longer ones, two at a time: each key looks up how many of the
// other run come before it.
#pragma once

#include <algorithm>
#include <utility>

#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/search.hpp"

#if WS_DEVICE_CODE
namespace ws::topk {

// Rows [first, ...) of the call that are under way, `blocks` blocks to each.
struct RowBatch {
  int64_t first;
  int64_t columns;
  int64_t blocks;

  __device__ __forceinline__ int64_t row() const { return block_index() / blocks; }
  __device__ __forceinline__ int64_t part() const { return block_index() % blocks; }
};

// Two runs of `run` keys at a time, largest first.
struct MergeKernel {
  static constexpr int kThreads = 256;
  static constexpr int kCount = 4 * kThreads;  // of a block
  struct Arguments {
    RowBatch batch;
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
      const int64_t first = i / (2 * a.run) * (2 * a.run);
      const int64_t other = mine == first ? first + a.run : first;
      const uint64_t key = thread::load(from + i);
      int64_t place = first + (i - mine);
      if (other < columns) {
        const int64_t count = columns - other < a.run ? columns - other : a.run;
        place += thread::count_larger(from + other, count, key);
      }
      thread::store(to + place, key);
    }
  }
};

// Merges the runs of so many rows of `columns` keys each; gives the memory, of the two, in which
// they then are.
inline uint64_t* merge_runs(uint64_t* keys, uint64_t* others, int64_t rows, int64_t columns,
                            int64_t run, Stream stream) {
  for (; run < columns; run *= 2) {
    const RowBatch merged{0, columns, divide_up(columns, int64_t{MergeKernel::kCount})};
    launch<MergeKernel>({.blocks = rows * merged.blocks, .threads = MergeKernel::kThreads}, stream,
                        {merged, keys, others, run});
    std::swap(keys, others);
  }
  return keys;
}

}  // namespace ws::topk
#endif
