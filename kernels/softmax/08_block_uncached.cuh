// Idea: a block reads its row twice, and so needs room for nothing: rows of any length.
// From block_shared: no limit, and twice the reads; the second comes from L2 where the rows of all
// resident blocks fit (50 MB on an H100 or H200).
// Traffic: two reads, one write.
#pragma once

#include "kernels/softmax/rows.hpp"
#include "warpsmith/block/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

template <class T, class Op>
struct BlockUncachedKernel {
  static constexpr int kThreads = 512;
  static constexpr int kWidth = kWidest<T>;
  using Total = typename Op::Total;
  using Arguments = Rows<T, Op>;
  struct SharedStorage {
    typename block::AllReduce<Total, kThreads>::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& rows) const {
    const Row<T, Op, kWidth> row(rows, block_index());
    const bool has_edge = thread_index() < row.edges;
    Total mine = Op::none();
    if (has_edge) mine = Op::add(mine, row.edge_element(thread_index()));
#pragma unroll 4
    for (int64_t v = thread_index(); v < row.vectors; v += kThreads) {
      auto elements = row.elements(v);
      mine = Op::merge(mine, Op::begin(elements));
    }
    block::AllReduce<Total, kThreads> all_reduce(shared.total);
    const typename Op::Finish finish(all_reduce(mine, typename Op::Merge{}));

#pragma unroll 2
    for (int64_t v = thread_index(); v < row.vectors; v += kThreads) {
      const auto elements = row.elements(v);
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = finish(elements[i]);
      row.store(v, out);
    }
    if (has_edge) {
      row.store_edge(thread_index(), finish(row.edge_element(thread_index())));
    }
  }
};

struct BlockUncached {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return rows_supported(call, widest(call), why);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BlockUncachedKernel<T, typename Call::RowOperation>;
      launch<Kernel>({.blocks = call.rows.rows, .threads = Kernel::kThreads}, context.stream,
                     rows_of<T>(call));
    });
  }
};

inline constexpr Seed kBlockUncachedSeeds[] = {{.name = "{}_block_uncached"}};
inline constexpr Rung kBlockUncached =
    rung_of<BlockUncached, Softmax, LogSoftmax, ScaleMaskSoftmax, SoftmaxBackward,
            LogSoftmaxBackward, ScaleMaskSoftmaxBackward>(
        {.name = "block_uncached",
         .from = "block_shared",
         .idea = "the row read twice by its block: any length",
         .seeds = kBlockUncachedSeeds});

}  // namespace ws::softmax
#endif
