// Idea: f32 of a batch on the tensor cores as tf32, where the call allows for it. Operands that do
//   not lie along K are copied so, of the whole batch in one launch, then tiles of all products run
//   in one line.
// From batched_pingpong: as wgmma_tf32 has it from warp_specialized. A stage is 32 of K, C is f32.
// Traffic: batched_pingpong's at 4 bytes an element; a copied operand costs 8 bytes an element
//   more, one that all products share once.
// Limits: sm_90a; calls that allow for tf32; K > 0, a stride of each matrix 1.
#pragma once

#include "kernels/gemm/45_pingpong.cuh"
#include "kernels/gemm/batched_parts.hpp"
#include "kernels/gemm/tf32_parts.hpp"

namespace ws::gemm {

template <class Policy, class Output>
using BatchedTf32Kernel = std::conditional_t<
    Policy::kUsers == 1,
    PingpongKernel<float, Contiguous::kColumns, Contiguous::kRows, Policy, Output, BatchedTiles>,
    WarpSpecializedKernel<float, Contiguous::kColumns, Contiguous::kRows, Policy, BatchedTiles,
                          Output>>;

struct BatchedTf32 {
  // Rows of C that start anywhere lanes store, out of the middle tile.
  using Policies = BatchedTf32Policies;
  using PlainPolicies = PolicyList<BatchedTurns128>;

  static bool supports(const BatchedCall& call, Why& why) {
    return allows_tf32(call, why) && why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
           runs_supported(call, why) && products_can_be_copied(call, why);
  }
  static Workspace workspace(const BatchedCall& call) {
    return {.bytes = KMajorOperands(call, /*has_low=*/false).bytes()};
  }

  static void run(const BatchedCall& call, const Context& context) {
    run_into<BatchedTensorOutput<float>, BatchedPlainOutput<float>>(call, context);
  }
  // The same into other outputs, made from a call of their own: one that the copy engine stores,
  // one that lanes do.
  template <class Boxes, class Plain, class C>
  static void run_into(const C& call, const Context& context) {
    is_stored_by_boxes(call)
        ? run_in<Policies, Boxes>(plan_batched_tf32<Policies>(call).policy, call, context)
        : run_in<PlainPolicies, Plain>(0, call, context);
  }
  template <class List, class Output, class C>
  static void run_in(int policy, const C& call, const Context& context) {
    KMajorOperands operands(call, /*has_low=*/false);
    operands.make(context.workspace, context.stream);
    List::with(policy, [&]<class Policy>() {
      using Kernel = BatchedTf32Kernel<Policy, Output>;
      const tile::Raster raster = Policy::raster(call);
      const auto steps = static_cast<int>(divide_up(call.k, Kernel::kTileK));
      const auto work = BatchedTiles::of(call, raster.count(), steps);
      Kernel::start({.a = operands.a.map<typename Kernel::StageA>(),
                     .b = operands.b.map<typename Kernel::StageB>(),
                     .c = Output::template of<typename Kernel::Store>(call),
                     .raster = raster,
                     .work = work,
                     .m = static_cast<int>(call.m),
                     .n = static_cast<int>(call.n)},
                    std::min(work.tiles, device_facts().multiprocessors / Policy::kCluster),
                    context.stream);
    });
  }

  // What a call is thought to take, in us.
  static double time(const BatchedCall& call) {
    const double tiles = is_stored_by_boxes(call) ? plan_batched_tf32<Policies>(call).time
                                                  : plan_batched_tf32<PlainPolicies>(call).time;
    return KMajorOperands(call, /*has_low=*/false).time() + tiles;
  }
};

}  // namespace ws::gemm
