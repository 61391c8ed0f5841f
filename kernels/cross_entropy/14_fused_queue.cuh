// Idea: clusters that stay take the next row from a counter; a warp of each block keeps bulk copies
// of the rows to come in flight while the others work on a row where it landed.
// From fused_cluster: no block is launched for a row, and loads do not pause for the reduction; the
// counter hands rows out in the order of their addresses.
// Traffic: one read, one write, one pass through shared memory.
// Limits: rows of whole vectors, of up to 512 KiB; not both weights and
// label_smoothing.
#pragma once

#include <bit>

#include "kernels/cross_entropy/row_part.hpp"
#include "warpsmith/row/queue.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::cross_entropy {

#if WS_DEVICE_CODE
// Parts of 32 KiB, three under way in each of two blocks of an SM. Not yet measured against others.
using QueuePolicy = row::QueueShape<256, 8, 3, 2>;

template <class T, class Shape>
struct FusedQueueKernel {
  static constexpr int kConsumers = Shape::kConsumers;
  static constexpr int kThreads = kConsumers + kWarpSize;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  using Queue = row::Queue<T, Shape>;
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
    const int64_t first = std::min(cluster_rank() * a.part, rows.columns / kWidth);
    const auto vectors = static_cast<int>(std::min(a.part, rows.columns / kWidth - first));
    if (thread_index() == 0) Queue::init(shared.queue);
    AllReduce all_reduce(shared.total);  // the cluster meets
    if (thread_index() == kConsumers) {
      Queue::produce(shared.queue, a.next, static_cast<uint64_t>(rows.count), [&](uint64_t r) {
        const T* x = rows.logits + static_cast<int64_t>(r) * rows.stride;
        return typename Queue::Part{{x + first * kWidth}, static_cast<uint32_t>(vectors * 16)};
      });
    } else if (thread_index() < kConsumers) {
      for (typename Queue::Position at;; at.advance()) {
        shared.queue.pipeline.wait(at);
        // The lane that lets go of the stage is the one that reads the number.
        uint64_t r = 0;
        if (lane_index() == 0) r = shared.queue.row[at.stage];
        const auto row = static_cast<int64_t>(warp::shuffle(r, 0));
        if (row >= rows.count) break;
        const auto held = [&](int v) {
          const int place = (thread_index() + v * kConsumers) * kWidth;
          return std::bit_cast<Packed>(
              shared.queue.parts.template load<kWidth>(at.stage * Queue::kPart + place));
        };
        const auto part = row_part<T, kConsumers, Shape::kVectors>(first, vectors, held);
        const Beside beside(rows, row, part, [&](int64_t column) {
          const T x = shared.queue.parts[at.stage * Queue::kPart + part.place_of(column)];
          return to_float(x);
        });
        finish_row(rows, row, part, all_reduce, beside);
        ptx::syncwarp();
        if (lane_index() == 0) shared.queue.pipeline.release(at.stage);
      }
    }
    all_reduce.finish();
  }
};

struct FusedQueue {
  static bool supports(const Call& call, Why& why) {
    constexpr int64_t kMost = cluster::kMaxBlocks * QueuePolicy::kBytes;
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes <= kMost, "a cluster's stages hold rows of up to ", kMost,
                      " bytes, not ", bytes) &&
           aligned_vectors_supported(call, why);
  }
  static Workspace workspace(const Call& /*call*/) {
    return {.bytes = sizeof(uint64_t), .zeroed = sizeof(uint64_t)};
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = FusedQueueKernel<T, QueuePolicy>;
      const int64_t parts = divide_up(call.rows.row_bytes(), QueuePolicy::kBytes);
      const auto blocks = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(parts)));
      Grid grid{.blocks = blocks, .threads = Kernel::kThreads, .cluster = blocks};
      grid.blocks *= std::min(call.rows.rows, resident_clusters<Kernel>(grid));
      launch<Kernel>(
          grid, context.stream,
          {rows_of<T>(call, "cross_entropy_fused/fused_queue"),
           part_vectors(call.rows, kWidest<T>, blocks), static_cast<uint64_t*>(context.workspace)});
    });
  }
};

inline constexpr Rung kFusedQueue = rung_of<FusedQueue, CrossEntropyFused>(
    {.name = "fused_queue",
     .from = "fused_cluster",
     .idea = "clusters stay and draw the next row, which bulk copies have fetched by then",
     .arch = Arch::kSm90});
#endif

}  // namespace ws::cross_entropy
