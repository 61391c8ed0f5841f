// Idea: a row that is short enough to lie in the ring as a whole belongs to one warp, which adds it
// up by itself and ends it; rows are drawn several at a time.
// From stream: of rows of 8 KiB most of a warp's time went into the row's end, which eight warps
// had in common, and a block could not draw the next row sooner than the counter answered.
// Traffic: one read, one pass through shared memory.
// Limits: rows of whole vectors, over 2 and up to 16 KiB; not both weights and label_smoothing.
// Long: both ends of the ring belong on one page.
#pragma once

#include "kernels/cross_entropy/rows.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/tile/pipeline.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::cross_entropy {

// kStages rows of kRowBytes under way for kWarps warps, in each of kMinBlocks blocks of an SM;
// kDrawn rows a draw.
template <int kWarps_, int64_t kRowBytes_, int kStages_, int kMinBlocks_, int kDrawn_>
struct RowRing {
  static constexpr int kWarps = kWarps_;
  static constexpr int64_t kRowBytes = kRowBytes_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int kDrawn = kDrawn_;
  // A stage is always the same warp's: one that could come to it a round early would take the end
  // of the round before for the end of its own, by the parity alone.
  static_assert(kStages % kWarps == 0);
};
using RowRing4 = RowRing<8, 4 * 1024, 24, 2, 8>;
using RowRing8 = RowRing<12, 8 * 1024, 12, 2, 4>;
using RowRing16 = RowRing<6, 16 * 1024, 6, 2, 2>;

#if WS_DEVICE_CODE
template <class T, class Ring>
struct StreamRowsKernel {
  static constexpr int kWidth = kWidest<T>;
  static constexpr int kWarps = Ring::kWarps;
  static constexpr int kThreads = (kWarps + 1) * kWarpSize;
  static constexpr int kMinBlocks = Ring::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kRow = static_cast<int>(Ring::kRowBytes / sizeof(T));  // elements
  static constexpr int kTile = 4;  // vectors of a lane that are added at once
  using Packed = row::Packed<T, kWidth>;
  using Stages = tile::Pipeline<Ring::kStages>;
  using Position = typename Stages::Position;
  struct Arguments {
    Rows<T> rows;
    int vectors;     // of a row
    uint64_t* next;  // 0 before and after
  };
  struct SharedStorage {
    SharedArray<T, Ring::kStages * kRow, 128> data;
    SharedArray<int64_t, Ring::kStages> row;
    Stages stages;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      shared.stages.init(1);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp_index() < kWarps) {
      read(shared, a);
    } else if (lane_index() == 0) {
      fetch(shared, a);
    }
  }

 private:
  // Draws rows, in the order of their addresses, until there are none; then tells each warp.
  __device__ __forceinline__ static void fetch(SharedStorage& shared, const Arguments& a) {
    const int64_t draws = divide_up(a.rows.count, int64_t{Ring::kDrawn});
    const auto bytes = static_cast<uint32_t>(a.vectors) * 16;
    Position at;
    for (;;) {
      const auto draw = static_cast<int64_t>(ptx::atom_global_add(a.next, uint64_t{1}));
      if (draw >= draws) {
        // Each block draws one; who draws the last of them sets the counter back.
        if (draw == draws + grid_blocks() - 1) ptx::atom_global_exch(a.next, uint64_t{0});
        for (int w = 0; w < kWarps; ++w, at.advance()) {
          shared.stages.wait_free(at);
          shared.row[at.stage] = a.rows.count;
          shared.stages.fill(at.stage);
        }
        return;
      }
      const int64_t first = draw * Ring::kDrawn;
      const int64_t end = std::min(first + Ring::kDrawn, a.rows.count);
      for (int64_t row = first; row < end; ++row, at.advance()) {
        ptx::Mbarrier& full = shared.stages.full[at.stage];
        shared.stages.wait_free(at);
        shared.row[at.stage] = row;
        ptx::mbarrier_arrive_expect_tx(full, bytes);
        ptx::bulk_load(shared.data.pointer(at.stage * kRow), a.rows.logits + row * a.rows.stride,
                       bytes, full);
      }
    }
  }

  __device__ __forceinline__ static void read(SharedStorage& shared, const Arguments& a) {
    Position at;
    at.advance(warp_index());
    for (;; at.advance(kWarps)) {
      shared.stages.wait(at);
      const int64_t row = shared.row[at.stage];
      if (row >= a.rows.count) return;
      // On its way while the row is added up.
      const int64_t index = a.rows.targets.load(row * a.rows.strides[kTarget]);
      const int data = at.stage * kRow;
      const auto load = [&](int v) {
        return std::bit_cast<Packed>(shared.data.template load<kWidth>(data + v * kWidth));
      };
      Running running(a.rows.formula);
      int v = lane_index();
      for (; v + (kTile - 1) * kWarpSize < a.vectors; v += kTile * kWarpSize) {
        Packed vectors[kTile];
#pragma unroll
        for (int i = 0; i < kTile; ++i) vectors[i] = load(v + i * kWarpSize);
        running.add<T>(vectors);
      }
#pragma unroll 1
      for (; v < a.vectors; v += kWarpSize) {
        const Packed one[1] = {load(v)};
        running.add<T>(one);
      }
      const Target target = a.rows.targets.judged(index, row, lane_index() == 0);
      float logit = 0;
      if (target.counts()) {
        const T x = shared.data[data + static_cast<int>(target.index)];
        logit = to_float(x);
      }
      ptx::syncwarp();
      if (lane_index() == 0) shared.stages.release(at.stage);
      const Total total = warp::all_reduce(running.total(), Merge{a.rows.formula.smooths()});
      if (lane_index() != 0) continue;
      if (target.is_ignored) a.rows.store_numbers(row, 0, 0);
      if (target.counts()) {
        a.rows.store_loss(row, total, logit, a.rows.formula.weight_of(target.index));
      }
    }
  }
};
#endif

