// Idea: clusters that stay take the next row from a counter; a warp of each block keeps bulk copies
// of the rows to come in flight while the others work on a row in registers.
// From cluster_per_row: no block is launched for a row, and loads do not pause for the reduction.
// The counter hands rows out in the order of their addresses, so that DRAM pages are read and
// written as a whole; dealt out in turns, rows drift apart, and 3 to 5 % of the rate is lost.
// Traffic: one read, one write, one pass through shared memory.
// Limits: 16 blocks of 64 KiB.
#pragma once

#include <bit>

#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::softmax {

// kConsumers threads hold kVectors vectors of 16 bytes each; kStages parts of rows are under way.
template <int kConsumers_, int kVectors_, int kStages_, int kMinBlocks_>
struct QueueShape {
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinBlocks = kMinBlocks_;                          // an SM holds
  static constexpr int64_t kBytes = int64_t{16} * kConsumers * kVectors;  // of a part
};

// Where a row waits for its block: a ring of parts, and the row's number, which the first block of
// the cluster draws for all. A number past the last row ends the kernel.
template <class T, class Shape>
struct RowQueue {
  using Pipeline = tile::Pipeline<Shape::kStages>;
  using Position = typename Pipeline::Position;
  static constexpr int kPart = static_cast<int>(Shape::kBytes / sizeof(T));

  struct Storage {
    SharedArray<T, Shape::kStages * kPart, 128> parts;
    SharedArray<uint64_t, Shape::kStages> drawn;  // as the first block sends it
    SharedArray<uint64_t, Shape::kStages> row;    // as this block's consumers read it
    ptx::Mbarrier sent[Shape::kStages];
    Pipeline pipeline;
  };

  // By one thread, before the cluster meets.
  static __device__ __forceinline__ void init(Storage& shared) {
    shared.pipeline.init(Shape::kConsumers / kWarpSize);
#pragma unroll
    for (ptx::Mbarrier& sent : shared.sent) ptx::mbarrier_init(sent, 1);
    ptx::fence_mbarrier_init();
  }

  // The producer's thread: draws rows and fetches this block's part of each until none is left.
  // part_of(row) -> {source, bytes}.
  template <class PartOf>
  static __device__ __forceinline__ void produce(Storage& shared, uint64_t* next, uint64_t rows,
                                                 const PartOf& part_of) {
    for (Position at;; at.advance()) {
      ptx::mbarrier_wait_parity(shared.pipeline.empty[at.stage], at.parity ^ 1);
      const uint64_t row = draw(shared, at, next);
      shared.row[at.stage] = row;
      ptx::Mbarrier& full = shared.pipeline.full[at.stage];
      if (row >= rows) return ptx::mbarrier_arrive(full);
      const auto [source, bytes] = part_of(row);
      ptx::mbarrier_arrive_expect_tx(full, bytes);
      if (bytes > 0) ptx::bulk_load(shared.parts.pointer(at.stage * kPart), source, bytes, full);
    }
  }

 private:
  static __device__ __forceinline__ uint64_t draw(Storage& shared, const Position& at,
                                                  uint64_t* next) {
    ptx::mbarrier_arrive_expect_tx(shared.sent[at.stage], sizeof(uint64_t));
    if (cluster_rank() == 0) {
      const uint64_t row = ptx::atom_global_add(next, 1);
      for (int rank = 0; rank < cluster_size(); ++rank) {
        ptx::st_async(ptx::map_shared_rank(shared.drawn.pointer(at.stage), rank), row,
                      ptx::map_shared_rank(&shared.sent[at.stage], rank));
      }
    }
    ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.sent[at.stage], at.parity);
    return shared.drawn[at.stage];
  }
};

template <class T, class Op, class Shape>
struct ClusterQueueKernel {
  static constexpr int kThreads = Shape::kConsumers + kWarpSize;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = kWidest<T>;
  using Part = RowTile<T, Op, kWidth, Shape::kConsumers, Shape::kVectors>;
  using Queue = RowQueue<T, Shape>;
  using Total = typename Op::Total;
  struct Arguments {
    Rows<T, Op::kInputs> rows;
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
      row.keep_part(cluster_rank(), cluster_size());
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
        const uint64_t r = shared.queue.row[at.stage];
        if (r >= rows) break;
        const auto row = part_of(r);
        const Part tile(row, thread_index(), [&](int /*input*/, int vector) {
          return shared.queue.parts.template load<kWidth>(at.stage * Queue::kPart +
                                                          vector * kWidth);
        });
        ptx::syncwarp();
        if (lane_index() == 0) shared.queue.pipeline.release(at.stage);
        auto elements = tile.elements();
        const Total mine = Op::begin(elements);
        const Total total = all_reduce(mine, Op::none(), Op::merge);
        tile.store(row, elements, [&](const auto& left) { return Op::end(left, mine, total); });
      }
    }
    all_reduce.finish();
  }
};

struct ClusterQueue {
  // Long rows need parts of 64 KiB. In f32 those still leave room for two blocks on an SM, which
  // measured better than one with a deeper ring.
  using Short = QueueShape<512, 4, 2, 2>;
  template <class T>
  using Long =
      std::conditional_t<sizeof(T) == 4, QueueShape<256, 16, 1, 2>, QueueShape<512, 8, 3, 1>>;
  static constexpr int64_t kShortBytes = cluster::kMaxBlocks * Short::kBytes;
  static constexpr int64_t kBytes = 2 * kShortBytes;

  static int64_t row_bytes(const Problem& problem, const Layout& layout) {
    return layout.columns * static_cast<int64_t>(size_of(problem.tensor(0).dtype));
  }
  static Reason supports(const Problem& problem) {
    const Layout layout = layout_of(problem);
    if (Reason reason = forward_only(problem); !reason.empty()) return reason;
    if (const int64_t bytes = row_bytes(problem, layout); bytes > kBytes) {
      return concatenate("a cluster's registers hold rows of up to ", kBytes, " bytes, not ",
                         bytes);
    }
    return rows_supported(problem, layout, widest(problem.tensor(0).dtype));
  }
  static size_t workspace(const Problem& /*problem*/) { return sizeof(uint64_t); }

  static void run(const Problem& problem, const Context& context) {
    const int64_t bytes = row_bytes(problem, layout_of(problem));
    auto* next = static_cast<uint64_t*>(context.workspace);
    set_zero(next, sizeof(*next), context.stream);
    dispatch<Directions::kForward>(problem, [&]<class T, class Op>() {
      const auto with_shape = [&]<class Shape>() {
        using Kernel = ClusterQueueKernel<T, Op, Shape>;
        const auto rows = rows_of<T, Op::kInputs>(problem);
        const auto blocks =
            static_cast<int>(std::bit_ceil(static_cast<uint64_t>(divide_up(bytes, Shape::kBytes))));
        const Grid cluster{.blocks = blocks, .threads = Kernel::kThreads, .cluster = blocks};
        const int64_t clusters = std::min(rows.count, resident_clusters<Kernel>(cluster));
        launch<Kernel>(
            {.blocks = clusters * blocks, .threads = Kernel::kThreads, .cluster = blocks},
            context.stream, {rows, next});
      };
      if (bytes <= kShortBytes) {
        with_shape.template operator()<Short>();
      } else {
        with_shape.template operator()<Long<T>>();
      }
    });
  }
};

}  // namespace ws::softmax
