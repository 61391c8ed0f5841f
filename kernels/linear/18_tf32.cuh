// Idea: f32 as TF32, where the call allows it: one product for three, with the epilogue between its
//   sums and the store.
// From three_tf32: the product is gemm/wgmma_tf32's. A layer's weight lies along K, as wgmma reads
//   it: nothing is copied.
// Traffic: that of the product; a bias from L1, a matrix once.
// Limits: sm_90a, f32; calls that allow for tf32; K > 0, a stride of each matrix 1;
//   gemm/wgmma_tf32's accuracy.
#pragma once

#include "kernels/gemm/40_wgmma_tf32.cuh"
#include "kernels/linear/finished_output.hpp"

namespace ws::linear {

struct Tf32 {
  using Product = gemm::WgmmaTf32;

  static bool supports(const Call& call, Why& why) { return Product::supports(call, why); }
  static Workspace workspace(const Call& call) { return Product::workspace(call); }
  static void run(const Call& call, const Context& context) {
    run_in(Product::plan(call).tiles, call, context);
  }
  static void run_in(gemm::Tf32Tiles tiles, const Call& call, const Context& context) {
    Product::run_into<FinishedOutput<gemm::TensorOutput<float>, float>,
                      FinishedOutput<gemm::PlainOutput<float>, float>>(tiles, call, context);
  }
};

}  // namespace ws::linear
