// The sort of indices: blocks sort runs of 1024 keys, of which up to 16 become one; of more, passes
// by the digits of rows.
#include "kernels/embedding/sorted_indices.hpp"

#include "kernels/embedding/radix_passes.hpp"
#include "warpsmith/block/sort.hpp"
#include "warpsmith/ptx/store_relaxed.hpp"

namespace ws::embedding {
namespace {

// The keys of kCount positions, `apart` from each other; behind the last index 0, which comes
// behind all keys. Indices are under way together before one is looked at.
template <int kCount>
__device__ __forceinline__ thread::Tile<uint64_t, kCount> keys_of(const IndexSource& source,
                                                                  int64_t first, int64_t apart) {
  int64_t offsets[kCount];
  int64_t rows[kCount];
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const int64_t i = first + j * apart;
    offsets[j] = (i < source.count ? i : source.count - 1) * source.index.stride();
  }
  source.index.read(offsets, rows);
  thread::Tile<uint64_t, kCount> keys;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const int64_t i = first + j * apart;
    keys[j] = 0;
    if (i >= source.count) continue;
    const bool counts = source.index.is_right(rows[j], i) && rows[j] != source.ignored;
    if (counts && source.touched != nullptr) {
      ptx::st_global_relaxed(source.touched + rows[j], 1);
    }
    keys[j] = SortedIndices::key_of(counts ? rows[j] : kNoRow, i);
  }
  return keys;
}

struct RunsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kRun = MergeRuns::kRun;
  static constexpr int kKeys = kRun / kThreads;  // of a thread
  using Sorter = block::BitonicSort<uint64_t, kThreads, kKeys>;
  struct Arguments {
    IndexSource source;
    uint64_t* keys;
  };
  struct SharedStorage {
    Sorter::Storage sort;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t start = block_index() * kRun;
    Sorter::Keys keys = keys_of<kKeys>(a.source, start + thread_index(), kThreads);
    Sorter{shared.sort}(keys);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int64_t i = start + thread_index() * kKeys + j;
      if (i < a.source.count) thread::store(a.keys + i, keys[j]);
    }
  }
};

struct MergeKernel {
  static constexpr int kThreads = MergeRuns::kThreads;
  struct Arguments {
    MergeRuns merge;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    a.merge(block_index());
  }
};

// In the order of positions.
struct KeysKernel {
  static constexpr int kThreads = 256;
  static constexpr int kKeys = 4;  // of a thread
  struct Arguments {
    IndexSource source;
    uint64_t* keys;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t first = block_index() * kKeys * kThreads + thread_index();
    const auto keys = keys_of<kKeys>(a.source, first, kThreads);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int64_t i = first + j * kThreads;
      if (i < a.source.count) thread::store(a.keys + i, keys[j]);
    }
  }
};

}  // namespace

MergeRuns sort_runs(const IndexSource& source, void* memory, Stream stream) {
  auto* const keys = static_cast<uint64_t*>(memory);
  launch<RunsKernel>({.blocks = divide_up(source.count, int64_t{RunsKernel::kRun}),
                      .threads = RunsKernel::kThreads},
                     stream, {source, keys});
  return {keys, keys + source.count, static_cast<uint32_t>(source.count)};
}

const uint64_t* sort_indices(const IndexSource& source, void* memory, Stream stream) {
  const int64_t count = source.count;
  auto* const keys = static_cast<uint64_t*>(memory);
  if (count > kMostMerged) {
    launch<KeysKernel>(
        {.blocks = divide_up(count, int64_t{KeysKernel::kThreads} * KeysKernel::kKeys),
         .threads = KeysKernel::kThreads},
        stream, {source, keys});
    int row_bits = 1;  // all ones stand for no row: more than any row's number
    while (source.index.limit() >> row_bits != 0) ++row_bits;
    return sort_by_digits(keys, keys + count, reinterpret_cast<uint32_t*>(keys + 2 * count), count,
                          row_bits, stream);
  }
  const MergeRuns merge = sort_runs(source, memory, stream);
  if (merge.blocks() > 0) {
    launch<MergeKernel>({.blocks = merge.blocks(), .threads = MergeKernel::kThreads}, stream,
                        {merge});
  }
  return merge.sorted();
}

}  // namespace ws::embedding
