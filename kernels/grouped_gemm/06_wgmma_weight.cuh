// Idea: K is cut anywhere. Where both operands have K down their rows, a slice may begin at any row
//   and the copy engine needs no alignment; of a group's last slice the rows of the next group are
//   overwritten with zeros in shared memory, before they are multiplied.
// From wgmma: groups of K. Zeros in both operands, since 0 times infinity is not 0; by ordinary
//   stores that a proxy fence shows to wgmma, once a tile. An empty group is a slice of zeros.
//   A copy that ends at the group's end would need a tensor map for each group, made on the device.
// Traffic: warp_specialized's.
// Limits: sm_90a, f16 and bf16; contiguous columns of A and rows of B and out, as of
//   x.t() @ g; addresses, strides of rows and of groups in multiples of 16 bytes.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/44_batched_wgmma.cuh"
#include "kernels/grouped_gemm/groups.hpp"
#include "kernels/grouped_gemm/policies.hpp"

namespace ws::grouped_gemm {

// A tile of a group's product.
struct DepthPart : tile::Part {
  gemm::MatrixIndex matrix;
  int first_k;
  int valid;  // of K in the last slice
};

// Every so-many-th tile of all groups.
struct DepthTiles : gemm::WholeTiles {
  static constexpr bool kBatched = true;
  static constexpr bool kDepthGroups = true;
  Groups groups;
  int of_group = 0;

  template <class F>
  __device__ __forceinline__ void for_each(int worker, int workers, F&& f) const {
    constexpr int kSlice = 64;
    for (int at = worker; at < tiles; at += workers) {
      const int group = at / of_group;
      const auto [first, end] = groups.range_of(group);
      const auto length = static_cast<int>(end - first);
      const int steps = length == 0 ? 1 : divide_up(length, kSlice);
      f(DepthPart{{at - group * of_group, 0, steps},
                  {0, 0, group},
                  static_cast<int>(first),
                  length - (steps - 1) * kSlice});
    }
  }
  // By a warp that does nothing else, one of `warps` in its block.
  template <class Output>
  __device__ __forceinline__ void beside(const Output& /*c*/, int warp, int warps) const {
    const auto index = static_cast<int>(block_index()) * warps + warp;
    groups.report(index * kWarpSize + lane_index(),
                  static_cast<int>(grid_blocks()) * warps * kWarpSize);
  }
};

template <class T, class Policy>
using DepthWgmmaKernel =
    gemm::WarpSpecializedKernel<T, Contiguous::kRows, Contiguous::kColumns, Policy, DepthTiles,
                                gemm::BatchedTensorOutput<T>>;

template <class Kernel, class T>
void launch_depth(const DepthCall& call, int multiprocessors, Stream stream) {
  const tile::Raster raster = Kernel::raster(call);
  DepthTiles work;
  work.groups = Groups(call, call.k, "grouped_gemm_weight/wgmma_weight");
  work.tiles = static_cast<int>(call.groups) * raster.count();
  work.of_group = raster.count();
  Kernel::start(
      {.a = Kernel::StageA::tensor_map(call.a.as<const T>(), ptx::MatrixBatch{}, call.m, call.k,
                                       call.a.leading),
       .b = Kernel::StageB::tensor_map(call.b.as<const T>(), ptx::MatrixBatch{}, call.n, call.k,
                                       call.b.leading),
       .c = {Kernel::Store::tensor_map(call.c.as<const T>(), matrices_of_groups(call, call.c),
                                       call.m, call.n, call.c.leading)},
       .raster = raster,
       .work = work,
       .m = static_cast<int>(call.m),
       .n = static_cast<int>(call.n)},
      std::min(work.tiles, multiprocessors / Kernel::kCluster), stream);
}

// Instantiated beside the rung's row, for tests to call.
template <class T>
void run_depth(const DepthCall& call, int multiprocessors, Stream stream) {
  with_depth_policy(call, multiprocessors, [&]<class Policy>() {
    launch_depth<DepthWgmmaKernel<T, Policy>, T>(call, multiprocessors, stream);
  });
}
extern template void run_depth<half>(const DepthCall&, int, Stream);
extern template void run_depth<bf16>(const DepthCall&, int, Stream);

struct WgmmaWeight {
  static bool supports(const DepthCall& call, Why& why) {
    return are_copied(call, call.c, why) &&
           why.unless(call.a.contiguous == Contiguous::kRows &&
                          call.b.contiguous == Contiguous::kColumns &&
                          call.c.contiguous == Contiguous::kColumns,
                      "needs contiguous columns of a, rows of b and of out") &&
           // A walk of the tiles ends up to a wave beyond the last.
           tiles_fit(2 * divide_up(call.m, 128) * divide_up(call.n, 128), call.groups, why);
  }

  static void run(const DepthCall& call, const Context& context) {
    const int multiprocessors = device_facts().multiprocessors;
    with_type<kHalves>(call.dtype,
                       [&]<class T>() { run_depth<T>(call, multiprocessors, context.stream); });
  }
};

}  // namespace ws::grouped_gemm
