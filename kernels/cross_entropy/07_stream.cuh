// Idea: blocks stay, and rows flow through a ring of shared memory that one thread keeps full by
// bulk copies; a warp of its own ends the rows, so that nobody who reads ever waits for a row's
// end.
// From vector: no block is launched for a row, no barrier; the next row's bytes are under way while
// the threads' totals of this one are merged, and its target and loss are another warp's.
// Traffic: one read, one pass through shared memory.
// Limits: rows of whole vectors from 8 KiB on; not both weights and label_smoothing.
// Long: both ends of two rings belong on one page.
#pragma once

#include "kernels/cross_entropy/rows.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::cross_entropy {

// kStages stages of kVectors vectors of 16 bytes for each of kReaders threads.
template <int kReaders_, int kVectors_, int kStages_, int kMinBlocks_>
struct RingShape {
  static constexpr int kReaders = kReaders_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int kStageVectors = kReaders * kVectors;
};
// 96 KiB of ring in each of two blocks of an SM. Not yet measured against others.
using RingPolicy = RingShape<256, 4, 6, 2>;

#if WS_DEVICE_CODE
template <class T, class Ring>
struct StreamKernel {
  static constexpr int kWidth = kWidest<T>;
  static constexpr int kReaders = Ring::kReaders;
  static constexpr int kWarps = kReaders / kWarpSize;
  static constexpr int kThreads = kReaders + 2 * kWarpSize;
  static constexpr int kMinBlocks = Ring::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kStage = Ring::kStageVectors * kWidth;  // elements
  using Packed = row::Packed<T, kWidth>;
  using Stages = tile::Pipeline<Ring::kStages>;
  using Ends = tile::Pipeline<2>;
  struct Arguments {
    Rows<T> rows;
    int vectors;     // of a row
    uint64_t* next;  // 0 before and after
  };
  struct SharedStorage {
    SharedArray<T, Ring::kStages * kStage, 128> data;
    SharedArray<int64_t, Ring::kStages> row;  // that a stage begins
    SharedArray<Total, 2 * kWarps> totals;
    SharedArray<int64_t, 2> ended;
    Stages stages;
    Ends ends;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      shared.stages.init(kWarps);
      shared.ends.init(kWarps, kWarps);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp_index() < kWarps) {
      read(shared, a);
    } else if (warp_index() > kWarps) {
      end_rows(shared, a);
    } else if (lane_index() == 0) {
      fetch(shared, a);
    }
  }

 private:
  // Draws rows, in the order of their addresses, until one past the last says that there are none.
  __device__ __forceinline__ static void fetch(SharedStorage& shared, const Arguments& a) {
    typename Stages::Position at;
    for (;;) {
      const auto row = static_cast<int64_t>(ptx::atom_global_add(a.next, uint64_t{1}));
      if (row >= a.rows.count) {
        // Each block draws one; who draws the last of them sets the counter back.
        if (row == a.rows.count + grid_blocks() - 1) ptx::atom_global_exch(a.next, uint64_t{0});
        shared.stages.wait_free(at);
        shared.row[at.stage] = row;
        return shared.stages.fill(at.stage);
      }
      const T* x = a.rows.logits + row * a.rows.stride;
      for (int v = 0; v < a.vectors; v += Ring::kStageVectors, at.advance()) {
        const int left = a.vectors - v;
        const auto bytes =
            static_cast<uint32_t>(left < Ring::kStageVectors ? left : Ring::kStageVectors) * 16;
        shared.stages.wait_free(at);
        if (v == 0) shared.row[at.stage] = row;
        ptx::Mbarrier& full = shared.stages.full[at.stage];
        ptx::mbarrier_arrive_expect_tx(full, bytes);
        ptx::bulk_load(shared.data.pointer(at.stage * kStage), x + int64_t{v} * kWidth, bytes,
                       full);
      }
    }
  }

  __device__ __forceinline__ static void read(SharedStorage& shared, const Arguments& a) {
    typename Stages::Position at;
    typename Ends::Position end;
    for (;; end.advance()) {
      Running running(a.rows.formula);
      int64_t row = 0;
      for (int v = 0; v < a.vectors; v += Ring::kStageVectors, at.advance()) {
        shared.stages.wait(at);
        if (v == 0) {  // the lane that lets go of the stage reads the number
          if (lane_index() == 0) row = shared.row[at.stage];
          row = warp::shuffle(row, 0);
          if (row >= a.rows.count) break;
        }
        const int left = a.vectors - v;
        Packed vectors[Ring::kVectors];
        const auto place = [&](int i) { return i * kReaders + thread_index(); };
        const auto load = [&](int i) {
          return std::bit_cast<Packed>(
              shared.data.template load<kWidth>(at.stage * kStage + place(i) * kWidth));
        };
        if (left >= Ring::kStageVectors) {
#pragma unroll
          for (int i = 0; i < Ring::kVectors; ++i) vectors[i] = load(i);
          running.add<T>(vectors);
        } else {
#pragma unroll 1
          for (int i = 0; place(i) < left; ++i) {
            const Packed one[1] = {load(i)};
            running.add<T>(one);
          }
        }
        ptx::syncwarp();
        if (lane_index() == 0) shared.stages.release(at.stage);
      }
      const Total total = warp::all_reduce(running.total(), Merge{a.rows.formula.smooths()});
      if (lane_index() == 0) {
        shared.ends.wait_free(end);
        shared.totals[end.stage * kWarps + warp_index()] = total;
        if (warp_index() == 0) shared.ended[end.stage] = row;
        shared.ends.fill(end.stage);
      }
      ptx::syncwarp();
      if (row >= a.rows.count) return;
    }
  }

  // By one warp: what each row's threads have found becomes its loss.
  __device__ __forceinline__ static void end_rows(SharedStorage& shared, const Arguments& a) {
    for (typename Ends::Position at;; at.advance()) {
      shared.ends.wait(at);
      // Before anyone lets go: a lane that came late would find the stage filled again, and wait.
      ptx::syncwarp();
      int64_t row = 0;
      Total total;
      if (lane_index() == 0) row = shared.ended[at.stage];
      if (lane_index() < kWarps) {
        total = shared.totals[at.stage * kWarps + lane_index()];
        shared.ends.release(at.stage);
      }
      row = warp::shuffle(row, 0);
      if (row >= a.rows.count) return;
      total = warp::all_reduce(total, Merge{a.rows.formula.smooths()});
      if (lane_index() != 0) continue;
      const Target target = a.rows.target(row, true);
      if (target.is_ignored) a.rows.store_numbers(row, 0, 0);
      if (!target.counts()) continue;
      const T* x = a.rows.logits + row * a.rows.stride;
      a.rows.store_loss(row, total, to_float(thread::load(x + target.index)),
                        a.rows.formula.weight_of(target.index));
    }
  }
};
#endif

