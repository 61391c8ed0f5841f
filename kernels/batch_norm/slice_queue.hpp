// Channels that lie side by side, in slices that come to the whole grid in a queue: a block an SM,
// each with rows of its own; the slices of channels to come are on their way to shared memory while
// those before them are added up, merged and written.
//
// A thread has places of its own in a ring of slices: it copies 16 bytes of each of its rows there
// by cp.async, and fills a place again as soon as it has written what was there. Blocks meet in
// memory: each leaves totals of its rows, each channel has a block that merges them, and all look
// up what became of it. A slice is added up two slices before it is written, so that what others
// have to do for it has been done.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/batch_norm/channel_jobs.hpp"
#include "kernels/batch_norm/columns.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/flag.hpp"

namespace ws::batch_norm {

template <int kInputs>
struct SliceShape {
  static constexpr int kThreads = 512;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kStages = 4;       // a slice to write, two that are added up, one on its way
  static constexpr int kMostAcross = 16;  // vectors of a slice
  static constexpr int kMostPlaces = 192 * 1024 / kStages / kInputs / 16;  // of a stage and input
};

// Slices of `across` vectors of 16 bytes, `share` rows a block.
struct SliceCut {
  int64_t rows = 0;
  int share = 1;
  int vectors = 0;  // of a row
  int across = 1;
  int slices = 0;

  // The widest that fit.
  template <class Shape>
  static SliceCut of(const Layout& layout, DType dtype) {
    SliceCut cut;
    cut.rows = layout.count;
    cut.share = static_cast<int>(divide_up(cut.rows, int64_t{device_facts().multiprocessors}));
    cut.vectors = static_cast<int>(layout.sets / static_cast<int64_t>(16 / size_of(dtype)));
    cut.across = Shape::kMostAcross;
    while (cut.across > 1 && (cut.across / 2 >= cut.vectors || !cut.fits<Shape>())) cut.across /= 2;
    cut.slices = divide_up(cut.vectors, cut.across);
    return cut;
  }
  template <class Shape>
  bool fits() const {
    return int64_t{divide_up(share, Shape::kThreads / across)} * Shape::kThreads <=
           Shape::kMostPlaces;
  }
  int64_t blocks() const { return divide_up(rows, int64_t{share}); }
};

// Words in memory that blocks count in, 0 before and after. Blocks are less than kTurns slices
// apart, so that as many words serve in turns.
struct SliceMeeting {
  static constexpr int kTurns = 4;
  static constexpr int kWords = 2 * kTurns + 1;
  static constexpr size_t kBytes = 48;
};

#if WS_DEVICE_CODE

// Where tensors are.
template <class T>
struct SliceRows {
  const T* data[2];
  T* out;
  int64_t pitch[2];
  int64_t out_pitch;
};

// A thread's column and rows of each slice, and their places in the ring.
template <class T, int kInputs>
class SliceRing {
  using Shape = SliceShape<kInputs>;

 public:
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  using Storage = SharedArray<T, Shape::kStages * kInputs * Shape::kMostPlaces * kWidth, 128>;

