// Idea: tensor maps of three dimensions. A product is a coordinate of the copy engine, which knows
//   where each ends: its tiles may hang over the edge and never touch the next one.
// From warp_specialized: a persistent block walks the tiles of all products in one line, so that
//   only the last wave of the whole batch is not full. No pointer moves.
// Traffic: warp_specialized's. A matrix that all products share stays in L2.
// Limits: sm_90a, f16 and bf16; base addresses, strides of rows and products are multiples of 16
//   bytes, the copy engine's rule.
#pragma once

#include "kernels/gemm/batched_parts.hpp"
#include "kernels/gemm/batched_plan.hpp"

namespace ws::gemm {

template <class T, Contiguous kA, Contiguous kB, class Policy, class Output>
using BatchedWgmmaKernel = WarpSpecializedKernel<T, kA, kB, Policy, BatchedTiles, Output>;

// The output is made from the call, a BatchedCall or one that says more.
template <class Kernel, class T, class Output, class C>
void launch_batched_wgmma(const C& call, int multiprocessors, Stream stream) {
  const tile::Raster raster = Kernel::raster(call);
  const auto steps = static_cast<int>(divide_up(call.k, Kernel::kTileK));
  const auto work = BatchedTiles::of(call, raster.count(), steps);
  const auto batch = [&](const Matrix& matrix) { return matrix_batch(call, matrix); };
  Kernel::start({.a = Kernel::StageA::tensor_map(call.a.template as<const T>(), batch(call.a),
                                                 call.m, call.k, call.a.leading),
                 .b = Kernel::StageB::tensor_map(call.b.template as<const T>(), batch(call.b),
                                                 call.n, call.k, call.b.leading),
                 .c = Output::template of<typename Kernel::Store>(call),
                 .raster = raster,
                 .work = work,
                 .m = static_cast<int>(call.m),
                 .n = static_cast<int>(call.n)},
                std::min(work.tiles, multiprocessors / Kernel::kCluster), stream);
}

// Instantiated beside the rungs' rows, for tests to call.
template <class T, class Output = BatchedTensorOutput<T>, class Policies = BatchedPolicies>
void run_batched_wgmma(const BatchedCall& call, int multiprocessors, Stream stream) {
  with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
    Policies::with(plan_batched<Policies>(call, multiprocessors).policy, [&]<class Policy>() {
      using Kernel = BatchedWgmmaKernel<T, kA, kB, Policy, Output>;
      launch_batched_wgmma<Kernel, T, Output>(call, multiprocessors, stream);
    });
  });
}
extern template void run_batched_wgmma<half>(const BatchedCall&, int, Stream);
extern template void run_batched_wgmma<bf16>(const BatchedCall&, int, Stream);

struct BatchedWgmma {
  static bool supports(const BatchedCall& call, Why& why) {
    return is_of_one_dtype(call, why) && WarpSpecialized::supports(call, why) &&
           products_can_be_copied(call, why);
  }

  static void run(const BatchedCall& call, const Context& context) {
    const int multiprocessors = device_facts().multiprocessors;
    with_type<kHalves>(call.dtype, [&]<class T>() {
      run_batched_wgmma<T>(call, multiprocessors, context.stream);
    });
  }
};

}  // namespace ws::gemm
