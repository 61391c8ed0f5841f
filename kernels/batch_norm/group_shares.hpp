// Groups that clusters keep in shared memory. A group of a sample is one run of memory; each warp
// of a cluster has a share of it, brings it by bulk copies, and waits for no other.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/batch_norm/runs.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/bulk.hpp"

namespace ws::batch_norm {

// Of kInputs tensors that are kept. Counted, no others were compared: four blocks an SM, so that
// some load while others write; 55 KiB of each.
template <int kInputs>
struct GroupShape {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kMinBlocks = 4;
  static constexpr int kMostShare = 440 / kInputs;  // windows of a warp
  static constexpr int64_t kMostWindows = int64_t{cluster::kMaxBlocks} * kWarps * kMostShare;

  static bool takes(const Layout& layout, DType dtype, Why& why) {
    if (!runs_supported(layout, dtype, why)) return false;
    const Pieces pieces = pieces_of(layout, dtype);
    const bool is_run =
        (pieces.count == 1 || pieces.stride == pieces.run) &&
        (layout.per == 1 || layout.set[0] == layout.count) &&
        (layout.sets == layout.per || layout.sample[0] == layout.per * layout.count);
    const int64_t windows = pieces.count * pieces.windows;
    return why.unless(is_run, "takes groups that are each a run of memory") &&
           why.unless(pieces.aligned, "takes channels that begin at multiples of 16 bytes") &&
           why.unless(windows <= kMostWindows, "holds ", kMostWindows, " vectors of a group, not ",
                      windows) &&
           why.unless(layout.sets <= kMostBlocks / cluster::kMaxBlocks, "takes up to ",
                      kMostBlocks / cluster::kMaxBlocks, " groups");
  }
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

// The windows of a group in shares.
struct Shares {
  int windows;
  int share;                   // windows of a warp
  thread::Divider of_channel;  // windows of one
  int most;                    // shares that a channel may lie in

  template <class Shape>
  static Shares of(const Layout& layout, DType dtype) {
    const Pieces pieces = pieces_of(layout, dtype);
    const int64_t windows = pieces.count * pieces.windows;
    const int64_t share = divide_up(windows, int64_t{Shape::kWarps} * Shape::blocks(layout, dtype));
    return {static_cast<int>(windows), static_cast<int>(share), thread::Divider(pieces.windows),
            static_cast<int>(divide_up(pieces.windows - 1, share) + 1)};
  }
  // The first share that has some of a channel of the group, and how many have.
  __host__ __device__ __forceinline__ int first_of(int channel) const {
    return channel * static_cast<int>(of_channel.divisor()) / share;
  }
  __host__ __device__ __forceinline__ int count_of(int channel) const {
    const int end = (channel + 1) * static_cast<int>(of_channel.divisor());
    return (end - 1) / share - first_of(channel) + 1;
  }
};

#if WS_DEVICE_CODE

// A warp's share of a group.
template <class T, int kInputs>
class GroupShare {
  using Shape = GroupShape<kInputs>;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kPart = Shape::kMostShare * kWidth;

 public:
  using Packed = row::Packed<T, kWidth>;
  struct Storage {
    SharedArray<T, Shape::kWarps * kInputs * kPart, 128> windows;
    ptx::Mbarrier arrived[Shape::kWarps];
  };

  // Asks for the share of each input, where that input's group begins at `groups`. The lanes of a
  // warp may wait() when the block has met.
  __device__ __forceinline__ GroupShare(Storage& storage, const Shares& shares,
                                        const T* const (&groups)[kInputs])
      : storage_(storage), shares_(shares), number_(cluster_rank() * Shape::kWarps + warp_index()) {
    first_ = at_most(number_ * shares.share, shares.windows);
    last_ = at_most(first_ + shares.share, shares.windows);
    if (lane_index() != 0) return;
    const auto bytes = static_cast<uint32_t>((last_ - first_) * 16);
    ptx::Mbarrier& arrived = storage.arrived[warp_index()];
    ptx::mbarrier_init(arrived, 1);
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async();
    ptx::mbarrier_arrive_expect_tx(arrived, kInputs * bytes);
    if (bytes == 0) return;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      ptx::bulk_load(storage.windows.pointer(place(k, first_)),
                     groups[k] + int64_t{first_} * kWidth, bytes, arrived);
    }
  }
  __device__ __forceinline__ void wait() const {
    ptx::mbarrier_wait_parity(storage_.arrived[warp_index()], 0);
  }

  // In the group.
  __device__ __forceinline__ int number() const { return number_; }
  __device__ __forceinline__ int first() const { return first_; }
  __device__ __forceinline__ int last() const { return last_; }
  __device__ __forceinline__ Packed load(int k, int w) const {
    return std::bit_cast<Packed>(storage_.windows.template load<kWidth>(place(k, w)));
  }
  // f(channel of the group, windows [begin, end) of it that the share has)
  template <class F>
  __device__ __forceinline__ void each_channel(F&& f) const {
    for (int w = first_; w < last_;) {
      const auto channel = static_cast<int>(shares_.of_channel.quotient(static_cast<uint32_t>(w)));
      const int end =
          at_most((channel + 1) * static_cast<int>(shares_.of_channel.divisor()), last_);
      f(channel, w, end);
      w = end;
    }
  }

 private:
  __device__ __forceinline__ static int at_most(int value, int most) {
    return value < most ? value : most;
  }
  __device__ __forceinline__ int place(int k, int w) const {
    return (warp_index() * kInputs + k) * kPart + (w - first_) * kWidth;
  }

  Storage& storage_;
  const Shares& shares_;
  int number_;
  int first_;
  int last_;
};

#endif

}  // namespace ws::batch_norm
