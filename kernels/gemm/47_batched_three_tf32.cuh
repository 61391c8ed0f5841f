// Idea: the low parts of a whole batch by one pass over each operand, then tiles of all products in
//   one line.
// From three_tf32: as batched_wgmma has it from warp_specialized. A matrix that all products share
//   has its low part once.
// Traffic: three_tf32's.
// Limits: sm_90a; K > 0, a stride of each matrix 1; three_tf32's accuracy.
#pragma once

#include "kernels/gemm/44_batched_wgmma.cuh"
#include "kernels/gemm/46_three_tf32.cuh"

namespace ws::gemm {

struct BatchedThreeTf32 {
  enum class Tiles : uint8_t { kTall, kSmall, kNarrow, kSmallPlain };
  struct Plan {
    Tiles tiles;
    double time;
  };
  static Plan plan(const BatchedCall& call) {
    const double small = three_time<ThreeSmall>(call, call.batch);
    if (!is_stored_by_boxes(call)) return {Tiles::kSmallPlain, small};
    return std::min(
        {Plan{Tiles::kTall, three_time<ThreeTall>(call, call.batch)}, Plan{Tiles::kSmall, small},
         Plan{Tiles::kNarrow, three_time<ThreeNarrow>(call, call.batch)}},
        [](const Plan& p, const Plan& q) { return p.time < q.time; });
  }

  static bool supports(const BatchedCall& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why) &&
           products_can_be_copied(call, why);
  }
  static Workspace workspace(const BatchedCall& call) {
    return {.bytes = KMajorOperands(call, /*has_low=*/true).bytes()};
  }

  static void run(const BatchedCall& call, const Context& context) {
    run_in(plan(call).tiles, call, context);
  }
  static void run_in(Tiles tiles, const BatchedCall& call, const Context& context) {
    run_into<BatchedTensorOutput<float>, BatchedPlainOutput<float>>(tiles, call, context);
  }
  // The same into other outputs, made from a call of their own: one that the copy engine stores,
  // one that lanes do.
  template <class Boxes, class Plain, class C>
  static void run_into(Tiles tiles, const C& call, const Context& context) {
    KMajorOperands operands(call, /*has_low=*/true);
    operands.make(context.workspace, context.stream);
    const auto run_with = [&]<class Policy, class Output>() {
      using Kernel = ThreeTf32Kernel<Policy, Output, BatchedTiles>;
      const tile::Raster raster = Policy::raster(call);
      const auto steps = static_cast<int>(divide_up(call.k, Kernel::kTileK));
      const auto work = BatchedTiles::of(call, raster.count(), steps);
      const int clusters = std::min(work.tiles, device_facts().multiprocessors / Policy::kCluster);
      Kernel::start(call, operands, raster, work, clusters, context.stream);
    };
    switch (tiles) {
      case Tiles::kTall: return run_with.template operator()<ThreeTall, Boxes>();
      case Tiles::kSmall: return run_with.template operator()<ThreeSmall, Boxes>();
      case Tiles::kNarrow: return run_with.template operator()<ThreeNarrow, Boxes>();
      case Tiles::kSmallPlain: return run_with.template operator()<ThreeSmall, Plain>();
    }
  }

  // What a call is thought to take, in us.
  static double time(const BatchedCall& call) {
    return KMajorOperands(call, /*has_low=*/true).time() + plan(call).time;
  }
};

}  // namespace ws::gemm
