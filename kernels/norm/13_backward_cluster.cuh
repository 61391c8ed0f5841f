// Idea: a block, or a cluster of up to 16, takes a row; its part of the columns' sums stays in
// registers, rows wait in shared memory, fetched ahead by bulk copies. A row's totals are on their
// way to the other warps and blocks while the row before it is written.
// From backward_in_registers: rows of any length up to 512 KiB are read once; layer_norm's of 16
// bits, which have two sums for each half a word, up to 256 KiB.
// Rows are dealt out in turns, not drawn: which rows a sum holds may not depend on who was faster.
// Traffic: two reads, one write, and 8 bytes a column and cluster.
// Limits: rows of whole vectors from 1 to 512 KiB, to 256 of layer_norm whose weight is wider.
// Statistics that are not given cost another read of x.
// Long: as the queue, and the choice of clusters.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/norm/gradient_rows.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::norm {

// kThreads threads own kVectors vectors of columns each; kStages rows of grad and x are under
// way.
template <int kThreads_, int kVectors_, int kStages_, int kMinBlocks_>
struct RingShape {
  static constexpr int kThreads = kThreads_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int64_t kBytes = int64_t{16} * kThreads * kVectors;  // of a part of a row
};

template <class T, class W, bool kCentred, class Shape>
struct BackwardClusterKernel {
  using Element = T;
  static constexpr int kVectors = Shape::kVectors;
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr int64_t kPartBytes = Shape::kBytes;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kPart = kThreads * kVectors * kWidth;  // elements
  using Packed = row::Packed<T, kWidth>;
  using Parameter = row::Packed<W, kWidth>;
  using Sums = Vec<float, kWidth>;
  using Position = tile::PipelinePosition<Shape::kStages>;
  using Total = GradientTotals<kCentred>;
  using Merge = AddGradientTotals<kCentred>;
  using Reduce = cluster::AllReduce<Total, kThreads, 1, 1>;
  struct Arguments {
    GradientRows<T> rows;
    int64_t part;  // of a row that a block takes, in vectors
  };
  struct SharedStorage {
    SharedArray<T, 2 * Shape::kStages * kPart, 128> parts;  // grad and x of each stage
    ptx::Mbarrier full[Shape::kStages];
    typename Reduce::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t first = cluster_rank() * a.part;
    const int64_t left = a.rows.vectors - first;
    const auto vectors = static_cast<int>(left < 0 ? 0 : (left < a.part ? left : a.part));
    if (thread_index() == 0) {
#pragma unroll
      for (ptx::Mbarrier& full : shared.full) ptx::mbarrier_init(full, 1);
      ptx::fence_mbarrier_init();
    }
    Reduce all_reduce(shared.total);  // the cluster meets
    consume(shared, a, first, vectors, all_reduce);
    all_reduce.finish();
  }

 private:
  using Given = GivenStatistics<kCentred>;

