// Idea: of a batch too the operand that lies across K is brought by lanes, from shared memory to
//   registers that the tensor cores read.
// From batched_tf32: as wgmma_tf32_rs has it from wgmma_tf32; in turns a warpgroup has 128 rows, so
//   two blocks of 64, and the words of two slices of both.
// Traffic: batched_tf32's, without the copies: 8 bytes an element of the operand.
// Limits: as batched_tf32; an operand lies across K; its rows and those of C start at multiples of
//   16 bytes.
#pragma once

#include "kernels/gemm/45_pingpong.cuh"
#include "kernels/gemm/batched_parts.hpp"
#include "kernels/gemm/tf32_parts.hpp"

namespace ws::gemm {

struct BatchedTf32Rs {
  static bool supports(const BatchedCall& call, Why& why) {
    return allows_tf32(call, why) && why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
           runs_supported(call, why) && products_can_be_copied(call, why) &&
           takes_across(call, why);
  }

  static Workspace workspace(const BatchedCall& call) {
    return {.bytes = b_along(across_first(call)).bytes()};
  }

  static void run(const BatchedCall& call, const Context& context) {
    run_in(plan(call).policy, call, device_facts().multiprocessors, context);
  }
  static void run_in(int policy, const BatchedCall& call, int multiprocessors,
                     const Context& context) {
    const BatchedCall one = across_first(call);
    KMajor b = b_along(one);
    b.make(context.workspace, context.stream);
    BatchedTf32Policies::with(policy, [&]<class Policy>() {
      one.c.contiguous == Contiguous::kColumns
          ? run_tiles<Policy, BatchedTensorOutput<float>>(one, b, multiprocessors, context.stream)
          : run_tiles<Policy, BatchedTransposedOutput<float>>(one, b, multiprocessors,
                                                              context.stream);
    });
  }

  // What a call that it takes is thought to take, in us.
  static double time(const BatchedCall& call) {
    return time_along(b_along(across_first(call))) + plan(call).time;
  }

 private:
  static WgmmaPlan plan(const BatchedCall& call) {
    return plan_batched_tf32<BatchedTf32Policies>(across_first(call));
  }

  template <class Policy, class Output>
  static void run_tiles(const BatchedCall& one, const KMajor& b, int multiprocessors,
                        Stream stream) {
    constexpr Contiguous kRows = Contiguous::kRows;
    using Kernel = std::conditional_t<
        Policy::kUsers == 1, PingpongKernel<float, kRows, kRows, Policy, Output, BatchedTiles>,
        WarpSpecializedKernel<float, kRows, kRows, Policy, BatchedTiles, Output>>;
    const tile::Raster raster = Policy::raster(one);
    const auto steps = static_cast<int>(divide_up(one.k, Kernel::kTileK));
    const auto work = BatchedTiles::of(one, raster.count(), steps);
    Kernel::start(
        {.a = Kernel::StageA::tensor_map(one.a.as<const float>(), matrix_batch(one, one.a), one.m,
                                         one.k, one.a.leading),
         .b = b.map<typename Kernel::StageB>(),
         .c = Output::template of<typename Kernel::Store>(one),
         .raster = raster,
         .work = work,
         .m = static_cast<int>(one.m),
         .n = static_cast<int>(one.n)},
        std::min(work.tiles, multiprocessors / Policy::kCluster), stream);
  }
};

}  // namespace ws::gemm