  __device__ __forceinline__ SliceRing(Storage& storage, const SliceRows<T>& of,
                                       const SliceCut& cut)
      : storage_(storage),
        of_(of),
        cut_(cut),
        column_(thread_index() & (cut.across - 1)),
        step_(Shape::kThreads / cut.across),
        first_(block_index() * cut.share + thread_index() / cut.across) {
    const int64_t end = (block_index() + 1) * cut.share;
    const int64_t left = (end < cut.rows ? end : cut.rows) - first_;
    rows_ = left > 0 ? divide_up(static_cast<int>(left), step_) : 0;
  }
  // One group of copies, empty behind the last slice.
  __device__ __forceinline__ void fetch(int slice) const {
    const int count = slice < cut_.slices ? rows(slice) : 0;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const T* x = of_.data[k] + first_ * of_.pitch[k] + vector(slice) * kWidth;
#pragma unroll 4
      for (int i = 0; i < count; ++i) {
        ptx::cp_async<16>(storage_.pointer(place(slice, k, i)), x);
        x += step_ * of_.pitch[k];
      }
    }
    ptx::cp_async_commit_group();
  }
  __device__ __forceinline__ Packed load(int slice, int k, int i) const {
    return std::bit_cast<Packed>(storage_.template load<kWidth>(place(slice, k, i)));
  }
  // f(i, where the i-th of the thread's rows is written)
  template <class F>
  __device__ __forceinline__ void each_out(int slice, const F& f) const {
    T* out = of_.out + first_ * of_.out_pitch + vector(slice) * kWidth;
#pragma unroll 2
    for (int i = 0; i < rows(slice); ++i) {
      f(i, out);
      out += step_ * of_.out_pitch;
    }
  }
  // Of the thread.
  __device__ __forceinline__ int rows(int slice) const {
    return vector(slice) < cut_.vectors ? rows_ : 0;
  }
  __device__ __forceinline__ int column() const { return column_; }
  __device__ __forceinline__ int64_t channel(int slice) const {
    return int64_t{vector(slice)} * kWidth;
  }

 private:
  __device__ __forceinline__ int vector(int slice) const { return slice * cut_.across + column_; }
  __device__ __forceinline__ int place(int slice, int k, int i) const {
    const int stage = slice % Shape::kStages * kInputs + k;
    return (stage * Shape::kMostPlaces + i * Shape::kThreads + thread_index()) * kWidth;
  }

  Storage& storage_;
  const SliceRows<T>& of_;
  const SliceCut& cut_;
  int column_;
  int step_;
  int64_t first_;
  int rows_;
};

// Jobs are those of channel_jobs.hpp.
template <class Job>
struct SliceQueueKernel {
  using T = typename Job::Element;
  using Total = typename Job::Total;
  using Merge = typename Job::Merge;
  using Coefficient = typename Job::Coefficient;
  using Meeting = SliceMeeting;
  static constexpr int kInputs = Job::kInputs;
  using Shape = SliceShape<kInputs>;
  using Ring = SliceRing<T, kInputs>;
  using Packed = typename Ring::Packed;
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kWarps = Shape::kWarps;
  static constexpr int kStages = Shape::kStages;
  static constexpr int kWidth = Ring::kWidth;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    SliceRows<T> of;
    SliceCut cut;
    uint32_t* meeting;
    Coefficient* coefficients;  // [channels]
    Total* parts;               // [channels, blocks]
    Job job;
  };
  struct SharedStorage {
    typename Ring::Storage ring;
    SharedArray<Total, Shape::kMostAcross * kWidth * kWarps> warps;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Ring ring(shared.ring, a.of, a.cut);
    const int slices = a.cut.slices;
#pragma unroll 1
    for (int s = 0; s < kStages; ++s) ring.fetch(s);
    ptx::cp_async_wait_group<kStages - 1>();
    add_up(shared, a, ring, 0);
    ptx::cp_async_wait_group<kStages - 2>();
    if (slices > 1) add_up(shared, a, ring, 1);
    merge(a, 0);
#pragma unroll 1
    for (int slice = 0; slice < slices; ++slice) {
      ptx::cp_async_wait_group<kStages - 3>();
      if (slice + 2 < slices) add_up(shared, a, ring, slice + 2);
      if (slice + 1 < slices) merge(a, slice + 1);
      wait(a.meeting + Meeting::kTurns + slice % Meeting::kTurns,
           channels(a.cut) * (slice / Meeting::kTurns) + channels(a.cut, slice));
      write(a, ring, slice);
      ring.fetch(slice + kStages);
    }
    ptx::barrier_sync();
    if (thread_index() != 0) return;
    // Nobody waits any more when the last block comes here.
    const uint32_t before = ptx::atom_global_add(a.meeting + Meeting::kWords - 1, 1u);
    if (before + 1 != static_cast<uint32_t>(grid_blocks())) return;
#pragma unroll
    for (int i = 0; i < Meeting::kWords; ++i) ptx::atom_global_exch(a.meeting + i, 0u);
  }

 private:
  // Of a slice; the last may have less.
  __device__ __forceinline__ static int channels(const SliceCut& cut) {
    return cut.across * kWidth;
  }
  __device__ __forceinline__ static int channels(const SliceCut& cut, int slice) {
    const int left = cut.vectors * kWidth - slice * channels(cut);
    return left < channels(cut) ? left : channels(cut);
  }
  // By one thread, for what all of its block have done before.
  __device__ __forceinline__ static void arrive(uint32_t* word) {
    ptx::fence_acq_rel<ptx::Scope::kGpu>();
    ptx::red_global_add(word, 1u);
  }
  // The lanes of a warp go on when a word has come so far.
  __device__ __forceinline__ static void wait(const uint32_t* word, int count) {
    if (lane_index() == 0) {
      while (ptx::ld_acquire<ptx::Scope::kGpu>(word) < static_cast<uint32_t>(count)) {
      }
    }
    ptx::syncwarp();
  }

  // This block's totals of a slice's channels go to memory.
  __device__ __forceinline__ static void add_up(SharedStorage& shared, const Arguments& a,
                                                const Ring& ring, int slice) {
    const int across = a.cut.across;
    float from[kWidth];
    if constexpr (Job::kPivots) {  // of the warp's first row
      Packed pivot{};
      if (ring.rows(slice) > 0) pivot = ring.load(slice, 0, 0);
      pivot = warp::shuffle(pivot, lane_index() & (across - 1));
#pragma unroll
      for (int i = 0; i < kWidth; ++i) from[i] = pivot[i];
    } else {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        from[i] = ring.rows(slice) > 0 ? a.job.center(ring.channel(slice) + i) : 0.0F;
      }
    }
    float first[kWidth] = {};
    float second[kWidth] = {};
