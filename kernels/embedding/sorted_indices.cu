// The sort of indices: blocks sort runs of 1024 keys, of which 16 at a time become one; of many,
// passes by the digits of rows.
#include "kernels/embedding/sorted_indices.hpp"

#include "kernels/embedding/radix_passes.hpp"
#include "kernels/topk/merge_runs.hpp"
#include "warpsmith/block/sort.hpp"

namespace ws::embedding {
namespace {

struct Source {
  Indices index;
  int64_t count;
  int64_t ignored;

  __device__ __forceinline__ uint64_t key(int64_t i) const {
    const int64_t row = index[i];
    const bool counts = index.is_right(row, i) && row != ignored;
    return SortedIndices::key_of(counts ? row : kNoRow, i);
  }
};

struct RunsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kKeys = 8;  // of a thread
  static constexpr int kRun = kThreads * kKeys;
  using Sorter = block::BitonicSort<uint64_t, kThreads, kKeys>;
  struct Arguments {
    Source source;
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
      keys[j] = i < a.source.count ? a.source.key(i) : 0;
    }
    Sorter{shared.sort}(keys);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int64_t i = start + thread_index() * kKeys + j;
      if (i < a.source.count) thread::store(a.keys + i, keys[j]);
    }
  }
};

// In the order of positions.
struct KeysKernel {
  static constexpr int kThreads = 256;
  static constexpr int kKeys = 4;  // of a thread
  struct Arguments {
    Source source;
    uint64_t* keys;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int64_t i = (block_index() * kKeys + j) * kThreads + thread_index();
      if (i < a.source.count) thread::store(a.keys + i, a.source.key(i));
    }
  }
};

}  // namespace

const uint64_t* sort_indices(const Indices& index, int64_t count, int64_t ignored, void* memory,
                             Stream stream) {
  constexpr int64_t kWays = 16;
  auto* const keys = static_cast<uint64_t*>(memory);
  const Source source{index, count, ignored};
  if (count > kMostMerged) {
    launch<KeysKernel>(
        {.blocks = divide_up(count, int64_t{KeysKernel::kThreads} * KeysKernel::kKeys),
         .threads = KeysKernel::kThreads},
        stream, {source, keys});
    int row_bits = 1;  // all ones stand for no row: more than any row's number
    while (index.limit() >> row_bits != 0) ++row_bits;
    return sort_by_digits(keys, keys + count, reinterpret_cast<uint32_t*>(keys + 2 * count), count,
                          row_bits, stream);
  }
  launch<RunsKernel>(
      {.blocks = divide_up(count, int64_t{RunsKernel::kRun}), .threads = RunsKernel::kThreads},
      stream, {source, keys});
  return topk::merge_runs(keys, keys + count, 1, count, RunsKernel::kRun, kWays, stream);
}

}  // namespace ws::embedding
