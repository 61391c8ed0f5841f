// Idea: blocks sort runs of 4096 keys; then two runs at a time become one, for which every key
//   looks up how many of the other run come before it: that, and where it was, is where it goes.
// From sort_registers: rows of any length, any strides, any k, by way of keys in a workspace.
// Traffic: a read of x; 8 bytes an element written, and both ways again for each doubling.
// Limits: none. Rows go in batches that fill the workspace.
#include "kernels/topk/runs.hpp"

namespace ws::topk {
namespace {

template <class T>
struct WriteKernel {
  static constexpr int kThreads = 256;
  static constexpr int kCount = 4 * kThreads;
  struct Arguments {
    RowBatch batch;
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
        auto* const room = static_cast<uint64_t*>(context.workspace);
        const uint64_t* const keys = sort_rows<T>(call.rows, {first, rows}, flip, room,
                                                  room + most * columns, context.stream);
        const RowBatch written{first, columns, divide_up(call.k, WriteKernel<T>::kCount)};
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
