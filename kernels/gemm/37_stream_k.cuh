// Idea: the tiles of a last wave that is not full are cut along K, so that every block multiplies
//   as long as any other. Who begins a tile adds the sums of those who go on with it, and stores.
// From warp_specialized: no SM waits for the last wave. The sums travel through global memory in
//   the order of registers, written early: a worker's part of another's tile is its first.
// Traffic: twice 4 bytes an element of the cut tiles more, to and from L2.
// Limits: as warp_specialized; a workspace of the sums of a tile for each multiprocessor.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/cut_tiles.hpp"

namespace ws::gemm {

template <class T, Contiguous kA, Contiguous kB, class Output>
void run_stream_k(const Call& call, void* workspace, Stream stream) {
  using Policy = WgmmaBig;
  const tile::Raster raster = Policy::raster(call);
  const auto steps = static_cast<int>(divide_up(call.k, Policy::kTileK));
  const CutTiles work = CutTiles::of<Policy>(raster.count(), steps, workspace);
  const int clusters = CutTiles::clusters<Policy>(raster.count(), steps);
  WarpSpecializedKernel<T, kA, kB, Policy, CutTiles, Output>::run(call, raster, clusters, work,
                                                                  stream);
}

struct StreamK {
  static bool supports(const Call& call, Why& why) { return WarpSpecialized::supports(call, why); }
  static Workspace workspace(const Call& /*call*/) { return stream_k_workspace(); }
  static void run(const Call& call, const Context& context) {
    with_types<kHalves>(call, [&]<class T, Contiguous kA, Contiguous kB>() {
      run_stream_k<T, kA, kB, TensorOutput<T>>(call, context.workspace, context.stream);
    });
  }
};

}  // namespace ws::gemm
