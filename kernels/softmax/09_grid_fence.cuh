// Idea: few, long rows (one whole vector, say) are cut into parts for the whole grid; all blocks
// meet once, between the parts' totals and the output.
// From block_uncached: a single row keeps every SM busy instead of one.
// Traffic: two reads, one write, 8 bytes for a part. The second read comes from L2 while the
// tensor fits there.
// Limits: forward.
#pragma once

#include "kernels/softmax/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/grid.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

template <class T, class Op>
struct GridFenceKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;  // resident on an SM: the launch counts on it
  static constexpr int kWidth = kWidest<T>;
  using Total = typename Op::Total;
  struct Arguments {
    Rows<T, Op> rows;
    int parts;          // of a row
    int64_t part;       // its vectors
    uint32_t* meeting;  // 0 before and after
    Total* totals;      // [rows, parts]
  };
  struct SharedStorage {
    typename block::AllReduce<Total, kThreads>::Storage total;
  };
  using RowOf = Row<T, Op, kWidth>;

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    block::AllReduce<Total, kThreads> all_reduce(shared.total);
    const int64_t items = a.rows.count * a.parts;
    for (int64_t item = block_index(); item < items; item += grid_blocks()) {
      const RowOf row = part(a, item);
      Total mine = Op::none();
      if (thread_index() < row.edges) mine = Op::add(mine, row.edge_element(thread_index()));
#pragma unroll 4
      for (int64_t v = thread_index(); v < row.vectors; v += kThreads) {
        auto elements = row.elements(v);
        mine = Op::merge(mine, Op::begin(elements));
      }
      const Total total = all_reduce(mine, typename Op::Merge{});
      if (thread_index() == 0) thread::store(a.totals + item, Vec<Total, 1>{{total}});
    }
    ptx::grid_sync(a.meeting);
    for (int64_t item = block_index(); item < items; item += grid_blocks()) {
      const Total* totals = a.totals + item / a.parts * a.parts;
      Total mine = Op::none();
      for (int p = thread_index(); p < a.parts; p += kThreads) {
        mine = Op::merge(mine, thread::load(totals + p));
      }
      const typename Op::Finish finish(all_reduce(mine, typename Op::Merge{}));
      const RowOf row = part(a, item);
      for (int64_t v = thread_index(); v < row.vectors; v += kThreads) {
        const auto elements = row.elements(v);
        Vec<float, kWidth> out;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) out[i] = finish(elements[i]);
        row.store(v, out);
      }
      if (thread_index() < row.edges) {
        row.store_edge(thread_index(), finish(row.edge_element(thread_index())));
      }
    }
    ptx::grid_leave(a.meeting);
  }

  __device__ __forceinline__ static RowOf part(const Arguments& a, int64_t item) {
    RowOf row(a.rows, item / a.parts);
    row.keep_part(static_cast<int>(item % a.parts), a.part);
    return row;
  }
};

struct GridFence {
  static constexpr size_t kMeetingBytes = 16;

  static int64_t blocks() { return int64_t{4} * device_facts().multiprocessors; }
  // Of a row: as many as there are blocks for, each with a warp's vectors at least.
  static int parts(const RowsCall& call) {
    const int64_t blocks_a_row = blocks() / std::max<int64_t>(1, call.rows.rows);
    const int64_t most = call.rows.columns / (int64_t{widest(call)} * kWarpSize);
    return static_cast<int>(std::max<int64_t>(1, std::min(blocks_a_row, most)));
  }
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return rows_supported(call, widest(call), why);
  }
  static Workspace workspace(const RowsCall& call) {
    const int64_t rows = call.rows.rows;
    const size_t totals = static_cast<size_t>(rows * parts(call)) * sizeof(MaxSum);
    return {.bytes = kMeetingBytes + totals, .zeroed = kMeetingBytes};
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = GridFenceKernel<T, typename Call::RowOperation>;
      typename Kernel::Arguments arguments{};
      arguments.rows = rows_of<T>(call);
      arguments.parts = parts(call);
      arguments.part = part_vectors(call.rows, kWidest<T>, arguments.parts);
      arguments.meeting = static_cast<uint32_t*>(context.workspace);
      arguments.totals = reinterpret_cast<typename Kernel::Total*>(
          static_cast<std::byte*>(context.workspace) + kMeetingBytes);
      launch<Kernel>({.blocks = std::min(blocks(), call.rows.rows * arguments.parts),
                      .threads = Kernel::kThreads,
                      .cooperative = true},
                     context.stream, arguments);
    });
  }
};

inline constexpr Seed kGridFenceSeeds[] = {
    {.name = "softmax_f32", .operation = "softmax", .dtypes = {DType::kF32}},
    {.name = "softmax_f32x4", .operation = "softmax", .dtypes = {DType::kF32}},
};
inline constexpr Rung kGridFence = rung_of<GridFence, Softmax, LogSoftmax, ScaleMaskSoftmax>(
    {.name = "grid_fence",
     .from = "block_uncached",
     .idea = "few long rows over the whole grid, which meets between total and output",
     .seeds = kGridFenceSeeds});

}  // namespace ws::softmax
#endif
