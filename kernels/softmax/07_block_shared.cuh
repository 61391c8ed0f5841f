// Idea: a block stages its row in shared memory, where there is more room than in registers.
// From block_per_row: the length is a run-time number, nothing is padded, and rows may be longer.
// Traffic: one read and one write of global memory, one write and one read of shared memory.
// Limits: rows of up to 96 KiB (all inputs together), which every GPU since sm_80 has; no mask.
#pragma once

#include "kernels/softmax/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/shared.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

template <class T, class Op>
struct BlockSharedKernel {
  static constexpr int kThreads = 256;
  static constexpr int kInputs = Op::kInputs;
  static constexpr int kWidth = kWidest<T>;
  using Total = typename Op::Total;
  using Arguments = Rows<T, Op>;
  struct SharedStorage {
    typename block::AllReduce<Total, kThreads>::Storage total;
  };

  // A thread reads back what it wrote itself, so the only barrier is the reduction's.
  __device__ void operator()(SharedStorage& shared, const Arguments& rows) const {
    const Row<T, Op, kWidth> row(rows, block_index());
    const int64_t vectors = row.vectors;
    const SharedSpan<T> staged = dynamic_shared<T>(shared, kInputs * vectors * kWidth);
    Total mine = Op::none();
#pragma unroll 4
    for (int64_t v = thread_index(); v < vectors; v += kThreads) {
      Tile<Values<kInputs>, kWidth> elements;
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        const Vec<T, kWidth> loaded = thread::load<kWidth>(row.inputs[k] + row.at(v));
        staged.template store<kWidth>((k * vectors + v) * kWidth, loaded);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) elements[i][k] = to_float(loaded[i]);
      }
      mine = Op::merge(mine, Op::begin(elements));
    }
    const bool has_edge = thread_index() < row.edges;
    Values<kInputs> edge{};
    if (has_edge) mine = Op::add(mine, edge = row.edge_element(thread_index()));

    block::AllReduce<Total, kThreads> all_reduce(shared.total);
    const typename Op::Finish finish(all_reduce(mine, typename Op::Merge{}));

    for (int64_t v = thread_index(); v < vectors; v += kThreads) {
      Tile<Values<kInputs>, kWidth> elements;
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        const Vec<T, kWidth> back = staged.template load<kWidth>((k * vectors + v) * kWidth);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) elements[i][k] = to_float(back[i]);
      }
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = finish(elements[i]);
      row.store(v, out);
    }
    if (has_edge) row.store_edge(thread_index(), finish(edge));
  }
};

struct BlockShared {
  static constexpr int64_t kBytes = 96 * 1024;

  static int64_t staged_bytes(const RowsCall& call) {
    return call.rows.row_bytes() * call.inputs();
  }
  static bool supports(const RowsCall& call, Why& why) {
    const int64_t bytes = staged_bytes(call);
    return why.unless(bytes <= kBytes, "stages rows of up to ", kBytes,
                      " bytes in shared memory, not ", bytes) &&
           rows_supported(call, widest(call), why);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BlockSharedKernel<T, typename Call::RowOperation>;
      launch<Kernel>({.blocks = call.rows.rows,
                      .threads = Kernel::kThreads,
                      .dynamic_shared = static_cast<size_t>(staged_bytes(call))},
                     context.stream, rows_of<T>(call));
    });
  }
};

inline constexpr Seed kBlockSharedSeeds[] = {{.name = "{}_block_smem"}};
inline constexpr Rung kBlockShared =
    rung_of<BlockShared, Softmax, LogSoftmax, SoftmaxBackward, LogSoftmaxBackward>(
        {.name = "block_shared",
         .from = "block_per_row",
         .idea = "the row staged in shared memory: rows of up to 96 KiB",
         .seeds = kBlockSharedSeeds});

}  // namespace ws::softmax
#endif
