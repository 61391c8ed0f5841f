// Idea: K is cut anywhere. Slices begin where the group does; of its last slice what is the next
//   group's is overwritten with zeros in shared memory, before it is multiplied.
// From wgmma: groups of K. Zeros in both operands, since 0 times infinity is not 0; by ordinary
//   stores that a proxy fence shows to wgmma, once a tile; twice where K runs along rows, for there
//   slices begin at multiples of 16 bytes. An empty group is a slice of zeros.
// Traffic: warp_specialized's.
// Limits: sm_90a, f16 and bf16, also to f32; a stride of A and B 1, contiguous rows of out;
//   A, B and their rows start at multiples of 16 bytes.
// Long: where a group's slices lie, and what of them is cleared, belong on one page.
#pragma once

#include "kernels/grouped_gemm/clear.hpp"
#include "kernels/grouped_gemm/output.hpp"

namespace ws::grouped_gemm {

// C, a group's matrix at a time.
template <class T>
struct DepthOutput : GroupedOutput<T> {
  int64_t batch;  // stride
  int rows;

  template <class Store>
  __device__ __forceinline__ void put(Store& store, int matrix, int row, int column,
                                      const float* sums) const {
    if (!this->by_lanes) {
      store.put(this->map, row, column, sums, matrix);
    } else {
      store.write(this->data + matrix * batch + row * this->leading + column, this->leading,
                  rows - row, this->columns - column, sums);
    }
  }
};

// A tile of a group's product.
struct DepthPart : tile::Part {
  gemm::MatrixIndex matrix;
  int first_k;
  int before;  // of K in the first slice: the group's before
  int valid;   // of K in the last slice: up to the group's end
};

// Every so-many-th tile of all groups. Slices begin at multiples of kAlignment of K.
template <int kAlignment>
struct DepthTiles : gemm::WholeTiles {
  static constexpr bool kBatched = true;
  static constexpr bool kDepthGroups = true;
  static constexpr int kSlice = 64;
  Groups groups;
  int of_group = 0;

  template <class F>
  __device__ __forceinline__ void for_each(int worker, int workers, F&& f) const {
    for (int at = worker; at < tiles; at += workers) {
      const int group = at / of_group;
      const auto range = groups.range_of(group);
      const auto first = static_cast<int>(range.first);
      const auto end = static_cast<int>(range.end);
      const int before = first == end ? 0 : first % kAlignment;
      const int length = end - first + before;
      const int steps = length == 0 ? 1 : divide_up(length, kSlice);
      f(DepthPart{{at - group * of_group, 0, steps},
                  {0, 0, group},
                  first - first % kAlignment,
                  before,
                  length - (steps - 1) * kSlice});
    }
  }
  // By all consumers: what of a slice in a stage is another group's becomes zero, in both operands,
  // for it may be infinite. Whether there is any.
  template <class Kernel>
  __device__ __forceinline__ static bool clear(typename Kernel::SharedStorage& shared, int stage,
                                               const DepthPart& part, int block) {
    using A = typename Kernel::StageA;
    using B = typename Kernel::StageB;
    constexpr int kThreads = 128 * Kernel::kConsumers;
    const int from = kAlignment > 1 && block == 0 ? part.before : 0;
    const int to = block == part.last - 1 ? part.valid : kSlice;
    if (from == 0 && to == kSlice) return false;
    clear_outside<A, kThreads>(shared.a.pointer(stage * A::kElements), from, to);
    clear_outside<B, kThreads>(shared.b.pointer(stage * B::kElements), from, to);
    ptx::fence_proxy_async();
    ptx::barrier_sync(1, kThreads);
    return true;
  }
  // By a warp that does nothing else, one of `warps` in its block.
  template <class Output>
  __device__ __forceinline__ void beside(const Output& /*c*/, int warp, int warps) const {
    const auto index = static_cast<int>(block_index()) * warps + warp;
    groups.report(index * kWarpSize + lane_index(),
                  static_cast<int>(grid_blocks()) * warps * kWarpSize);
  }
};

// K down the rows of both: the copy engine takes any row, along rows multiples of 16 bytes.
template <Contiguous kA, Contiguous kB>
using DepthTilesOf =
    DepthTiles<kA == Contiguous::kRows && kB == Contiguous::kColumns ? 1 : kCopyAlignment>;

template <class T, class Out, Contiguous kA, Contiguous kB, class Policy>
using DepthWgmmaKernel =
    gemm::WarpSpecializedKernel<T, kA, kB, Policy, DepthTilesOf<kA, kB>, DepthOutput<Out>>;

template <class Kernel, class T, class Out, class Work>
void launch_depth(const DepthCall& call, const char* rung, int multiprocessors, Stream stream) {
  const tile::Raster raster = Kernel::raster(call);
  Work work;
  work.groups = Groups(call, call.k, rung);
  work.tiles = static_cast<int>(call.groups) * raster.count();
  work.of_group = raster.count();
  Kernel::start(
      {.a = Kernel::StageA::tensor_map(call.a.as<const T>(), ptx::MatrixBatch{}, call.m, call.k,
                                       call.a.leading),
       .b = Kernel::StageB::tensor_map(call.b.as<const T>(), ptx::MatrixBatch{}, call.n, call.k,
                                       call.b.leading),
       .c = {output_of<typename Kernel::Store, Out>(call, matrices_of_groups(call, call.c)),
             call.c.batch, static_cast<int>(call.m)},
       .raster = raster,
       .work = work,
       .m = static_cast<int>(call.m),
       .n = static_cast<int>(call.n)},
      std::min(work.tiles, multiprocessors / Kernel::kCluster), stream);
}

// Instantiated beside the rung's row, for other rungs and for tests.
template <class T, class Out = T>
void run_depth(const DepthCall& call, const char* rung, int multiprocessors, Stream stream) {
  gemm::with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
    with_policy(call, multiprocessors, [&]<class Policy>() {
      using Kernel = DepthWgmmaKernel<T, Out, kA, kB, Policy>;
      launch_depth<Kernel, T, Out, DepthTilesOf<kA, kB>>(call, rung, multiprocessors, stream);
    });
  });
}
extern template void run_depth<half>(const DepthCall&, const char*, int, Stream);
extern template void run_depth<bf16>(const DepthCall&, const char*, int, Stream);
extern template void run_depth<half, float>(const DepthCall&, const char*, int, Stream);
extern template void run_depth<bf16, float>(const DepthCall&, const char*, int, Stream);

struct WgmmaWeight {
  static bool supports(const DepthCall& call, Why& why) {
    return operands_are_copied(call, why) && are_walked(call, why);
  }

  static void run(const DepthCall& call, const Context& context) {
    const int multiprocessors = device_facts().multiprocessors;
    with_dtypes<kHalves>(call, [&]<class T, class Out>() {
      run_depth<T, Out>(call, "grouped_gemm_weight/wgmma_weight", multiprocessors, context.stream);
    });
  }
};

}  // namespace ws::grouped_gemm
