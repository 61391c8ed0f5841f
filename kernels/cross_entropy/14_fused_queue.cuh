// Idea: clusters that stay take the next row from a counter; a warp of each block keeps bulk copies
// of the rows to come in flight while the others work on a row where it landed.
// From fused_cluster: no block is launched for a row, and loads do not pause for the reduction; the
// counter hands rows out in the order of their addresses.
// Traffic: one read, one write, one pass through shared memory.
// Limits: rows of up to 512 KiB, of 448 in 16 bits that start anywhere; not both weights and
// label_smoothing.
// Long: who fetches a row and who works on it belong on one page.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/cross_entropy/row_share.hpp"
#include "warpsmith/row/queue.hpp"

namespace ws::cross_entropy {

#if WS_DEVICE_CODE
// H200 2026-11-30, % of copy, bf16, V = 32000: 128 x 8, 4 stages, 3 blocks 95.3; 128 x 16, 3,
// 2 96.3; 256 x 8, 3, 2 92.1; of rows that start anywhere, V = 50257: 84.2, 80.5, 71.3. So all rows
// of 16-bit elements up to 256 KiB have the first, for aligned ones alone another kernel is not
// worth it; then those of longer ones that start anywhere, where 128 x 16 spills; and of the
// others.
using ShortQueuePolicy = row::QueueShape<128, 8, 4, 3>;
using AnywhereQueuePolicy = row::QueueShape<128, 14, 3, 2>;
using QueuePolicy = row::QueueShape<128, 16, 3, 2>;

template <class T, class Shape, Fit kFit>
struct FusedQueueKernel {
  static constexpr int kConsumers = Shape::kConsumers;
  static constexpr int kThreads = kConsumers + kWarpSize;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = kWidest<T>;
  using Share = row::Share<kWidth, kConsumers, Shape::kVectors, kFit>;
  using Part = RowShare<T, Share, true>;
  using Queue = row::Queue<T, Shape, 1, kFit == Fit::kAnywhere, Numbers>;
  using AllReduce = cluster::AllReduce<Total, kConsumers>;
  struct Arguments {
    Rows<T> rows;
    int64_t part;    // of a row that a block takes, in vectors
    uint64_t* next;  // 0 before and after
  };
  struct SharedStorage {
    typename Queue::Storage queue;
    typename AllReduce::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Rows<T>& rows = a.rows;
    int64_t first = 0;
    const auto cut_of = [&](int64_t row) {
      typename Share::CutOf cut(rows.logits + row * rows.stride, rows.columns);
      first = cut.keep_part(cluster_rank(), a.part);
      return cut;
    };
    if (thread_index() == 0) Queue::init(shared.queue);
    AllReduce all_reduce(shared.total);  // the cluster meets
    if (thread_index() >= kConsumers) {
      const auto part_of = [&](uint64_t r) {
        const auto row = static_cast<int64_t>(r);
        const auto cut = cut_of(row);
        return typename Queue::Part{{rows.logits + row * rows.stride + cut.head + first},
                                    static_cast<uint32_t>(cut.vectors * 16),
                                    cut.edges,
                                    cut.head,
                                    cut.body};
      };
      Queue::produce(shared.queue, a.next, static_cast<uint64_t>(rows.count), part_of,
                     [&](uint64_t r) { return Numbers::load(rows, static_cast<int64_t>(r)); });
    } else {
      const Merge merge{rows.formula.smooths()};
      for (typename Queue::Position at;; at.advance()) {
        const auto row = static_cast<int64_t>(Queue::wait(shared.queue, at));
        if (row >= rows.count) break;
        const Share share(cut_of(row), thread_index());
        const int stage = Queue::place(at.stage, 0);
        const auto edge = [&](int i) -> T {
          return shared.queue.edges[Queue::edge(at.stage, 0, i)];
        };
        Part part(
            share,
            [&](int v) {
              const int place = (thread_index() + v * kConsumers) * kWidth;
              return std::bit_cast<row::Packed<T, kWidth>>(
                  shared.queue.parts.template load<kWidth>(stage + place));
            },
            [&](int e) { return edge(thread_index() + e * kConsumers); });
        const Beside<T> beside(
            rows, row, Queue::extra(shared.queue, at), cluster_rank() == 0 && thread_index() == 0,
            [&](int column) { return has_column(share, column, static_cast<int>(first)); },
            [&](int column) {
              const int inner = column - share.cut.head;
              const auto body = static_cast<int>(share.cut.body);
              T logit{};
              if (kFit == Fit::kAnywhere && (inner < 0 || inner >= body)) {
                logit = edge(inner < 0 ? column : column - body);
              } else {
                logit = shared.queue.parts[stage + inner - static_cast<int>(first)];
              }
              return to_float(logit);
            });
        Queue::release(shared.queue, at);
        all_reduce.send_warps(part.template total<kWarpSize>(rows.formula), merge);
        const Total total = all_reduce.receive(Total{}, merge);
        beside.store_gradient(rows, row, total, part, first);
        beside.store_loss(rows, row, total);
      }
    }
    all_reduce.finish();
  }
};

struct FusedQueue {
  // f.operator()<Shape>() with the shape for the call's rows.
  template <class F>
  static auto with_shape(const Call& call, const F& f) {
    const bool halves = size_of(call.dtype) == 2;
    if (halves && call.rows.row_bytes() <= cluster::kMaxBlocks * ShortQueuePolicy::kBytes) {
      return f.template operator()<ShortQueuePolicy>();
    }
    if (halves && !rows_aligned(call.rows, widest(call))) {
      return f.template operator()<AnywhereQueuePolicy>();
    }
    return f.template operator()<QueuePolicy>();
  }
  static bool supports(const Call& call, Why& why) {
    const int64_t most =
        with_shape(call, [&]<class Shape>() { return cluster::kMaxBlocks * Shape::kBytes; });
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes <= most, "a cluster's stages hold rows of up to ", most, " bytes, not ",
                      bytes) &&
           vectors_supported(call, why);
  }
  static Workspace workspace(const Call& /*call*/) {
    return {.bytes = sizeof(uint64_t), .zeroed = sizeof(uint64_t)};
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      with_shape(call, [&]<class Shape>() {
        // Those of 16-bit elements are for these alone.
        using Mine = std::conditional_t<sizeof(T) == 2, Shape, QueuePolicy>;
        run_shape<T, Mine>(call, context);
      });
    });
  }
  template <class T, class Shape>
  static void run_shape(const Call& call, const Context& context) {
    const auto with = [&]<Fit kFit>() {
      using Kernel = FusedQueueKernel<T, Shape, kFit>;
      const auto blocks =
          static_cast<int>(std::max<int64_t>(divide_up(call.rows.row_bytes(), Shape::kBytes), 1));
      Grid grid{.blocks = blocks, .threads = Kernel::kThreads, .cluster = blocks};
      grid.blocks *= std::min(call.rows.rows, resident_clusters<Kernel>(grid));
      launch<Kernel>(
          grid, context.stream,
          {rows_of<T>(call, "cross_entropy_fused/fused_queue"),
           part_vectors(call.rows, kWidest<T>, blocks), static_cast<uint64_t*>(context.workspace)});
    };
    constexpr bool kHalves = sizeof(T) == 2;
    if (!rows_aligned(call.rows, kWidest<T>)) {
      constexpr bool kIsOfAligned = kHalves && std::is_same_v<Shape, QueuePolicy>;
      if constexpr (!kIsOfAligned) with.template operator()<Fit::kAnywhere>();
    } else if constexpr (!std::is_same_v<Shape, AnywhereQueuePolicy>) {
      with.template operator()<Fit::kAligned>();
    }
  }
};

inline constexpr Rung kFusedQueue = rung_of<FusedQueue, CrossEntropyFused>(
    {.name = "fused_queue",
     .from = "fused_cluster",
     .idea = "clusters stay and draw the next row, which bulk copies have fetched by then",
     .arch = Arch::kSm90});
#endif

}  // namespace ws::cross_entropy
