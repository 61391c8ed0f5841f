// Sets that some blocks keep in shared memory, where all runs are aligned. Each warp of these
// blocks has a share of a set, brings it by bulk copies, one of each run that it lies in, and waits
// for no other.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/batch_norm/runs.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/bulk.hpp"

namespace ws::batch_norm {

inline bool shares_supported(const Layout& layout, DType dtype, Why& why) {
  if (!runs_supported(layout, dtype, why)) return false;
  constexpr int64_t kMostStride = int64_t{1} << 31;
  constexpr int64_t kMostWindows = int64_t{1} << 30;  // int, with those beyond the set's end
  const Pieces pieces = pieces_of(layout, dtype);
  const int64_t windows = pieces.count * pieces.windows;
  return why.unless(pieces.aligned, "takes runs that begin at multiples of 16 bytes") &&
         why.unless(pieces.stride < kMostStride, "takes runs that are less than ", kMostStride,
                    " elements apart") &&
         why.unless(windows <= kMostWindows, "takes sets of up to ", kMostWindows, " vectors, not ",
                    windows);
}

// Windows that the shared memory of an SM holds: 220 KiB.
inline constexpr int kWindowsOfSm = 14080;

// Of kInputs tensors that are kept, by kMinBlocks blocks an SM: some load while others write.
template <int kInputs, int kMinBlocks_, int kThreads_ = 256>
struct ShareShape {
  static constexpr int kThreads = kThreads_;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr bool kHoldsAll = true;
  static constexpr int kMostShare = kWindowsOfSm / kWarps / kMinBlocks / kInputs;  // of a warp
  static constexpr int64_t kMostWindows = int64_t{cluster::kMaxBlocks} * kWarps * kMostShare;

  // Of a cluster. Few sets: more blocks each, as long as all of them are on the chip at once.
  static int blocks(const Layout& layout, DType dtype) {
    const int64_t windows = windows_of_set(layout, dtype);
    auto blocks = static_cast<int>(
        std::bit_ceil(static_cast<uint64_t>(divide_up(windows, int64_t{kWarps} * kMostShare))));
    const int64_t most = int64_t{kMinBlocks} * device_facts().multiprocessors;
    while (blocks < cluster::kMaxBlocks && 2 * blocks * layout.sets <= most &&
           windows >= 2 * blocks * kThreads) {
      blocks *= 2;
    }
    return blocks;
  }
};

// H200 2026-11-30, us, channels f16 32 x 256 x 3136 (a copy takes 25.7), f32 (48.7): Small 28.9 and
// 54.0, of 128 threads 30.9 and 54.5, eight blocks of 128 threads 29.2 and 55.4, three of 256 32.3
// and 58.6, two 32.4 and 58.1. One block an SM with four sets in a ring, which never ends, 33.0 and
// 55.6, two of two sets 29.4 and 53.4. f32 32 x 64 x 12544 (49.0): Large 58.6, of 256 threads 61.6.
template <int kInputs>
struct ShareShapes {
  using Small = ShareShape<kInputs, 4>;       // 55 KiB a block
  using Large = ShareShape<kInputs, 2, 512>;  // 110 KiB

  static bool takes(const Layout& layout, DType dtype, Why& why) {
    if (!shares_supported(layout, dtype, why)) return false;
    const int64_t windows = windows_of_set(layout, dtype);
    return why.unless(windows <= Large::kMostWindows, "holds ", Large::kMostWindows,
                      " vectors of a set, not ", windows) &&
           why.unless(layout.sets <= kMostBlocks / cluster::kMaxBlocks, "takes up to ",
                      kMostBlocks / cluster::kMaxBlocks, " sets");
  }
  // Calls f.operator()<Shape>() for what `takes` says yes to.
  template <class F>
  static void with_shape(const Layout& layout, DType dtype, const F& f) {
    if (windows_of_set(layout, dtype) <= Small::kMostWindows) {
      return f.template operator()<Small>();
    }
    f.template operator()<Large>();
  }
};

// The windows of a set in shares.
struct Shares {
  int windows;
  int share;               // windows of a warp
  thread::Divider of_run;  // windows of one
  int gap;                 // windows between a run and the next
  int most;                // shares that a run may lie in

