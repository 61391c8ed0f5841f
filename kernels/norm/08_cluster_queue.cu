// Idea: clusters that stay take the next row from a counter; a warp of each block keeps bulk copies
// of the rows to come in flight, rows wait in shared memory, and weight and bias stay in registers.
// The exchange between blocks is hidden: a row's totals are sent before the row ahead of it is
// written.
// From cluster_per_row: no block is launched for a row, parameters are read once a block instead of
// once a row (at N = 262144 they are as many bytes as x), and nobody waits for the other blocks.
// Traffic: one read, one write, one pass through shared memory.
// Limits: rows of whole vectors from 16 KiB to 1 MiB, 512 KiB with f32 parameters of 16-bit rows.
#include <bit>

#include "kernels/norm/rows.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/row/queue.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::norm {
namespace {

// Of 512 threads, one block an SM: what rows leave of the registers holds the parameters of 8
// vectors a thread, of f32 beside 16-bit rows of 4. H200: to be measured against <256, 16, 3, 1>.
template <class T, class W>
using Shape = std::conditional_t<sizeof(W) == sizeof(T), row::QueueShape<512, 8, 3, 1>,
                                 row::QueueShape<512, 4, 6, 1>>;

// A thread's sum of squares, or moments: distances are taken from its first element, which is as
// near to the mean as any, so that one pass is enough and nothing cancels.
template <bool kCentred>
struct Running {
  float pivot = 0;
  float sum = 0;
  float squares = 0;
  float count = 0;

  template <class Packed>
  __device__ __forceinline__ void add(const Packed& x, bool is_first) {
    constexpr int kWidth = Packed::kWords * Packed::kPerWord;
    if (kCentred && is_first) pivot = x[0];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float away = kCentred ? x[i] - pivot : x[i];
      if constexpr (kCentred) sum += away;
      squares = thread::fma(away, away, squares);
    }
    count += kWidth;
  }
  __device__ __forceinline__ typename Totals<kCentred>::Total of_warp() const {
    const typename Totals<kCentred>::Merge merge;
    if constexpr (kCentred) {
      const float mean = count > 0 ? sum * thread::reciprocal(count) : 0.0F;
      const float around = thread::fma(-sum, mean, squares);
      return warp::all_reduce(thread::Moments{count, pivot + mean, fmaxf(around, 0.0F), 0.0F},
                              merge);
    } else {
      return warp::all_reduce(squares, merge);
    }
  }
};

// T: of x; W: of the parameters.
template <class T, class W, bool kCentred>
struct ClusterQueueKernel {
  using QueueShape = Shape<T, W>;
  static constexpr int kConsumers = QueueShape::kConsumers;
  static constexpr int kVectors = QueueShape::kVectors;
  static constexpr int kThreads = kConsumers + kWarpSize;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  using Parameter = row::Packed<W, kWidth>;
  using Queue = row::Queue<T, QueueShape>;
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
        return std::pair(x, static_cast<uint32_t>(vectors * 16));
      });
    } else if (thread_index() < kConsumers) {
      consume(shared, a, first, vectors, all_reduce);
    }
    all_reduce.finish();
  }

 private:
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& a,
                                                 int64_t first, int vectors, Reduce& all_reduce) {
    const auto rows = static_cast<uint64_t>(a.rows.count);
    const auto vector = [&](int v) { return thread_index() + v * kConsumers; };
    Parameter weight[kVectors];
    Parameter bias[kCentred ? kVectors : 1];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const auto fetch = [&](const void* data, float standard) {
        const bool is_there = data != nullptr && vector(v) < vectors;
        return is_there ? Parameter::template load<Cache::kReadOnly>(static_cast<const W*>(data) +
                                                                     (first + vector(v)) * kWidth)
                        : Parameter::filled(standard);
      };
      weight[v] = fetch(a.rows.weight, 1.0F);
      if constexpr (kCentred) bias[v] = fetch(a.rows.bias, 0.0F);
    }
    const auto load = [&](const Position& at, int v) {
      return std::bit_cast<Packed>(
          shared.queue.parts.template load<kWidth>(at.stage * Queue::kPart + vector(v) * kWidth));
    };
    // The number of the row at a place of the ring, once it is there; its totals are on their way.
    const auto begin = [&](const Position& at) {
      shared.queue.pipeline.wait(at);
      uint64_t r = 0;  // read by the lane that lets go of the stage
      if (lane_index() == 0) r = shared.queue.row[at.stage];
      r = warp::shuffle(r, 0);
      if (r < rows) {
        Running<kCentred> mine;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          if (vector(v) < vectors) mine.add(load(at, v), v == 0);
        }
        all_reduce.send_warps(mine.of_warp(), Merge{});
      }
      return r;
    };

    Position at;
    for (uint64_t r = begin(at); r < rows;) {
      Position ahead = at;
      ahead.advance();
      const uint64_t next = begin(ahead);
      const Normal<kCentred> normal(a.rows, all_reduce.receive(Totals::none(), Merge{}));
      if (cluster_rank() == 0 && thread_index() == 0) {
        normal.store_statistics(a.rows, static_cast<int64_t>(r));
      }
      T* y = a.rows.y + static_cast<int64_t>(r) * a.rows.y_stride + first * kWidth;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (vector(v) >= vectors) continue;
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
      ptx::syncwarp();
      if (lane_index() == 0) shared.queue.pipeline.release(at.stage);
      at = ahead;
      r = next;
    }
  }
};

struct ClusterQueue {
  static constexpr int64_t kLeastBytes = 16 * 1024;

  template <class Call>
  static int64_t part_bytes(const Call& call) {
    const bool wide = call.parameter_dtype != call.dtype;
    return wide ? Shape<half, float>::kBytes : Shape<half, half>::kBytes;
  }
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const int64_t bytes = call.rows.row_bytes();
    const int64_t most = cluster::kMaxBlocks * part_bytes(call);
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
    with_type<kFloats>(call.dtype, [&]<class T>() {
      if (call.parameter_dtype == call.dtype) {
        launch_on<ClusterQueueKernel<T, T, Call::kCentred>>(rows_of<T>(call), part_bytes(call),
                                                            context);
      } else if constexpr (!std::is_same_v<T, float>) {
        launch_on<ClusterQueueKernel<T, float, Call::kCentred>>(rows_of<T>(call), part_bytes(call),
                                                                context);
      }
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

}  // namespace

extern const Rung kClusterQueue;
const Rung kClusterQueue = rung_of<ClusterQueue, LayerNorm, RmsNorm>({
    .name = "cluster_queue",
    .from = "cluster_per_row",
    .idea = "clusters stay and draw rows from a counter, parameters in registers, exchange hidden",
    .arch = Arch::kSm90,
});

}  // namespace ws::norm