struct StreamRows {
  static constexpr int64_t kLeastBytes = 2 * 1024;
  static constexpr int64_t kMostBytes = RowRing16::kRowBytes;

  static bool supports(const Call& call, Why& why) {
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes > kLeastBytes && bytes <= kMostBytes, "takes rows over ", kLeastBytes,
                      " bytes, of up to ", kMostBytes, ", not ", bytes) &&
           aligned_vectors_supported(call, why);
  }
  static Workspace workspace(const Call& /*call*/) {
    return {.bytes = sizeof(uint64_t), .zeroed = sizeof(uint64_t)};
  }
#if WS_DEVICE_CODE
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const auto with = [&]<class Ring>() {
        using Kernel = StreamRowsKernel<T, Ring>;
        Grid grid{.blocks = 1, .threads = Kernel::kThreads};
        grid.blocks = std::min(divide_up(call.rows.rows, int64_t{Ring::kDrawn}),
                               resident_clusters<Kernel>(grid));
        launch<Kernel>(grid, context.stream,
                       {rows_of<T>(call, "cross_entropy_forward/stream_rows"),
                        static_cast<int>(call.rows.columns / kWidest<T>),
                        static_cast<uint64_t*>(context.workspace)});
      };
      const int64_t bytes = call.rows.row_bytes();
      if (bytes <= RowRing4::kRowBytes) return with.template operator()<RowRing4>();
      if (bytes <= RowRing8::kRowBytes) return with.template operator()<RowRing8>();
      with.template operator()<RowRing16>();
    });
  }
#endif
};

#if WS_DEVICE_CODE
inline constexpr Rung kStreamRows = rung_of<StreamRows, CrossEntropyForward>(
    {.name = "stream_rows",
     .from = "stream",
     .idea = "a warp a row that lies whole in the ring; rows are drawn several at a time",
     .arch = Arch::kSm90});
#endif

}  // namespace ws::cross_entropy
