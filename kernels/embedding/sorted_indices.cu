// The sort of indices: blocks sort runs of 1024 keys, of which 16 at a time become one.
#include "kernels/embedding/sorted_indices.hpp"

#include "kernels/topk/merge_runs.hpp"
#include "warpsmith/block/sort.hpp"

namespace ws::embedding {
namespace {

struct RunsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kKeys = 8;  // of a thread
  static constexpr int kRun = kThreads * kKeys;
  using Sorter = block::BitonicSort<uint64_t, kThreads, kKeys>;
  struct Arguments {
    Indices index;
    int64_t count;
    int64_t ignored;
    uint64_t* keys;
  };
  struct SharedStorage {
    Sorter::Storage sort;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t start = block_index() * kRun;
    Sorter::Keys keys;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int64_t i = start + j * kThreads + thread_index();
      keys[j] = 0;
      if (i >= a.count) continue;
      const int64_t index = a.index[i];
      const bool counts = a.index.is_right(index, i) && index != a.ignored;
      keys[j] = SortedIndices::key_of(counts ? index : kNoRow, i);
    }
    Sorter{shared.sort}(keys);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int64_t i = start + thread_index() * kKeys + j;
      if (i < a.count) thread::store(a.keys + i, keys[j]);
    }
  }
};

}  // namespace

const uint64_t* sort_indices(const Indices& index, int64_t count, int64_t ignored, void* memory,
                             Stream stream) {
  constexpr int64_t kWays = 16;
  auto* keys = static_cast<uint64_t*>(memory);
  launch<RunsKernel>(
      {.blocks = divide_up(count, int64_t{RunsKernel::kRun}), .threads = RunsKernel::kThreads},
      stream, {index, count, ignored, keys});
  return topk::merge_runs(keys, keys + count, 1, count, RunsKernel::kRun, kWays, stream);
}

}  // namespace ws::embedding
