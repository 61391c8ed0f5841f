// Sets that come to clusters in a queue: clusters stay, and take sets in turns; the sets to come
// are on their way to shared memory while the present one is reduced, exchanged and written.
//
// A thread has windows of its own, and a place of its own for each in a ring of kStages sets. It
// copies them there by cp.async, 16 bytes each, wherever a run begins; waits for its own copies,
// and fills a place again as soon as it has written what was there. So no thread waits for
// another's data, and no barrier guards the ring: what threads and blocks exchange are totals, and
// those of a set are sent before the set ahead of it is written.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/batch_norm/runs.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/cp_async.hpp"

namespace ws::batch_norm {

// kThreads threads of a block, kStages sets in the ring; an SM holds kMinBlocks blocks, of whose
// windows a thread looks at kBatch together.
template <int kThreads_, int kStages_, int kMinBlocks_>
struct QueueShape {
  static constexpr int kThreads = kThreads_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int kBatch = kThreads * kMinBlocks > 512 ? 2 : 4;  // as registers allow
  // Of an SM's 228 KiB each block loses one; its totals take up to 2.25 KiB.
  static constexpr int64_t kShared = (228 / kMinBlocks - 1) * 1024 - 2304;
  static constexpr int64_t kBytes = kShared / kStages / 32 * 32;  // a block's part of a set
};

// Counted, no others were compared. 132 SMs have 8 clusters of 16 blocks, 528 blocks of Small, 264
// of Medium: in turns of nearly all of them for 2^n sets. A set that fits in a block's part needs
// no cluster; of longer ones parts are as small as 16 blocks allow.
struct QueueShapes {
  using Small = QueueShape<256, 3, 4>;    // up to 17 KiB of a set
  using Medium = QueueShape<512, 4, 2>;   // 27 KiB a block
  using Large = QueueShape<512, 4, 1>;    // 56 KiB
  using Largest = QueueShape<512, 2, 1>;  // 112 KiB
  static constexpr int64_t kMostBytes = cluster::kMaxBlocks * Largest::kBytes;

  template <class F>
  static void with_shape(int64_t bytes, const F& f) {
    if (bytes <= Small::kBytes) return f.template operator()<Small>();
    if (bytes <= cluster::kMaxBlocks * Medium::kBytes) return f.template operator()<Medium>();
    if (bytes <= cluster::kMaxBlocks * Large::kBytes) return f.template operator()<Large>();
    f.template operator()<Largest>();
  }
};

#if WS_DEVICE_CODE

// A thread's windows of its block's part of each set, and their places in the ring.
template <class T, class Shape, int kInputs>
class Ring {
 public:
  static constexpr int kStages = Shape::kStages;
  static constexpr int kPart = static_cast<int>(Shape::kBytes / kInputs / sizeof(T));
  static constexpr int kWidth = Runs<T>::kWidth;
  using Packed = typename Runs<T>::Packed;
  using Storage = SharedArray<T, kStages * kInputs * kPart, 128>;

  // `share` windows a block.
  __device__ __forceinline__ Ring(Storage& storage, const Runs<T>& runs, int share)
      : storage_(storage), runs_(runs) {
    const auto windows = static_cast<int>(runs.windows);
    first_ = cluster_rank() * share;
    last_ = first_ + share < windows ? first_ + share : windows;
  }

  // The windows of the set that starts at `start` go to stage `stage`.
  __device__ __forceinline__ void fetch(int stage, int64_t start) const {
#pragma unroll 1
    for (int w = first_ + thread_index(); w < last_; w += kBatch * kThreads) {
      fetch_batch(stage, start, w);
    }
  }
  // f(window, x) for each window of the set in that stage.
  template <class F>
  __device__ __forceinline__ void each(int stage, int64_t start, F&& f) const {
#pragma unroll 1
    for (int w = first_ + thread_index(); w < last_; w += kBatch * kThreads) {
      batch(stage, start, w, f);
    }
  }
  // The same; windows of the set that starts at `refill` take their places.
  template <class F>
  __device__ __forceinline__ void each_last(int stage, int64_t start, int64_t refill, F&& f) const {
#pragma unroll 1
    for (int w = first_ + thread_index(); w < last_; w += kBatch * kThreads) {
      batch(stage, start, w, f);
      fetch_batch(stage, refill, w);
    }
  }

 private:
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kBatch = Shape::kBatch;

  __device__ __forceinline__ int place(int stage, int k, int w) const {
    return (stage * kInputs + k) * kPart + (w - first_) * kWidth;
  }
  __device__ __forceinline__ void fetch_batch(int stage, int64_t start, int w) const {
#pragma unroll
    for (int j = 0; j < kBatch; ++j, w += kThreads) {
      if (w >= last_) continue;
      const Window found = runs_.window(start, w);
      const bool have = runs_.have(found);
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        const int to = place(stage, k, w);
        if (have) [[likely]] {
          ptx::cp_async<16>(storage_.pointer(to), runs_.data[k] + found.at);
        } else {
          storage_.template store<kWidth>(to, std::bit_cast<Vec<T, kWidth>>(runs_.load(k, found)));
        }
      }
    }
  }
  template <class F>
  __device__ __forceinline__ void batch(int stage, int64_t start, int w, F& f) const {
    Packed x[kBatch][kInputs];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (w + j * kThreads >= last_) continue;
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        x[j][k] = std::bit_cast<Packed>(
            storage_.template load<kWidth>(place(stage, k, w + j * kThreads)));
      }
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (w + j * kThreads < last_) f(runs_.window(start, w + j * kThreads), x[j]);
    }
  }

  Storage& storage_;
  const Runs<T>& runs_;
  int first_;
  int last_;
};