#pragma unroll 2
    for (int r = 0; r < ring.rows(slice); ++r) {
      Packed x[kInputs];
#pragma unroll
      for (int k = 0; k < kInputs; ++k) x[k] = ring.load(slice, k, r);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) Job::add(first[i], second[i], x, i, from[i]);
    }
    auto count = static_cast<float>(ring.rows(slice));
#pragma unroll 1
    for (int distance = across; distance < kWarpSize; distance *= 2) {
      count += warp::shuffle_xor(count, distance);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        first[i] += warp::shuffle_xor(first[i], distance);
        second[i] += warp::shuffle_xor(second[i], distance);
      }
    }
    if (lane_index() < across) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        shared.warps[(ring.column() * kWidth + i) * kWarps + warp_index()] =
            Job::total(count, from[i], first[i], second[i]);
      }
    }
    ptx::barrier_sync();
    // kWarps lanes a channel.
    constexpr int kAtOnce = kThreads / kWarps;
    const int mine = thread_index() / kWarps;
    for (int c = mine; c - mine < channels(a.cut, slice); c += kAtOnce) {
      const bool some = c < channels(a.cut, slice);
      Total total = Total::none();
      if (some) total = shared.warps[c * kWarps + thread_index() % kWarps];
      total = warp::all_reduce<kWarps>(total, Merge{});
      if (some && thread_index() % kWarps == 0) {
        const int64_t channel = int64_t{slice} * channels(a.cut) + c;
        thread::store(a.parts + channel * grid_blocks() + block_index(), Vec<Total, 1>{{total}});
      }
    }
    ptx::barrier_sync();
    if (thread_index() == 0) arrive(a.meeting + slice % Meeting::kTurns);
  }

  // What all blocks' totals make of those channels of a slice that are this block's: a warp each.
  __device__ __forceinline__ static void merge(const Arguments& a, int slice) {
    const auto blocks = static_cast<int>(grid_blocks());
    const int64_t start = int64_t{slice} * channels(a.cut);
    const auto before = static_cast<int>(start % blocks);
    const auto block = static_cast<int>(block_index());
    const int mine = block >= before ? block - before : block - before + blocks;
    for (int c = mine + warp_index() * blocks; c < channels(a.cut, slice); c += kWarps * blocks) {
      wait(a.meeting + slice % Meeting::kTurns, blocks * (slice / Meeting::kTurns + 1));
      const Total total = total_of_parts(a.parts + (start + c) * blocks, blocks, Merge{});
      if (lane_index() == 0) {
        thread::store(a.coefficients + start + c,
                      Vec<Coefficient, 1>{{a.job.of_total(start + c, total)}});
        a.job.finish(start + c, total);
        arrive(a.meeting + Meeting::kTurns + slice % Meeting::kTurns);
      }
    }
  }

  __device__ __forceinline__ static void write(const Arguments& a, const Ring& ring, int slice) {
    if (ring.rows(slice) == 0) return;
    Coefficient of[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      of[i] = thread::load(a.coefficients + ring.channel(slice) + i);
    }
    ring.each_out(slice, [&](int r, T* out) {
      Packed x[kInputs];
#pragma unroll
      for (int k = 0; k < kInputs; ++k) x[k] = ring.load(slice, k, r);
      Vec<float, kWidth> y;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) y[i] = a.job.apply(of[i], x, i);
      thread::store(out, thread::convert<T>(y));
    });
  }
};

