// Idea: clusters that stay take the next row from a counter; a warp of each block keeps bulk copies
// of the rows to come in flight while the others work on a row in registers.
// From cluster_per_row: no block is launched for a row, and loads do not pause for the reduction.
// The counter hands rows out in the order of their addresses, so that DRAM pages are read and
// written as a whole; dealt out in turns, rows drift apart, and 3 to 5 % of the rate is lost.
// Traffic: one read, one write, one pass through shared memory.
// Limits: 16 blocks of 64 KiB.
#pragma once

#include <bit>

#include "kernels/softmax/row_queue.hpp"
#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::softmax {

template <class T, class Op, class Shape, Fit kFit>
struct ClusterQueueKernel {
  static constexpr int kThreads = Shape::kConsumers + kWarpSize;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = kWidest<T>;
  using Part = RowTile<T, Op, kWidth, Shape::kConsumers, Shape::kVectors, kFit>;
  using Queue = RowQueue<T, Shape>;
  using Total = typename Op::Total;
  struct Arguments {
    Rows<T, Op> rows;
    int64_t part;    // of a row that a block takes, in vectors
    uint64_t* next;  // 0 at launch
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
    if (thread_index() == Shape::kConsumers) {
      Queue::produce(shared.queue, a.next, rows, [&](uint64_t r) {
        const auto row = part_of(r);
        return std::pair(row.inputs[0] + row.head, static_cast<uint32_t>(row.vectors * 16));
      });
    } else if (thread_index() < Shape::kConsumers) {
      for (typename Queue::Position at;; at.advance()) {
        shared.queue.pipeline.wait(at);
        // The lane that lets go of the stage is the one that reads the number.
        uint64_t r = 0;
        if (lane_index() == 0) r = shared.queue.row[at.stage];
        r = warp::shuffle(r, 0);
        if (r >= rows) break;
        const auto row = part_of(r);
        const Part tile(row, thread_index(), [&](int /*input*/, int vector) {
          return shared.queue.parts.template load<kWidth>(at.stage * Queue::kPart +
                                                          vector * kWidth);
        });
        ptx::syncwarp();
        if (lane_index() == 0) shared.queue.pipeline.release(at.stage);
        auto elements = tile.elements();
        const Total mine = Op::template begin<kWarpSize>(elements);
        const Total total = all_reduce.of_warps(mine, Op::none(), Op::merge);
        tile.store(row, elements, Op::end(mine, total));
      }
    }
    all_reduce.finish();
  }
};

struct ClusterQueue {
  // Measured on an H200 (results/JOURNAL.md). Two blocks an SM, so that one works while the other
  // waits, but 16-bit rows that clusters of up to 4 blocks of 64 KiB hold. Rows over 16 blocks do
  // better with few threads that hold much.
  using Half = QueueShape<512, 4, 2, 2>;    // parts of 32 KiB
  using Whole = QueueShape<128, 32, 1, 2>;  // of 64 KiB
  using NarrowHalf = QueueShape<128, 16, 3, 2>;
  using NarrowWhole = QueueShape<512, 8, 2, 1>;
  static constexpr int64_t kBytes = cluster::kMaxBlocks * Whole::kBytes;
  // f.operator()<Shape>() with the shape for rows of `bytes`.
  template <class T, class F>
  static void with_shape(int64_t bytes, const F& f) {
    constexpr int64_t kHalf = cluster::kMaxBlocks * Half::kBytes;
    if constexpr (sizeof(T) == 4) {
      if (bytes <= kHalf) return f.template operator()<Half>();
      f.template operator()<Whole>();
    } else {
      if (bytes > kHalf / 2 && bytes <= kHalf) return f.template operator()<NarrowHalf>();
      f.template operator()<NarrowWhole>();
    }
  }

  static Reason supports(const Problem& problem) {
    const Layout layout = layout_of(problem);
    if (Reason reason = one_of(kForward, problem); !reason.empty()) return reason;
    if (const int64_t bytes = row_bytes(problem, layout); bytes > kBytes) {
      return concatenate("a cluster's registers hold rows of up to ", kBytes, " bytes, not ",
                         bytes);
    }
    return rows_supported(problem, layout, widest(problem.tensor(0).dtype));
  }
  static size_t workspace(const Problem& /*problem*/) { return sizeof(uint64_t); }

  static void run(const Problem& problem, const Context& context) {
    const int64_t bytes = row_bytes(problem, layout_of(problem));
    dispatch<kForward>(problem, [&]<class T, class Op>() {
      with_shape<T>(bytes, [&]<class Shape>() { run_shape<T, Op, Shape>(problem, context); });
    });
  }

  template <class T, class Op, class Shape>
  static void run_shape(const Problem& problem, const Context& context) {
    const auto rows = rows_of<T, Op>(problem);
    const auto bytes = static_cast<int64_t>(rows.columns * sizeof(T));
    const auto blocks =
        static_cast<int>(std::bit_ceil(static_cast<uint64_t>(divide_up(bytes, Shape::kBytes))));
    auto* next = static_cast<uint64_t*>(context.workspace);
    set_zero(next, sizeof(*next), context.stream);
    const int64_t part = part_vectors<kWidest<T>>(rows, blocks);
    const auto with = [&]<Fit kFit>() {
      using Kernel = ClusterQueueKernel<T, Op, Shape, kFit>;
      Grid grid{.blocks = blocks, .threads = Kernel::kThreads, .cluster = blocks};
      grid.blocks *= std::min(rows.count, resident_clusters<Kernel>(grid));
      launch<Kernel>(grid, context.stream, {rows, part, next});
    };
    if (rows_aligned<kWidest<T>>(rows) && bytes == blocks * Shape::kBytes) {
      with.template operator()<Fit::kFull>();
    } else {
      with.template operator()<Fit::kAnywhere>();
    }
  }
};

}  // namespace ws::softmax
