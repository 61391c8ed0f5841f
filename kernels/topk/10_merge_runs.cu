// Idea: blocks sort runs of 4096 keys; then two runs at a time become one, for which every key
//   looks up how many of the other run come before it: that, and where it was, is where it goes.
// From sort_registers: rows of any length, any strides, any k, by way of keys in a workspace.
// Traffic: a read of x; 8 bytes an element written, and both ways again for each doubling.
// Limits: none. Rows go in batches that fill the workspace.
// Long: three kernels, of the runs, of their merges and of the output.
#include "kernels/topk/rows.hpp"
#include "warpsmith/block/sort.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::topk {
namespace {

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

template <class T>
struct WriteKernel {
  static constexpr int kThreads = 256;
  static constexpr int kCount = 4 * kThreads;
  struct Arguments {
    Batch batch;
    RowLayout<kOperands> rows;
    uint32_t flip;
    const uint64_t* keys;
    int64_t k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = a.batch.first + a.batch.row();
    const T* x = static_cast<const T*>(a.rows.data[kX]) + a.rows.offset(kX, row);
    T* values = static_cast<T*>(a.rows.data[kValues]) + a.rows.offset(kValues, row);
    auto* indices = static_cast<int64_t*>(a.rows.data[kIndices]) + a.rows.offset(kIndices, row);
    for (int j = 0; j < kCount / kThreads; ++j) {
      const int64_t i = a.batch.part() * kCount + j * kThreads + thread_index();
      if (i >= a.k) return;
      const uint64_t key = thread::load(a.keys + a.batch.row() * a.batch.columns + i);
      const int64_t place = Key<uint64_t>::place(key);
      const T value =
          Worth<T>::back(Key<uint64_t>::worth(key), a.flip, x + place * a.rows.inner[kX]);
      thread::store(values + i * a.rows.inner[kValues], value);
      thread::store(indices + i * a.rows.inner[kIndices], place);
    }
  }
};

struct MergeRuns {
  static constexpr int kKeysOfARun = 4096;
  static constexpr int64_t kKeysOfABatch = int64_t{1} << 24;

  static int64_t batch_rows(const Selection& call) {
    const int64_t rows = std::max<int64_t>(kKeysOfABatch / call.rows.columns, 1);
    return std::min(rows, call.rows.rows);
  }
  static Workspace workspace(const Selection& call) {
    const int64_t keys = batch_rows(call) * call.rows.columns;
    return {.bytes = 2 * static_cast<size_t>(keys) * sizeof(uint64_t)};
  }
  static void run(const Selection& call, const Context& context) {
    const int64_t columns = call.rows.columns;
    const int64_t most = batch_rows(call);
    with_type<kSelected>(call.dtype, [&]<class T>() {
      const uint32_t flip = Worth<T>::flip(call.largest);
      for (int64_t first = 0; first < call.rows.rows; first += most) {
        const int64_t rows = std::min(most, call.rows.rows - first);
        auto* keys = static_cast<uint64_t*>(context.workspace);
        auto* others = keys + most * columns;
        const auto batch = [&](int64_t count, int64_t of_a_block) {
          return Batch{first, columns, divide_up(count, of_a_block)};
        };
        const auto sort_runs = [&]<int kThreads, int kKeys>() {
          using Kernel = RunsKernel<T, kThreads, kKeys>;
          const Batch runs = batch(columns, Kernel::kCount);
          launch<Kernel>({.blocks = rows * runs.blocks, .threads = kThreads}, context.stream,
                         {runs, call.rows, flip, keys});
        };
        if (columns <= 256) {
          sort_runs.template operator()<32, 8>();
        } else {
          sort_runs.template operator()<256, kKeysOfARun / 256>();
        }
        for (int64_t run = kKeysOfARun; run < columns; run *= 2) {
          const Batch merged = batch(columns, MergeKernel::kCount);
          launch<MergeKernel>({.blocks = rows * merged.blocks, .threads = MergeKernel::kThreads},
                              context.stream, {merged, keys, others, run});
          std::swap(keys, others);
        }
        const Batch written = batch(call.k, WriteKernel<T>::kCount);
        launch<WriteKernel<T>>(
            {.blocks = rows * written.blocks, .threads = WriteKernel<T>::kThreads}, context.stream,
            {written, call.rows, flip, keys, call.k});
      }
    });
  }
};

}  // namespace

extern const Rung kMergeRuns;
const Rung kMergeRuns = rung_of<MergeRuns, TopK, Sort>(
    {.name = "merge_runs",
     .from = "sort_registers",
     .idea = "sorted runs, merged two by two: any length and strides"});

}  // namespace ws::topk