struct Stream {
  static constexpr int64_t kLeastBytes = 8 * 1024;
  static constexpr int64_t kMostBytes = int64_t{1} << 34;  // vectors are counted in 32 bits

  static bool supports(const Call& call, Why& why) {
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes >= kLeastBytes && bytes <= kMostBytes, "takes rows of ", kLeastBytes,
                      " to ", kMostBytes, " bytes, not ", bytes) &&
           aligned_vectors_supported(call, why);
  }
  static Workspace workspace(const Call& /*call*/) {
    return {.bytes = sizeof(uint64_t), .zeroed = sizeof(uint64_t)};
  }
#if WS_DEVICE_CODE
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = StreamKernel<T, RingPolicy>;
      Grid grid{.blocks = 1, .threads = Kernel::kThreads};
      grid.blocks = std::min(call.rows.rows, resident_clusters<Kernel>(grid));
      launch<Kernel>(grid, context.stream,
                     {rows_of<T>(call, "cross_entropy_forward/stream"),
                      static_cast<int>(call.rows.columns / kWidest<T>),
                      static_cast<uint64_t*>(context.workspace)});
    });
  }
#endif
};

#if WS_DEVICE_CODE
inline constexpr Rung kStream = rung_of<Stream, CrossEntropyForward>(
    {.name = "stream",
     .from = "vector",
     .idea = "blocks stay, rows flow through a ring of bulk copies, a warp of its own ends them",
     .arch = Arch::kSm90});
#endif

}  // namespace ws::cross_entropy
