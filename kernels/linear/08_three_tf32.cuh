// Idea: f32 on the tensor cores, with the epilogue between their sums and the store: what is added
//   is loaded as a piece of a tile is finished, a few of thousands of a tile's clocks.
// From warp_tile: the product is gemm/three_tf32's, 2.2 to 2.7 times as fast.
// Traffic: that of the product; a bias from L1, a matrix once.
// Limits: sm_90a, f32; K > 0, a stride of each matrix 1; gemm/three_tf32's accuracy.
#pragma once

#include "kernels/gemm/46_three_tf32.cuh"
#include "kernels/linear/finished_output.hpp"

namespace ws::linear {

struct ThreeTf32 {
  using Product = gemm::ThreeTf32;

  static bool supports(const Call& call, Why& why) { return Product::supports(call, why); }
  static Workspace workspace(const Call& call) { return Product::workspace(call); }
  static void run(const Call& call, const Context& context) {
    run_in(Product::plan(call).tiles, call, context);
  }
  static void run_in(Product::Tiles tiles, const Call& call, const Context& context) {
    Product::run_into<FinishedOutput<gemm::TensorOutput<float>, float>,
                      FinishedOutput<gemm::PlainOutput<float>, float>>(tiles, call, context);
  }
};

}  // namespace ws::linear
