// Idea: clusters that stay take the next row from a counter; a warp of each block keeps bulk copies
// of the rows to come in flight, rows wait in shared memory, and weight and bias stay in registers.
// The exchange between blocks is hidden: a row's totals are sent before the row ahead of it is
// written.
// From cluster_per_row: no block is launched for a row, parameters are read once a block instead of
// once a row (at N = 262144 they are as many bytes as x), and nobody waits for the other blocks.
// Traffic: one read, one write, one pass through shared memory.
// Limits: rows of whole vectors from 16 to 512 KiB, 1 MiB in f32; no residual.
// Long: both ends of the queue and the order between rows belong on one page.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/norm/rows.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/row/queue.hpp"

namespace ws::norm {

// T: of x; W: of the parameters.
template <class T, class W, bool kCentred, class Shape>
struct ClusterQueueKernel {
  static constexpr int kConsumers = Shape::kConsumers;
  static constexpr int kVectors = Shape::kVectors;
  static constexpr int kThreads = kConsumers + kWarpSize;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  using Parameter = row::Packed<W, kWidth>;
  using Queue = row::Queue<T, Shape>;
  using Position = typename Queue::Position;
  using Totals = norm::Totals<kCentred>;
  using Merge = typename Totals::Merge;
  using Reduce = cluster::AllReduce<typename Totals::Total, kConsumers, 1, 1>;
  struct Arguments {
    Rows<T> rows;
    int64_t part;    // of a row that a block takes, in vectors
    uint64_t* next;  // 0 at launch
  };
  struct SharedStorage {
    typename Queue::Storage queue;
    typename Reduce::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t first = cluster_rank() * a.part;
    const int64_t left = a.rows.vectors - first;
    const auto vectors = static_cast<int>(left < 0 ? 0 : (left < a.part ? left : a.part));
    if (thread_index() == 0) Queue::init(shared.queue);
    Reduce all_reduce(shared.total);  // the cluster meets
    if (thread_index() == kConsumers) {
      Queue::produce(shared.queue, a.next, static_cast<uint64_t>(a.rows.count), [&](uint64_t r) {
        const T* x = a.rows.x + static_cast<int64_t>(r) * a.rows.x_stride + first * kWidth;
        return typename Queue::Part{{x}, static_cast<uint32_t>(vectors * 16)};
      });
    } else if (thread_index() < kConsumers) {
      consume(shared, a, first, vectors, all_reduce);
    }
    all_reduce.finish();
  }

 private:
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& a,
                                                 int64_t first, int vectors, Reduce& all_reduce) {
    const auto rows = static_cast<uint32_t>(a.rows.count);  // up to kMostBlocks
    const auto vector = [&](int v) { return thread_index() + v * kConsumers; };
    const auto holds = [&](int v) { return vector(v) < vectors; };
    Parameter weight[kVectors];
    Parameter bias[kCentred ? kVectors : 1];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const auto fetch = [&](const void* data, float standard) {
        return data != nullptr && holds(v)
                   ? Parameter::template load<Cache::kReadOnly>(static_cast<const W*>(data) +
                                                                (first + vector(v)) * kWidth)
                   : Parameter::filled(standard);
      };
      weight[v] = fetch(a.rows.weight, 1.0F);
      if constexpr (kCentred) bias[v] = fetch(a.rows.bias, 0.0F);
    }
    const float count = warp_count<kVectors, kWidth>(vectors, kConsumers);
    const auto load = [&](const Position& at, int v) {
      return std::bit_cast<Packed>(
          shared.queue.parts.template load<kWidth>(at.stage * Queue::kPart + vector(v) * kWidth));
    };
    // The number of the row at a place of the ring, once it is there; its totals are on their way.
    const auto begin = [&](const Position& at) {
      const auto r = Queue::template wait<uint32_t>(shared.queue, at);
      if (r < rows) {
        const auto x = [&](int v) { return load(at, v); };
        all_reduce.send_warps(total_of<kCentred, kWarpSize, kVectors>(x, holds, count), Merge{});
      }
      return r;
    };

    Position at;
    for (uint32_t r = begin(at); r < rows;) {
      row::stay_packed(weight);
      if constexpr (kCentred) row::stay_packed(bias);
      Position ahead = at;
      ahead.advance();
      const uint32_t next = begin(ahead);
      const Normal<kCentred> normal(a.rows, all_reduce.receive(Totals::none(), Merge{}));
      if (cluster_rank() == 0 && thread_index() == 0) {
        normal.store_statistics(a.rows, int64_t{r});
      }
      T* y = a.rows.y + int64_t{r} * a.rows.y_stride + first * kWidth;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (!holds(v)) continue;
        const Packed x = load(at, v);
        Vec<float, kWidth> out;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          const float z = normal(x[i]);
          out[i] =
              kCentred ? thread::fma(z, weight[v][i], bias[kCentred ? v : 0][i]) : z * weight[v][i];
        }
        thread::store(y + vector(v) * kWidth, thread::convert<T>(out));
      }
      Queue::release(shared.queue, at);
      at = ahead;
      r = next;
    }
  }
};

// `Policy::with_shape<T, W, kCentred>(bytes, f)` calls f.operator()<Shape>() with the shape for
// rows of `bytes`; `Policy::part_bytes<kCentred>(dtype, parameter_dtype)` are those of its
// largest part.
template <class Policy>
struct ClusterQueue {
  static constexpr int64_t kLeastBytes = Policy::kLeastBytes;

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const int64_t bytes = call.rows.row_bytes();
    const int64_t part =
        Policy::template part_bytes<Call::kCentred>(call.dtype, call.parameter_dtype);
    const int64_t most = cluster::kMaxBlocks * part;
    return why.unless(call.rows.size[kResidual] == 0, "adds no residual") &&
           why.unless(bytes >= kLeastBytes && bytes <= most, "takes rows of ", kLeastBytes, " to ",
                      most, " bytes, not ", bytes) &&
           aligned_rows(call, why);
  }
  template <class Call>
  static Workspace workspace(const Call& /*call*/) {
    return {.bytes = sizeof(uint64_t), .zeroed = sizeof(uint64_t)};
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_types(call, [&]<class T, class W>() {
      constexpr bool kCentred = Call::kCentred;
      Policy::template with_shape<T, W, kCentred>(call.rows.row_bytes(), [&]<class Shape>() {
        launch_on<ClusterQueueKernel<T, W, kCentred, Shape>>(rows_of<T>(call), Shape::kBytes,
                                                             context);
      });
    });
  }

 private:
  template <class Kernel, class T>
  static void launch_on(const Rows<T>& rows, int64_t part_bytes, const Context& context) {
    const auto parts = static_cast<uint64_t>(divide_up(rows.vectors * 16, part_bytes));
    const auto blocks = static_cast<int>(std::bit_ceil(parts));
    Grid grid{.blocks = blocks, .threads = Kernel::kThreads, .cluster = blocks};
    grid.blocks *= std::min(rows.count, resident_clusters<Kernel>(grid));
    launch<Kernel>(grid, context.stream,
                   {rows, divide_up(rows.vectors, int64_t{blocks}),
                    static_cast<uint64_t*>(context.workspace)});
  }
};

}  // namespace ws::norm
