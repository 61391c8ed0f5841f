// Idea: the gated product in f32 on the tensor cores: tiles of 64 columns of the gate and the 64
//   that go with them, of the operands and of their low parts.
// From wgmma_gated: the product is gemm/three_tf32's.
// Traffic: three_tf32's of a product of 2 F columns, less half of its output.
// Limits: sm_90a, f32; K > 0, a stride of each matrix 1; gemm/three_tf32's accuracy.
#pragma once

#include "kernels/gemm/46_three_tf32.cuh"
#include "kernels/linear/06_wgmma_gated.cuh"

namespace ws::linear {

struct ThreeGated : gemm::WgmmaPolicy<gemm::WgmmaShape{
                        .tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2}> {};

struct ThreeTf32Gated {
  static bool supports(const GatedCall& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
           gemm::runs_supported(call, why) && halves_are_taken(call, why);
  }
  static Workspace workspace(const GatedCall& call) {
    return {.bytes = gemm::KMajorOperands(call, /*has_low=*/true).bytes()};
  }
  static void run(const GatedCall& call, const Context& context) {
    gemm::KMajorOperands operands(call, /*has_low=*/true);
    operands.make(context.workspace, context.stream);
    const auto run_with = [&]<class Base>() {
      using Output = GatedOutput<Base, ThreeGated::kTileN>;
      using Kernel = gemm::ThreeTf32Kernel<ThreeGated, Output>;
      const tile::Raster raster = gemm::raster_of(call, Kernel::kTileM * Kernel::kClusterM,
                                                  Kernel::kOutputN * Kernel::kClusterN);
      const auto steps = static_cast<int>(divide_up(call.k, Kernel::kTileK));
      Kernel::start(call, operands, raster, {raster.count(), steps},
                    Kernel::clusters_of(raster, device_facts().multiprocessors), context.stream);
    };
    gemm::is_stored_by_boxes(call) ? run_with.template operator()<gemm::TensorOutput<float>>()
                                   : run_with.template operator()<gemm::PlainOutput<float>>();
  }

  // Whether it is thought to take less than a thread an element does.
  static bool pays(const GatedCall& call) {
    constexpr double kRate = 1.9e3;  // of any_layout, multiplications a us of a multiprocessor
    gemm::Call both = call;
    both.n *= 2;
    const double products =
        static_cast<double>(both.m) * static_cast<double>(both.n) * static_cast<double>(both.k);
    return gemm::KMajorOperands(call, /*has_low=*/true).time() +
               gemm::three_time<gemm::ThreeSmall>(both) <
           gemm::kStart + products / (kRate * device_facts().multiprocessors);
  }
};

}  // namespace ws::linear