// Job: what is done with a set.
//   Element; kInputs, how many tensors are read; Total, Merge
//   fetch(runs, set) -> Fetched: numbers of the set, asked for one set ahead
//   Sum, what a thread finds out: add(sum, fetched, window, x); total(sum) -> Total
//   writer(runs, set, fetched, total) -> f(window, x), which writes a window
//   finish(set, total), by one thread
template <class Job, class Shape>
struct QueueKernel {
  using T = typename Job::Element;
  using Total = typename Job::Total;
  using Merge = typename Job::Merge;
  using Fetched = typename Job::Fetched;
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kStages = Shape::kStages;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  using RingOf = Ring<T, Shape, Job::kInputs>;
  using Reduce = cluster::AllReduce<Total, kThreads, 1, 1>;
  struct Arguments {
    Runs<T> runs;
    int64_t sets;
    int share;  // windows of a block
    Job job;
  };
  struct SharedStorage {
    typename RingOf::Storage ring;
    typename Reduce::Storage totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Runs<T>& runs = a.runs;
    const RingOf ring(shared.ring, runs, a.share);
    // Up to kMostBlocks sets; beyond the last there is room for a few turns.
    const auto sets = static_cast<uint32_t>(a.sets);
    const auto clusters = static_cast<uint32_t>(grid_blocks()) / cluster_size();
    const auto first = static_cast<uint32_t>(block_index()) / cluster_size();
#pragma unroll 1
    for (int s = 0; s < kStages; ++s) {  // under way while the cluster meets
      const uint32_t set = first + s * clusters;
      if (set < sets) ring.fetch(s, runs.start(set));
      ptx::cp_async_commit_group();
    }
    Reduce all_reduce(shared.totals);
    // The totals of a set that has arrived go to the other blocks.
    const auto begin = [&](int stage, uint32_t set, const Fetched& fetched) {
      typename Job::Sum sum{};
      ring.each(stage, runs.start(set),
                [&](const Window& window, const auto& x) { Job::add(sum, fetched, window, x); });
      all_reduce.send_warps(warp::all_reduce(Job::total(sum), Merge{}), Merge{});
    };

    Fetched now = a.job.fetch(runs, first);
    ptx::cp_async_wait_group<kStages - 1>();
    begin(0, first, now);
    int stage = 0;
    for (uint32_t set = first; set < sets; set += clusters) {
      const int ahead = stage + 1 == kStages ? 0 : stage + 1;
      Fetched next{};
      if (set + clusters < sets) {
        next = a.job.fetch(runs, set + clusters);
        ptx::cp_async_wait_group<kStages - 2>();
        begin(ahead, set + clusters, next);
      }
      const Total total = all_reduce.receive(Total::none(), Merge{});
      auto writer = a.job.writer(runs, set, now, total);
      const uint32_t refill = set + kStages * clusters;
      if (refill < sets) {
        ring.each_last(stage, runs.start(set), runs.start(refill), writer);
      } else {
        ring.each(stage, runs.start(set), writer);
      }
      ptx::cp_async_commit_group();
      // The last warp has the fewest windows.
      if (cluster_rank() == 0 && thread_index() == kThreads - 1) a.job.finish(set, total);
      now = next;
      stage = ahead;
    }
    all_reduce.finish();
  }
};

// Policy::kMostBytes of a set, and with_shape(bytes, f), which calls f.operator()<Shape>(); bytes
// are those of all inputs. Job<T>::of(call) is what goes to the kernel.
template <class Call, template <class> class Job, class Policy>
struct Queue {
  static constexpr int64_t kInputs = Job<float>::kInputs;

  static bool supports(const Call& call, Why& why) {
    if (!runs_supported(call.layout, call.dtype, why)) return false;
    const int64_t bytes = bytes_of_set(call);
    return why.unless(bytes <= Policy::kMostBytes, "holds ", Policy::kMostBytes,
                      " bytes of a set, not ", bytes);
  }
  static void run(const Call& call, const Context& context) {
    if (call.layout.sets == 0) return;
    with_type<kFloats>(call.dtype, [&]<class T>() {
      Policy::with_shape(bytes_of_set(call), [&]<class Shape>() {
        launch_on<QueueKernel<Job<T>, Shape>, Shape, T>(call, context);
      });
    });
  }
  static int64_t bytes_of_set(const Call& call) {
    return kInputs * 16 * windows_of_set(call.layout, call.dtype);
  }

 private:
  template <class Kernel, class Shape, class T>
  static void launch_on(const Call& call, const Context& context) {
    const int64_t sets = call.layout.sets;
    const Runs<T> runs = runs_of<T>(call.layout, call.dtype);
    const int64_t part = Shape::kBytes / kInputs / 16;  // windows
    int blocks =
        static_cast<int>(std::bit_ceil(static_cast<uint64_t>(divide_up(runs.windows, part))));
    // Few sets: more blocks each, as long as all of them are on the chip at once.
    const int64_t most = int64_t{Shape::kMinBlocks} * device_facts().multiprocessors;
    while (blocks < cluster::kMaxBlocks && 2 * blocks * sets <= most &&
           runs.windows >= 2 * blocks * Shape::kThreads) {
      blocks *= 2;
    }
    Grid grid{.blocks = blocks, .threads = Shape::kThreads, .cluster = blocks};
    grid.blocks *= std::min(sets, resident_clusters<Kernel>(grid));
    launch<Kernel>(
        grid, context.stream,
        {runs, sets, static_cast<int>(divide_up(runs.windows, int64_t{blocks})), Job<T>::of(call)});
  }
};

#endif

}  // namespace ws::batch_norm
