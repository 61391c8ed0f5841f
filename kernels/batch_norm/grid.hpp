// Sets that many blocks keep in shared memory, more than a cluster has. All blocks are there at
// once (a cooperative launch), and stay. Those of a row share sets, one after the other, and wait
// for each other alone.
#pragma once

#include "kernels/batch_norm/share_jobs.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/thread/flagged.hpp"

namespace ws::batch_norm {

// Where all of a set is held, two blocks an SM take turns: one loads or writes while the other
// waits for those of its row. Else one, whose threads have the registers to ask for the rest.
template <int kInputs, bool kHoldsAll_>
struct GridShape {
  static constexpr int kThreads = 512;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kMinBlocks = kHoldsAll_ ? 2 : 1;
  static constexpr bool kHoldsAll = kHoldsAll_;
  static constexpr int kMostShare = kWindowsOfSm / kWarps / kMinBlocks / kInputs;  // of a warp

  static int64_t blocks() { return int64_t{kMinBlocks} * device_facts().multiprocessors; }
  // Of all blocks together.
  static int64_t most_windows() { return blocks() * kWarps * kMostShare; }
};

// Gradients of channels are the fastest in one block an SM, held or not. H200 2026-11-30, us, of
// two blocks that hold all, one that does, one that need not: forward f32 32 x 64 x 12544 60.1,
// 63.5, 64.1, 2 x 64 x 512 x 512 in 32 groups 78.4, 83.1, 85.2; gradient of the first 105.6, 96.2,
// 96.1, of the groups 150.2, 160.9. Of the first by one block of 1024 threads 67.3, gradient 103.9;
// with two, three, four sets in a ring 66.1, 75.5, 86.7, gradient 120.4, 134.8, 146.5.
template <int kInputs>
struct GridShapes {
  template <class F>
  static void with_shape(const Layout& layout, DType dtype, const F& f) {
    if constexpr (kInputs == 1) {
      using Whole = GridShape<kInputs, true>;
      if (windows_of_set(layout, dtype) <= Whole::most_windows()) {
        return f.template operator()<Whole>();
      }
    }
    f.template operator()<GridShape<kInputs, false>>();
  }
};

// How sets share the blocks: in turns of the same number of sets, as few as hold all of them.
struct GridPlan {
  int parts = 1;        // blocks of a set
  int64_t at_once = 1;  // sets

  template <class Shape>
  static GridPlan of(const Layout& layout, DType dtype) {
    const int64_t windows = windows_of_set(layout, dtype);
    const int64_t blocks = Shape::blocks();
    const int64_t needed =
        std::min(divide_up(windows, int64_t{Shape::kWarps} * Shape::kMostShare), blocks);
    GridPlan plan;
    plan.at_once = divide_up(layout.sets, divide_up(layout.sets, blocks / needed));
    const int64_t most = std::max<int64_t>(windows / Shape::kThreads, 1);
    plan.parts = static_cast<int>(std::min(blocks / plan.at_once, most));
    return plan;
  }
  template <class Shape>
  Shares shares(const Layout& layout, DType dtype) const {
    return Shares::of_warps(layout, dtype, int64_t{Shape::kWarps} * parts);
  }
};

// Words through which the blocks of a row tell each other their totals, each block in a line of its
// own, with the number of the turn. Two turns have lines of their own: who tells the total of a
// turn has seen all of the turn before, so those have been told after all had seen the one before
// that. All words are zero before and after.
struct GridWords {
  static constexpr int kLine = 16;  // 128 bytes

  static Workspace workspace(const GridPlan& plan) {
    if (plan.parts == 1) return {};
    const auto words = static_cast<size_t>(plan.at_once * words_of(plan.parts));
    // Pieces of 256 bytes are what Python keeps zeroed from call to call.
    const size_t bytes = round_up(words * sizeof(uint64_t), size_t{256});
    return {.bytes = bytes, .zeroed = bytes};
  }
  // Of a row: a line for the count of blocks that have seen all, and theirs.
  __host__ __device__ __forceinline__ static int64_t words_of(int parts) {
    return int64_t{kLine} * (1 + 2 * parts);
  }
};

#if WS_DEVICE_CODE

// The blocks of a row, which all call alike; one object per thread.
template <class Job, int kThreads>
class GridAllReduce {
  using Total = typename Job::Total;
  using Merge = typename Job::Merge;
  using Letter = thread::Flagged<Sums>;
  using OfBlock = block::AllReduce<Total, kThreads>;

 public:
  using Storage = typename OfBlock::Storage;

  __device__ __forceinline__ GridAllReduce(Storage& storage, uint64_t* words, int parts, int part)
      : of_block_(storage), words_(words), parts_(parts), part_(part) {}