  // By one thread: row r on its way to a place of the ring that nobody reads any more.
  __device__ __forceinline__ static void fetch(SharedStorage& shared, const GradientRows<T>& rows,
                                               int64_t r, int64_t first, int vectors, int stage) {
    if (r >= rows.count) return;
    const auto bytes = static_cast<uint32_t>(vectors * 16);
    ptx::Mbarrier& full = shared.full[stage];
    ptx::mbarrier_arrive_expect_tx(full, 2 * bytes);
    if (bytes == 0) return;
    T* to = shared.parts.pointer(2 * stage * kPart);
    ptx::bulk_load(to, rows.grad + r * rows.grad_stride + first * kWidth, bytes, full);
    ptx::bulk_load(to + kPart, rows.x + r * rows.x_stride + first * kWidth, bytes, full);
  }

  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& a,
                                                 int64_t first, int vectors, Reduce& all_reduce) {
    const auto cluster = static_cast<int>(block_index()) / cluster_size();
    const auto clusters = static_cast<int>(grid_blocks()) / cluster_size();
    if (thread_index() == 0) {
      for (int s = 0; s < Shape::kStages; ++s) {
        fetch(shared, a.rows, cluster + s * clusters, first, vectors, s);
      }
    }
    const auto vector = [&](int v) { return thread_index() + v * kThreads; };
    Parameter weight[kVectors];
    Sums dweight[kVectors];
    Sums dbias[kCentred ? kVectors : 1];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      weight[v] = Parameter::filled(1.0F);
      if (a.rows.weight != nullptr && vector(v) < vectors) {
        weight[v] = Parameter::template load<Cache::kReadOnly>(
            static_cast<const W*>(a.rows.weight) + (first + vector(v)) * kWidth);
      }
      dweight[v] = Sums{};
      if constexpr (kCentred) dbias[v] = Sums{};
    }
    const auto load = [&](const Position& at, int which, int v) {
      return std::bit_cast<Packed>(
          shared.parts.template load<kWidth>((2 * at.stage + which) * kPart + vector(v) * kWidth));
    };
    // The totals of the row at a place of the ring, once it is there, on their way.
    const auto begin = [&](const Position& at, const Given& row) {
      ptx::mbarrier_wait_parity(shared.full[at.stage], at.parity);
      Total mine{};
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (vector(v) >= vectors) continue;
        add_to_totals(mine, load(at, 0, v), load(at, 1, v), weight[v], row);
      }
      all_reduce.send_warps(warp::all_reduce(mine, Merge{}), Merge{});
    };

    const auto count = static_cast<int>(a.rows.count);  // up to kMostBlocks
    Position at;
    Given row(a.rows, cluster);
    Given next(a.rows, cluster + clusters);
    if (cluster < count) begin(at, row);
    for (int r = cluster; r < count; r += clusters) {
      stay_packed(weight);
      const Given later(a.rows, r + 2 * clusters);
      Position ahead = at;
      ahead.advance();
      if (r + clusters < count) begin(ahead, next);
      // All warps have sent that row's totals, so they are done with the row before this one.
      if (r != cluster && thread_index() == 0) {
        const int before = at.stage == 0 ? Shape::kStages - 1 : at.stage - 1;
        fetch(shared, a.rows, r + (Shape::kStages - 1) * clusters, first, vectors, before);
      }
      const GradientSlope<kCentred> slope(a.rows, row, all_reduce.receive(Total{}, Merge{}));
      T* dx = a.rows.dx + int64_t{r} * a.rows.dx_stride + first * kWidth;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (vector(v) >= vectors) continue;
        const auto out = gradient_of(load(at, 0, v), load(at, 1, v), weight[v], row, slope,
                                     dweight[v], dbias[kCentred ? v : 0]);
        thread::store(dx + vector(v) * kWidth, thread::convert<T>(out));
      }
      at = ahead;
      row = next;
      next = later;
    }

    ptx::griddepcontrol_launch_dependents();  // the parts' sum may get ready
    const int64_t columns = a.rows.vectors * kWidth;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (vector(v) >= vectors) continue;
      const int64_t place = cluster * columns + (first + vector(v)) * kWidth;
      if (a.rows.dweight != nullptr) thread::store(a.rows.dweight + place, dweight[v]);
      if (kCentred && a.rows.dbias != nullptr) {
        thread::store(a.rows.dbias + place, dbias[kCentred ? v : 0]);
      }
    }
  }
};

// `Policy::with_shape<T, W, kCentred>(bytes, f)` calls f.operator()<Shape>() with the shape for
// rows of `bytes`, up to Policy::kMostBytes.
template <class Policy>
struct BackwardCluster {
  static constexpr int64_t kLeastBytes = 1024;  // less leaves most of a block's threads idle

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const int64_t most =
        Policy::template most_bytes<Call::kCentred>(call.dtype, call.parameter_dtype);
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes >= kLeastBytes && bytes <= most, "takes rows of ", kLeastBytes, " to ",
                      most, " bytes, not ", bytes) &&
           aligned_gradient_rows(call, why);
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    int64_t clusters = 0;
    with_kernel(call, [&]<class Kernel>() { clusters = clusters_of<Kernel>(call); });
    return gradient_workspace(call, clusters);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_kernel(call, [&]<class Kernel>() {
      const Grid grid = cluster_of<Kernel>(call);
      const int64_t clusters = clusters_of<Kernel>(call);
      typename Kernel::Arguments arguments{};
      arguments.rows = gradient_rows_of<typename Kernel::Element>(call);
      arguments.part = divide_up(arguments.rows.vectors, int64_t{grid.cluster});
      prepare(arguments.rows, call, clusters, context);
      launch<Kernel>(
          {.blocks = clusters * grid.cluster, .threads = grid.threads, .cluster = grid.cluster},
          context.stream, arguments);
      SumPartsKernel::launch_on(call, arguments.rows.dweight, arguments.rows.dbias, clusters,
                                context.stream);
    });
  }

 private:
  template <class Kernel, class Call>
  static Grid cluster_of(const Call& call) {
    const auto parts = divide_up(call.rows.row_bytes(), Kernel::kPartBytes);
    const auto blocks = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(parts)));
    return {.blocks = blocks, .threads = Kernel::kThreads, .cluster = blocks};
  }
  // As many as run at once: one that waited for another to end would double the time.
  template <class Kernel, class Call>
  static int64_t clusters_of(const Call& call) {
    const int64_t resident = resident_clusters<Kernel>(cluster_of<Kernel>(call));
    return std::clamp<int64_t>(call.rows.rows, 1, resident);
  }
  // f.operator()<Kernel>() with the kernel of the call.
  template <class Call, class F>
  static void with_kernel(const Call& call, const F& f) {
    with_types(call, [&]<class T, class W>() {
      constexpr bool kCentred = Call::kCentred;
      Policy::template with_shape<T, W, kCentred>(call.rows.row_bytes(), [&]<class Shape>() {
        f.template operator()<BackwardClusterKernel<T, W, kCentred, Shape>>();
      });
    });
  }
};

}  // namespace ws::norm
