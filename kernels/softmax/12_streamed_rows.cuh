// Idea: blocks stay and stream rows through shared memory: while a row is reduced and stored, bulk
// copies fetch the next ones, so loads never stop. Each warp has its own ring of stages and its own
// mbarriers, and refills a stage as soon as the row is in its registers; no barrier but the
// reduction's. Longer rows spread over a cluster.
// From cluster_per_row: no gap between rows, and bytes in flight no longer depend on occupancy.
// Traffic: one read, one write. Limits: rows in multiples of 16 bytes, up to 1 MiB.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/softmax/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/occupancy.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/shared.hpp"

namespace ws::softmax {

// Who shares a row: kLanes of a warp (8, 16, 32), or, where that is 0, all warps of all blocks of
// the cluster. A thread holds kVectors vectors of 16 bytes of it.
template <int kLanes_, int kThreads_, int kVectors_, int kStages_>
struct StreamShape {
  static constexpr int kLanes = kLanes_;
  static constexpr int kThreads = kThreads_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kStages = kStages_;
  static constexpr int64_t kBytes = int64_t{kLanes > 0 ? kLanes : kThreads} * kVectors * 16;
};

template <class T, class Op, class Shape, bool kClustered>
struct StreamedRowsKernel {
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kVectors = Shape::kVectors;
  static constexpr int kStages = Shape::kStages;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr bool kSharesWarp = Shape::kLanes > 0;
  static constexpr int kLanes = kSharesWarp ? Shape::kLanes : kWarpSize;
  static constexpr int kGroups = kWarpSize / kLanes;  // rows, or parts of one, of a warp
  static constexpr int kWidth = kWidest<T>;
  using Word = typename Packed<T, kWidth>::Word;
  static constexpr int kWords = Packed<T, kWidth>::kWords;           // of a vector
  static constexpr int kStageWords = kWarpSize * kVectors * kWords;  // of a warp
  static constexpr Arch kArch = Arch::kSm90;
  static_assert(!(kSharesWarp && kClustered));
  using Total = typename Op::Total;
  using Reduce = std::conditional_t<kClustered, cluster::AllReduce<Total, kThreads>,
                                    block::AllReduce<Total, kThreads>>;
  using Arguments = Rows<T, 1>;
  struct SharedStorage {
    ptx::Mbarrier full[kWarps][kStages];
    typename Reduce::Storage total;
    SharedArray<Word, kWarps * kStages * kStageWords, 128> stages;  // [warp][stage][vector][word]
  };

  // A warp's share of the work: rows row(turn) .. + kGroups, vectors [first, first + vectors) of
  // each.
  struct Share {
    int64_t row;
    int64_t step;
    int first = 0;
    int vectors;

    __device__ __forceinline__ explicit Share(const Arguments& rows) {
      const auto all = static_cast<int>(rows.columns / kWidth);
      vectors = all;
      if constexpr (kSharesWarp) {
        row = (block_index() * kWarps + warp_index()) * kGroups;
        step = grid_blocks() * kWarps * kGroups;
      } else {
        const int blocks = kClustered ? cluster_size() : 1;
        const int rank = kClustered ? cluster_rank() : 0;
        row = block_index() / blocks;
        step = grid_blocks() / blocks;
        const int parts = blocks * kWarps;
        const int share = ((all + parts - 1) / parts + 7) & ~7;  // whole lines of 128 bytes
        first = smaller(all, share * (rank * kWarps + warp_index()));
        vectors = smaller(share, all - first);
      }
    }
  };

  __device__ __forceinline__ static void fetch(SharedStorage& shared, const Arguments& rows,
                                               const Share& share, int64_t row, int stage) {
    if (lane_index() != 0 || row >= rows.count) return;
    const auto groups = static_cast<int>(smaller(int64_t{kGroups}, rows.count - row));
    const auto bytes = static_cast<uint32_t>(share.vectors * 16);
    ptx::Mbarrier& full = shared.full[warp_index()][stage];
    ptx::mbarrier_arrive_expect_tx(full, bytes * static_cast<uint32_t>(groups));
    if (bytes == 0) return;
    for (int g = 0; g < groups; ++g) {
      ptx::bulk_load(stage_of(shared, stage).pointer(g * share.vectors * kWords),
                     rows.inputs[0] + (row + g) * rows.input_strides[0] + share.first * kWidth,
                     bytes, full);
    }
  }

