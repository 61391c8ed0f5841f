// Channels that clusters of blocks keep in their registers, a share of its windows each block.
#pragma once

#include <bit>

#include "kernels/batch_norm/runs.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/row/shape.hpp"

namespace ws::batch_norm {

// The windows of a block's share; `first` is the thread's own.
struct Share {
  int64_t channel;
  int64_t first;
  int64_t last;

  __device__ __forceinline__ Share(int64_t windows, int64_t share)
      : channel(block_index() / cluster_size()), first(cluster_rank() * share) {
    last = first + share < windows ? first + share : windows;
    first += thread_index();
  }
};

// The rung of a kernel. A thread of short channels holds kVectors windows, of others four times as
// many; Kernel::arguments(runs, windows of a share, call) gives what is launched.
template <class Call, template <class, int, int, int> class Kernel, int kVectors>
struct OnChip {
  using Small = row::Shape<128, kVectors>;
  using Large = row::Shape<256, 4 * kVectors>;
  static constexpr int64_t kMostWindows = cluster::kMaxBlocks * Large::kBytes / 16;

  static bool supports(const Call& call, Why& why) {
    if (!runs_supported(call.layout, call.dtype, why)) return false;
    const int64_t windows = windows_of_set(call.layout, call.dtype);
    return why.unless(windows <= kMostWindows, "holds ", kMostWindows,
                      " vectors of a channel, not ", windows) &&
           why.unless(call.layout.sets <= kMostBlocks / cluster::kMaxBlocks, "takes up to ",
                      kMostBlocks / cluster::kMaxBlocks, " channels");
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      if (windows_of_set(call.layout, call.dtype) * 16 <= Small::kBytes) {
        launch_on<Kernel<T, 128, kVectors, 8>, T>(call, Small::kBytes, context);
      } else {
        launch_on<Kernel<T, 256, 4 * kVectors, 2>, T>(call, Large::kBytes, context);
      }
    });
  }

 private:
  template <class ThisKernel, class T>
  static void launch_on(const Call& call, int64_t part_bytes, const Context& context) {
    const Runs<T> runs = runs_of<T>(call.layout, call.dtype);
    const auto parts = static_cast<uint64_t>(divide_up(runs.windows * 16, part_bytes));
    const auto blocks = static_cast<int>(std::bit_ceil(parts));
    launch<ThisKernel>(
        {.blocks = call.layout.sets * blocks, .threads = ThisKernel::kThreads, .cluster = blocks},
        context.stream,
        ThisKernel::arguments(runs, divide_up(runs.windows, int64_t{blocks}), call));
  }
};

}  // namespace ws::batch_norm
