// Idea: a block stages its row in shared memory, where there is more room than in registers.
// From block_per_row: the length is a run-time number, nothing is padded, and rows may be longer.
// Traffic: one read and one write of global memory, one write and one read of shared memory.
// Limits: rows of up to 96 KiB (all inputs together), which every GPU since sm_80 has.
#pragma once

#include "kernels/softmax/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/shared.hpp"

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
        const Vec<T, kWidth> loaded = row.load(k, v);  // [kWidth]
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
    const typename Op::Finish finish(all_reduce(mine, Op::merge));

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

  static int64_t staged_bytes(const Problem& problem, const Layout& layout) {
    return row_bytes(problem, layout) * (layout.operands - 1);
  }
  static Reason supports(const Problem& problem) {
    const Layout layout = layout_of(problem);
    if (Reason reason = one_of(kWithoutMask, problem); !reason.empty()) return reason;
    if (const int64_t bytes = staged_bytes(problem, layout); bytes > kBytes) {
      return concatenate("stages rows of up to ", kBytes, " bytes in shared memory, not ", bytes);
    }
    return rows_supported(problem, layout, widest(problem.tensor(0).dtype));
  }
  static void run(const Problem& problem, const Context& context) {
    dispatch<kWithoutMask>(problem, [&]<class T, class Op>() {
      using Kernel = BlockSharedKernel<T, Op>;
      const auto rows = rows_of<T, Op>(problem);
      launch<Kernel>(
          {.blocks = rows.count,
           .threads = Kernel::kThreads,
           .dynamic_shared = static_cast<size_t>(staged_bytes(problem, layout_of(problem)))},
          context.stream, rows);
    });
  }
};

}  // namespace ws::softmax
