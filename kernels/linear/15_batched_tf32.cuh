// Idea: f32 of a batch on the tensor cores, with the epilogue between their sums and the store:
//   three products of TF32 numbers that together are as accurate as f32, or one where the call
//   allows for TF32.
// From three_tf32: products of a batch in one line, as gemm/batched_three_tf32, its _rs and
//   batched_tf32 have them.
// Traffic: that of the products, and what is added once.
// Limits: sm_90a, f32; K > 0, a stride of batch1, batch2 and y 1; those rungs' accuracy.
#pragma once

#include "kernels/gemm/47_batched_three_tf32.cuh"
#include "kernels/gemm/54_batched_tf32.cuh"
#include "kernels/gemm/60_batched_three_tf32_rs.cuh"
#include "kernels/linear/12_batched_any_layout.cuh"
#include "kernels/linear/batched_output.hpp"

namespace ws::linear {

using BatchedBoxesOfF32 = BatchedFinishedOutput<gemm::BatchedTensorOutput<float>, float, false>;
using BatchedTurnedOfF32 =
    BatchedFinishedOutput<gemm::BatchedTransposedOutput<float>, float, false>;
using BatchedPlainOfF32 = BatchedFinishedOutput<gemm::BatchedPlainOutput<float>, float, false>;

// What gemm's product takes and wants is what its rung here does.
template <class OfGemm>
struct BatchedOfF32 {
  using Product = OfGemm;

  static bool supports(const BatchedCall& call, Why& why) {
    return multiplies(call, DTypes{DType::kF32}, why) && Product::supports(call, why);
  }
  static Workspace workspace(const BatchedCall& call) { return Product::workspace(call); }
};

struct BatchedThreeTf32 : BatchedOfF32<gemm::BatchedThreeTf32> {
  static void run(const BatchedCall& call, const Context& context) {
    run_in(Product::plan(call).tiles, call, context);
  }
  static void run_in(Product::Tiles tiles, const BatchedCall& call, const Context& context) {
    Product::run_into<BatchedBoxesOfF32, BatchedPlainOfF32>(tiles, call, context);
  }
};

struct BatchedThreeTf32Rs : BatchedOfF32<gemm::BatchedThreeTf32Rs> {
  static void run(const BatchedCall& call, const Context& context) {
    run_as(Product::plan(call), call, context);
  }
  static void run_as(const Product::Plan& plan, const BatchedCall& call, const Context& context) {
    Product::run_as<BatchedBoxesOfF32, BatchedTurnedOfF32, BatchedPlainOfF32>(plan, call, context);
  }
};

struct BatchedTf32 : BatchedOfF32<gemm::BatchedTf32> {
  static void run(const BatchedCall& call, const Context& context) {
    Product::run_into<BatchedBoxesOfF32, BatchedPlainOfF32>(call, context);
  }
};

}  // namespace ws::linear