  template <class Shape>
  static Shares of(const Layout& layout, DType dtype) {
    return of_warps(layout, dtype, int64_t{Shape::kWarps} * Shape::blocks(layout, dtype));
  }
  static Shares of_warps(const Layout& layout, DType dtype, int64_t warps) {
    const Pieces pieces = pieces_of(layout, dtype);
    const int64_t windows = pieces.count * pieces.windows;
    const int64_t share = divide_up(windows, warps);
    const int64_t gap = pieces.count == 1 ? 0 : pieces.stride / (pieces.run / pieces.windows);
    return {static_cast<int>(windows), static_cast<int>(share), thread::Divider(pieces.windows),
            static_cast<int>(pieces.count == 1 ? 0 : gap - pieces.windows),
            static_cast<int>(divide_up(pieces.windows - 1, share) + 1)};
  }
  __host__ __device__ __forceinline__ int run() const { return static_cast<int>(of_run.divisor()); }
  __host__ __device__ __forceinline__ int run_of(int window) const {
    return static_cast<int>(of_run.quotient(static_cast<uint32_t>(window)));
  }
  // Of `warps` warps from warp `first` on.
  __host__ __device__ __forceinline__ int windows_of(int first, int warps) const {
    return begin_of(first + warps) - begin_of(first);
  }
  __host__ __device__ __forceinline__ int begin_of(int warp) const {
    return warp * share < windows ? warp * share : windows;
  }
  // The first share that has some of a run of the set, and how many have.
  __host__ __device__ __forceinline__ int first_of(int of) const { return of * run() / share; }
  __host__ __device__ __forceinline__ int count_of(int of) const {
    return ((of + 1) * run() - 1) / share - first_of(of) + 1;
  }
};

#if WS_DEVICE_CODE

// Where a set is.
template <class T, int kInputs>
struct SetOf {
  const T* inputs[kInputs];
  T* out;

  __device__ __forceinline__ SetOf(const Runs<T>& runs, int64_t set)
      : SetOf(runs.data, runs.out, runs.start(set)) {}
  __device__ __forceinline__ SetOf(const T* const* data, T* to, int64_t start) : out(to + start) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) inputs[k] = data[k] + start;
  }
};

// A warp's share of each set that its block takes, one after the other. Windows are counted from
// the set's first; of a share that is too large for its place in shared memory the first ones are
// held.
template <class T, class Shape, int kInputs>
class ShareOfWarp {
  static constexpr int kPart = Shape::kMostShare * row::kWidest<T>;

 public:
  using Element = T;
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  using Set = SetOf<T, kInputs>;
  struct Storage {
    SharedArray<T, Shape::kWarps * kInputs * kPart, 128> windows;
    ptx::Mbarrier arrived[Shape::kWarps];
  };

  // Of block `rank` of those that share a set.
  __device__ __forceinline__ ShareOfWarp(Storage& storage, const Shares& shares, int rank)
      : storage_(storage), shares_(shares), number_(rank * Shape::kWarps + warp_index()) {
    first_ = shares.begin_of(number_);
    last_ = shares.begin_of(number_ + 1);
    if (lane_index() == 0) {
      ptx::mbarrier_init(arrived(), 1);
      ptx::fence_mbarrier_init();
    }
    ptx::syncwarp();
  }
  // Asks for the share of a set. The lanes have met since they looked at that of the set before.
  __device__ __forceinline__ void fetch(const Set& set) const {
    if (lane_index() == 0) {
      ptx::mbarrier_arrive_expect_tx(arrived(), static_cast<uint32_t>(kInputs * 16 * count()));
    }
    ptx::syncwarp();
    if (shares_.gap == 0) {  // the runs lie one behind the other
      if (lane_index() == 0 && count() > 0) ask(set, first_, held(), at(first_));
      return;
    }
    // A lane a run.
#pragma unroll 1
    for (int run = first_run() + lane_index(); int64_t{run} * shares_.run() < held();
         run += kWarpSize) {
      const int begin = run * shares_.run() > first_ ? run * shares_.run() : first_;
      ask(set, begin, end_of(run), at(run, begin));
    }
  }
  // Until what was asked for is there.
  __device__ __forceinline__ void wait() {
    ptx::mbarrier_wait_parity(arrived(), parity_);
    parity_ ^= 1;
  }

