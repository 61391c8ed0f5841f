// Idea: clusters that stay take the next row from a counter; a warp of each block keeps bulk copies
// of the rows to come in flight while the others work on a row in registers.
// From cluster_per_row: no block is launched for a row, and loads do not pause for the reduction.
// The counter hands rows out in the order of their addresses, so that DRAM pages are read and
// written as a whole; dealt out in turns, rows drift apart, and 3 to 5 % of the rate is lost.
// Traffic: one read, one write, one pass through shared memory.
// Masks are not staged: the warp that fetches rows asks L2 for them, which heads share.
// Limits: 16 blocks of 64 KiB, of 16-bit gradients, which hold two rows, of 32 KiB, of masked ones
// in f32 of 56.
// Long: who fetches a row and who works on it belong on one page.
#pragma once

#include "kernels/softmax/policies.hpp"
#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/row/queue.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

template <class T, class Op, class Shape, Fit kFit>
struct ClusterQueueKernel {
  static constexpr int kThreads = Shape::kConsumers + kWarpSize;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = kWidest<T>;
  using Part = RowTile<T, Op, kWidth, Shape::kConsumers, Shape::kVectors, kFit>;
  static constexpr bool kEdges = kFit == Fit::kAnywhere;
  using Queue = row::Queue<T, Shape, Op::kInputs, kEdges>;
  using Total = typename Op::Total;
  struct Arguments {
    Rows<T, Op> rows;
    int64_t part;    // of a row that a block takes, in vectors
    uint64_t* next;  // 0 before and after
  };
  struct SharedStorage {
    typename Queue::Storage queue;
    typename cluster::AllReduce<Total, Shape::kConsumers>::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto rows = static_cast<uint64_t>(a.rows.count);
    const auto part_of = [&](uint64_t r) {
      typename Part::RowOf row(a.rows, static_cast<int64_t>(r));
      row.keep_part(cluster_rank(), a.part);
      return row;
    };
    if (thread_index() == 0) Queue::init(shared.queue);
    cluster::AllReduce<Total, Shape::kConsumers> all_reduce(shared.total);  // the cluster meets
    if (thread_index() >= Shape::kConsumers) {
      if (kEdges || thread_index() == Shape::kConsumers) produce(shared, a, part_of);
    } else {
      for (typename Queue::Position at;; at.advance()) {
        const uint64_t r = Queue::wait(shared.queue, at);
        if (r >= rows) break;
        const auto row = part_of(r);
        const Part tile(
            row, thread_index(),
            [&](int input, int vector) {
              return shared.queue.parts.template load<kWidth>(Queue::place(at.stage, input) +
                                                              vector * kWidth);
            },
            [&](int input, int edge) -> T {
              return shared.queue.edges[Queue::edge(at.stage, input, edge)];
            });
        Queue::release(shared.queue, at);
        auto elements = tile.elements();
        const Total mine = Op::template begin<kWarpSize>(elements);
        const Total total = all_reduce.of_warps(mine, Op::none(), typename Op::Merge{});
        tile.store(row, elements, Op::end(mine, total));
      }
    }
    all_reduce.finish();
  }

 private:
  // By the producer's warp, or its first thread.
  template <class PartOf>
  __device__ __forceinline__ static void produce(SharedStorage& shared, const Arguments& a,
                                                 const PartOf& part_of) {
    Queue::produce(shared.queue, a.next, static_cast<uint64_t>(a.rows.count), [&](uint64_t r) {
      const auto row = part_of(r);
      if constexpr (Op::kMasked) {
        if (lane_index() == 0) prefetch_mask(row.mask + row.head, row.vectors * kWidth);
      }
      typename Queue::Part part{};
      part.bytes = static_cast<uint32_t>(row.vectors * 16);
      part.edges = row.edges;
      part.head = row.head;
      part.body = row.body;
#pragma unroll
      for (int k = 0; k < Op::kInputs; ++k) part.inputs[k] = row.inputs[k] + row.head;
      return part;
    });
  }
};

struct ClusterQueue {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    using Op = typename Call::RowOperation;
    const int64_t bytes = call.rows.row_bytes();
    const int64_t most =
        cluster::kMaxBlocks * (size_of(call.dtype) == 2
                                   ? QueuePolicy<2, Op::kInputs, Op::kMasked>::Whole::kBytes
                                   : QueuePolicy<4, Op::kInputs, Op::kMasked>::Whole::kBytes);
    return why.unless(bytes <= most, "a cluster's registers hold rows of up to ", most,
                      " bytes, not ", bytes) &&
           rows_supported(call, widest(call), why);
  }
  static Workspace workspace(const RowsCall& /*call*/) {
    return {.bytes = sizeof(uint64_t), .zeroed = sizeof(uint64_t)};
  }
  template <class Call>
  static void run(const Call& call, const Context& context);

  template <class T, class Shape, class Call>
  static void run_shape(const Call& call, const Context& context) {
    const int64_t bytes = call.rows.row_bytes();
    const auto blocks = static_cast<int>(divide_up(bytes, Shape::kBytes));
    const auto with = [&]<Fit kFit>() {
      using Kernel = ClusterQueueKernel<T, typename Call::RowOperation, Shape, kFit>;
      Grid grid{.blocks = blocks, .threads = Kernel::kThreads, .cluster = blocks};
      grid.blocks *= std::min(call.rows.rows, resident_clusters<Kernel>(grid));
      launch<Kernel>(grid, context.stream,
                     {rows_of<T>(call), part_vectors(call.rows, kWidest<T>, blocks),
                      static_cast<uint64_t*>(context.workspace)});
    };
    // Gradients are as fast without kernels of their own for rows that fill their threads.
    constexpr bool kHasFull = Call::RowOperation::kInputs == 1;
    if (kHasFull && rows_aligned(call.rows, kWidest<T>) && bytes == blocks * Shape::kBytes) {
      with.template operator()<kHasFull ? Fit::kFull : Fit::kAnywhere>();
    } else {
      with.template operator()<Fit::kAnywhere>();
    }
  }
};

template <class Call>
void ClusterQueue::run(const Call& call, const Context& context) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    using Op = typename Call::RowOperation;
    QueuePolicy<sizeof(T), Op::kInputs, Op::kMasked>::choose(
        call.rows.row_bytes(), rows_aligned(call.rows, kWidest<T>),
        [&]<class Shape>() { run_shape<T, Shape>(call, context); });
  });
}

// cluster_queue_masked.cu
extern template void ClusterQueue::run(const ScaleMaskSoftmax::Call&, const Context&);
extern template void ClusterQueue::run(const ScaleMaskSoftmaxBackward::Call&, const Context&);

}  // namespace ws::softmax
#endif