  // Each thread gets the same bits; count(part) is of how many elements a block's total is.
  template <class Count>
  __device__ __forceinline__ Total operator()(const Total& value, int turn, const Count& count) {
    const Total mine = of_block_(value, Merge{});
    if (parts_ == 1) return mine;
    const auto mark = static_cast<uint32_t>(turn) + 1;
    if (thread_index() == 0) Letter::publish(line(turn, part_), Job::letter(mine), mark);
    Total total = Total::none();
    for (int p = thread_index(); p < parts_; p += kThreads) {
      total = Merge{}(total, Job::opened(Letter::awaited(line(turn, p), mark), count(p)));
    }
    return of_block_(total, Merge{});
  }
  // After the last call: the last block to come clears the words, which all have seen by then.
  __device__ __forceinline__ void leave() const {
    if (parts_ == 1 || warp_index() != 0) return;
    uint32_t before = 0;
    auto* const gone = reinterpret_cast<uint32_t*>(words_);
    if (lane_index() == 0) before = ptx::atom_global_add(gone, 1);
    if (warp::shuffle(before, 0) + 1 != static_cast<uint32_t>(parts_)) return;
    if (lane_index() == 0) ptx::st_relaxed<ptx::Scope::kGpu>(gone, 0);
    for (int i = lane_index(); i < 2 * parts_; i += kWarpSize) Letter::clear(line(0, i));
  }

 private:
  __device__ __forceinline__ uint64_t* line(int turn, int part) const {
    return words_ + int64_t{GridWords::kLine} * (1 + (turn & 1) * parts_ + part);
  }

  OfBlock of_block_;
  uint64_t* words_;
  int parts_;
  int part_;
};

// Jobs are those of share_jobs.hpp.
template <class Job, class Shape>
struct GridKernel {
  using T = typename Job::Element;
  using Total = typename Job::Total;
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  using ShareOf = ShareOfWarp<T, Shape, Job::kInputs>;
  using Set = typename ShareOf::Set;
  using AllReduce = GridAllReduce<Job, kThreads>;
  struct Arguments {
    Runs<T> runs;
    Shares shares;
    int64_t sets;
    GridPlan plan;
    uint64_t* words;
    Job job;
  };
  struct SharedStorage {
    typename ShareOf::Storage share;
    typename AllReduce::Storage totals;
  };

  static void launch_on(const Layout& layout, DType dtype, const GridPlan& plan, const Job& job,
                        const Context& context) {
    launch<GridKernel>(
        {.blocks = plan.at_once * plan.parts, .threads = kThreads, .cooperative = true},
        context.stream,
        {runs_of<T>(layout, dtype), plan.shares<Shape>(layout, dtype), layout.sets, plan,
         static_cast<uint64_t*>(context.workspace), job});
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto parts = static_cast<uint32_t>(a.plan.parts);
    const auto row = static_cast<uint32_t>(block_index()) / parts;
    const auto part = static_cast<int>(static_cast<uint32_t>(block_index()) - row * parts);
    ShareOf share(shared.share, a.shares, part);
    AllReduce all_reduce(shared.totals, a.words + row * GridWords::words_of(a.plan.parts),
                         a.plan.parts, part);

    int64_t s = row;
    share.fetch(Set(a.runs, s));
    auto now = a.job.fetch(share, a.runs, s);
#pragma unroll 1
    for (int turn = 0; s < a.sets; ++turn) {
      const Set set(a.runs, s);
      const int64_t next = s + a.plan.at_once;
      share.wait();
      const Total mine = a.job.total(share, set, now);
      // Numbers of the next set come while the blocks meet.
      auto of_next = now;
      if (next < a.sets) of_next = a.job.fetch(share, a.runs, next);
      const Total total = all_reduce(mine, turn, [&](int p) {
        return static_cast<float>(ShareOf::kWidth) *
               static_cast<float>(a.shares.windows_of(p * Shape::kWarps, Shape::kWarps));
      });
      a.job.write(share, set, now, total);
      ptx::syncwarp();  // all lanes have looked at what is overwritten
      if (next < a.sets) share.fetch(Set(a.runs, next));
      // The last warp of all has the fewest windows.
      if (part == a.plan.parts - 1 && thread_index() == kThreads - 1) a.job.finish(s, total);
      s = next;
      now = of_next;
    }
    all_reduce.leave();
  }
};

#endif

// The rung of a job. Job<T>::of(call) is what goes to the kernel.
template <class Call, template <class> class Job>
struct GridOfShares {
  static constexpr int kInputs = Job<float>::kInputs;
  using Shapes = GridShapes<kInputs>;

  static bool supports(const Call& call, Why& why) {
    return shares_supported(call.layout, call.dtype, why);
  }
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    Shapes::with_shape(call.layout, call.dtype, [&]<class Shape>() {
      workspace = GridWords::workspace(GridPlan::of<Shape>(call.layout, call.dtype));
    });
    return workspace;
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      Shapes::with_shape(call.layout, call.dtype,
                         [&]<class Shape>() { launch_on<T, Shape>(call, context); });
    });
  }
  template <class T, class Shape>
  static void launch_on(const Call& call, const Context& context) {
    GridKernel<Job<T>, Shape>::launch_on(call.layout, call.dtype,
                                         GridPlan::of<Shape>(call.layout, call.dtype),
                                         Job<T>::of(call), context);
  }
};

}  // namespace ws::batch_norm