  __device__ __forceinline__ int number() const { return number_; }  // in the set
  __device__ __forceinline__ int first() const { return first_; }
  // Behind the last window that is held; without kHoldsAll others follow.
  __device__ __forceinline__ int held() const {
    if constexpr (Shape::kHoldsAll) return last_;
    return last_ - first_ < Shape::kMostShare ? last_ : first_ + Shape::kMostShare;
  }
  __device__ __forceinline__ int count() const { return held() - first_; }
  __device__ __forceinline__ Packed load(int k, int w) const {
    return std::bit_cast<Packed>(storage_.windows.template load<kWidth>(place(k, w)));
  }
  // Element i of the share.
  __device__ __forceinline__ float element(int k, int i) const {
    const T x = storage_.windows[place(k, first_) + i];
    return to_float(x);
  }
  __device__ __forceinline__ int run_of(int w) const { return shares_.run_of(w); }
  __device__ __forceinline__ int first_run() const { return run_of(first_); }
  // Where windows are, in elements from the set's first.
  __device__ __forceinline__ int64_t at(int w) const { return at(shares_.run_of(w), w); }
  __device__ __forceinline__ int64_t at(int run, int w) const {
    return (w + static_cast<int64_t>(run) * shares_.gap) * kWidth;
  }
  // What runs have of their own: of(run), a lane each, of the 32 from `run` on. Asked for early it
  // comes while the share does.
  template <class Of>
  __device__ __forceinline__ auto values(int run, const Of& of) const {
    decltype(of(run)) value{};
    if (int64_t{run + lane_index()} * shares_.run() < held()) value = of(run + lane_index());
    return value;
  }
  // f(run, windows [begin, end) of it that are held, of(run)); `values` are those from the first
  // run on.
  template <class Value, class Of, class F>
  __device__ __forceinline__ void each_run(Value values, const Of& of, F&& f) const {
    int nth = 0;
    for (int w = first_, run = first_run(); w < held(); ++run, ++nth) {
      if (nth == kWarpSize) {
        nth = 0;
        values = this->values(run, of);
      }
      const int end = end_of(run);
      f(run, w, end, warp::shuffle(values, nth));
      w = end;
    }
  }
  // f(w, window w of each input) for those that are not held: a few are under way together. Read
  // again from the end, while L2 has what was read last.
  template <bool kFromEnd, class F>
  __device__ __forceinline__ void each_rest(const Set& set, F&& f) const {
    if constexpr (!Shape::kHoldsAll) {
      constexpr int kAtOnce = 8 / kInputs;
      const int count = last_ - held();
      const auto window = [&](int i) { return kFromEnd ? last_ - 1 - i : held() + i; };
#pragma unroll 1
      for (int i = lane_index(); i < count; i += kAtOnce * kWarpSize) {
        Packed x[kAtOnce][kInputs];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (i + j * kWarpSize >= count) continue;
          const int64_t from = at(window(i + j * kWarpSize));
#pragma unroll
          for (int k = 0; k < kInputs; ++k) x[j][k] = Packed::load(set.inputs[k] + from);
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (i + j * kWarpSize < count) f(window(i + j * kWarpSize), x[j]);
        }
      }
    }
  }

 private:
  __device__ __forceinline__ ptx::Mbarrier& arrived() const {
    return storage_.arrived[warp_index()];
  }
  __device__ __forceinline__ int end_of(int run) const {
    return (run + 1) * shares_.run() < held() ? (run + 1) * shares_.run() : held();
  }
  // Windows [begin, end) of each input, which lie `from` elements after its set's first.
  __device__ __forceinline__ void ask(const Set& set, int begin, int end, int64_t from) const {
    const auto bytes = static_cast<uint32_t>(16 * (end - begin));
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      ptx::bulk_load(storage_.windows.pointer(place(k, begin)), set.inputs[k] + from, bytes,
                     arrived());
    }
  }
  __device__ __forceinline__ int place(int k, int w) const {
    return (warp_index() * kInputs + k) * kPart + (w - first_) * kWidth;
  }

  Storage& storage_;
  const Shares& shares_;
  int number_;
  int first_;
  int last_;
  uint32_t parity_ = 0;
};

// Of gradients, whose inputs are grad and x.
template <int kWidth, class Packed>
__device__ __forceinline__ void add_window(Sums& sums, const Packed& grad, const Packed& x,
                                           float mean) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums.add(grad[i], x[i] - mean);
}
template <class ShareOf>
__device__ __forceinline__ void store_window(const typename ShareOf::Packed& grad,
                                             const typename ShareOf::Packed& x,
                                             const Gradient& gradient,
                                             typename ShareOf::Element* to) {
  Vec<float, ShareOf::kWidth> dx;
#pragma unroll
  for (int i = 0; i < ShareOf::kWidth; ++i) dx[i] = gradient(grad[i], x[i]);
  thread::store(to, thread::convert<typename ShareOf::Element>(dx));
}
// A lane's sums of the windows [begin, end) that the share holds.
template <class ShareOf>
__device__ __forceinline__ Sums sums_of_windows(const ShareOf& share, int begin, int end,
                                                float mean) {
  Sums sums = Sums::none();
#pragma unroll 2
  for (int w = begin + lane_index(); w < end; w += kWarpSize) {
    add_window<ShareOf::kWidth>(sums, share.load(0, w), share.load(1, w), mean);
  }
  return sums;
}
// dx of the same windows; to(w) is where that of window w goes.
template <class ShareOf, class To>
__device__ __forceinline__ void store_gradients(const ShareOf& share, int begin, int end,
                                                const Gradient& gradient, const To& to) {
#pragma unroll 2
  for (int w = begin + lane_index(); w < end; w += kWarpSize) {
    store_window<ShareOf>(share.load(0, w), share.load(1, w), gradient, to(w));
  }
}

#endif

}  // namespace ws::batch_norm