  __device__ __forceinline__ static SharedSpan<Word> stage_of(SharedStorage& shared, int stage) {
    return {shared.stages.pointer((warp_index() * kStages + stage) * kStageWords), kStageWords};
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& rows) const {
    if (lane_index() == 0) {
      for (int s = 0; s < kStages; ++s) ptx::mbarrier_init(shared.full[warp_index()][s], 1);
      ptx::fence_mbarrier_init();
    }
    ptx::syncwarp();
    const Share share(rows);
    for (int s = 0; s < kStages; ++s) fetch(shared, rows, share, share.row + s * share.step, s);
    Reduce all_reduce(shared.total);

    const int group = lane_index() / kLanes;
    const int lane = lane_index() % kLanes;
    int stage = 0;
    uint32_t parity = 0;
    for (int64_t row = share.row; row < rows.count; row += share.step) {
      const int vectors = row + group < rows.count ? share.vectors : 0;
      ptx::mbarrier_wait_parity(shared.full[warp_index()][stage], parity);
      const SharedSpan<Word> staged = stage_of(shared, stage);
      Packed<T, kWidth> packed[kVectors];
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int at = lane + v * kLanes;
        packed[v] = Packed<T, kWidth>::filled(Op::kPadding);
        if (at < vectors)
          packed[v].words = staged.template load<kWords>((group * vectors + at) * kWords);
      }
      ptx::syncwarp();  // all lanes have read: the stage is free
      fetch(shared, rows, share, row + kStages * share.step, stage);
      if (++stage == kStages) {
        stage = 0;
        parity ^= 1;
      }

      Tile<Values<1>, kVectors * kWidth> elements;
#pragma unroll
      for (int i = 0; i < kVectors * kWidth; ++i) elements[i][0] = packed[i / kWidth][i % kWidth];
      const Total mine = Op::begin(elements);
      Total total;
      if constexpr (kSharesWarp) {
        total = warp::all_reduce<kLanes>(mine, Op::merge);
      } else if constexpr (kClustered) {
        total = all_reduce(mine, Op::none(), Op::merge);
      } else {
        total = all_reduce(mine, Op::merge);
      }
      T* to = rows.output + (row + group) * rows.output_stride + (share.first + lane) * kWidth;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        Vec<float, kWidth> y;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) y[i] = Op::end(elements[v * kWidth + i], mine, total);
        if (lane + v * kLanes < vectors) {
          thread::store(to + v * kLanes * kWidth, thread::convert<T>(y));
        }
      }
    }
    if constexpr (kClustered) all_reduce.finish();
  }

  static void launch_on(const Arguments& rows, int cluster, Stream stream) {
    Grid grid{.threads = kThreads, .cluster = cluster};
    const int64_t at_once = resident_blocks<StreamedRowsKernel>(grid);
    const int64_t needed =
        kSharesWarp ? divide_up(rows.count, kWarps * kGroups) : rows.count * cluster;
    grid.blocks = std::min(at_once, needed);
    launch<StreamedRowsKernel>(grid, stream, rows);
  }
};

struct StreamedRows {
  // The part of a longer row that a block of a cluster takes.
  template <class T, class Op>
  using ClusterKernel = StreamedRowsKernel<T, Op, StreamShape<0, 512, 8, 3>, true>;
  static constexpr int64_t kBytes = cluster::kMaxBlocks * StreamShape<0, 512, 8, 3>::kBytes;

  static int64_t row_bytes(const Problem& problem, const Layout& layout) {
    return layout.columns * static_cast<int64_t>(size_of(problem.tensor(0).dtype));
  }
  static Reason supports(const Problem& problem) {
    const Layout layout = layout_of(problem);
    if (Reason reason = forward_only(problem); !reason.empty()) return reason;
    if (const int64_t bytes = row_bytes(problem, layout); bytes > kBytes || bytes % 16 != 0) {
      return concatenate("takes rows of up to ", kBytes, " bytes in multiples of 16, not ", bytes);
    }
    const auto size = static_cast<int64_t>(size_of(problem.tensor(0).dtype));
    for (int k = 0; k < layout.operands; ++k) {
      const int64_t stride = layout.strides[static_cast<size_t>(k)][0] * size;
      if (reinterpret_cast<uintptr_t>(problem.tensor(k).data) % 16 != 0 || stride % 16 != 0) {
        return concatenate("takes rows that start at multiples of 16 bytes, not ",
                           problem.tensor(k).describe(), " at ", problem.tensor(k).data);
      }
    }
    return rows_supported(problem, layout, 1);
  }
  static void run(const Problem& problem, const Context& context) {
    const int64_t bytes = row_bytes(problem, layout_of(problem));
    dispatch<Directions::kForward>(problem, [&]<class T, class Op>() {
      const auto rows = rows_of<T, 1>(problem);
      const auto take = [&]<class Shape>(Shape) {
        if (bytes > Shape::kBytes) return false;
        StreamedRowsKernel<T, Op, Shape, false>::launch_on(rows, 1, context.stream);
        return true;
      };
      if (take(StreamShape<8, 256, 4, 3>{}) || take(StreamShape<16, 256, 4, 3>{}) ||
          take(StreamShape<32, 256, 4, 3>{}) || take(StreamShape<32, 256, 8, 3>{}) ||
          take(StreamShape<0, 64, 8, 3>{}) || take(StreamShape<0, 128, 8, 3>{}) ||
          take(StreamShape<0, 256, 8, 3>{}) || take(StreamShape<0, 512, 8, 3>{})) {
        return;
      }
      const auto parts = divide_up(bytes, StreamShape<0, 512, 8, 3>::kBytes);
      ClusterKernel<T, Op>::launch_on(
          rows, static_cast<int>(std::bit_ceil(static_cast<uint64_t>(parts))), context.stream);
    });
  }
};

}  // namespace ws::softmax