// The rung of a job: tensor kOut is written, those before it are read.
template <class Call, template <class> class Job>
struct SliceQueue {
  static constexpr int kInputs = Job<float>::kInputs;
  using Shape = SliceShape<kInputs>;
  static constexpr size_t kCoefficientBytes = 16;

  static SliceCut cut_of(const Call& call) { return SliceCut::of<Shape>(call.layout, call.dtype); }
  static bool supports(const Call& call, Why& why) {
    constexpr int64_t kMostRows = int64_t{1} << 31;
    const Layout& layout = call.layout;
    return columns_supported(layout, call.dtype, why) &&
           why.unless(layout.count > 0 && layout.sets > 0, "takes channels that hold something") &&
           why.unless(layout.count < kMostRows && layout.sets <= kMostBlocks, "takes up to ",
                      kMostBlocks, " channels of less than ", kMostRows, " numbers") &&
           why.unless(cut_of(call).template fits<Shape>(), "holds ", Shape::kMostPlaces,
                      " rows of 16 bytes an SM");
  }
  static Workspace workspace(const Call& call) {
    const auto channels = static_cast<size_t>(call.layout.sets);
    const auto blocks = static_cast<size_t>(cut_of(call).blocks());
    return {.bytes = SliceMeeting::kBytes + channels * (kCoefficientBytes + kTotalBytes * blocks),
            .zeroed = SliceMeeting::kBytes};
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = SliceQueueKernel<Job<T>>;
      using Coefficient = typename Kernel::Coefficient;
      using Total = typename Kernel::Total;
      static_assert(sizeof(Coefficient) == kCoefficientBytes && sizeof(Total) <= kTotalBytes);
      const Layout& layout = call.layout;
      SliceRows<T> of{};
      for (int k = 0; k < kInputs; ++k) {
        of.data[k] = layout.as<const T>(k);
        of.pitch[k] = layout.strides[static_cast<size_t>(k)][0];
      }
      of.out = layout.as<T>(kInputs);
      of.out_pitch = layout.strides[kInputs][0];
      const SliceCut cut = cut_of(call);
      auto* meeting = static_cast<std::byte*>(context.workspace);
      auto* coefficients = reinterpret_cast<Coefficient*>(meeting + SliceMeeting::kBytes);
      launch<Kernel>({.blocks = cut.blocks(), .threads = Kernel::kThreads, .cooperative = true},
                     context.stream,
                     {of, cut, reinterpret_cast<uint32_t*>(meeting), coefficients,
                      reinterpret_cast<Total*>(coefficients + layout.sets), Job<T>::of(call)});
    });
  }
};

#endif

}  // namespace ws::batch_norm
