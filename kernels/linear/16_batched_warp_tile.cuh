// Idea: the CUDA cores' tile of a batch, its sums finished in the registers that hold them.
// From batched_any_layout: gemm/batched_warp_tile's products, an operand read once a tile.
// Traffic: gemm/batched_warp_tile's; what is added comes through L1, an element a sum.
// Limits: f32; a stride of batch1, batch2 and y must be 1.
#pragma once

#include "kernels/gemm/43_batched_warp_tile.cuh"
#include "kernels/linear/12_batched_any_layout.cuh"

namespace ws::linear {

struct BatchedWarpTile {
  static bool supports(const BatchedCall& call, Why& why) {
    return multiplies(call, DTypes{DType::kF32}, why) && gemm::BatchedWarpTile::supports(call, why);
  }
  static void run(const BatchedCall& call, const Context& context) {
    gemm::with_contiguous(call, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
      using Finish = FinishedProduct<float>;
      gemm::BatchedWarpTileKernel<kA, kB, gemm::WarpTileShape, Finish>::run(call, Finish::of(call),
                                                                            context.stream);
    });
  }
};

}  // namespace ws::linear
