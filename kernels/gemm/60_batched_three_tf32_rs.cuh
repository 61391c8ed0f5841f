// Idea: f32 of a batch with f32's accuracy, low parts made on the way: lanes bring one operand in
//   registers, whichever way it lies; the other's low parts warps write beside it.
// From batched_three_tf32: no pass over the operands, which of small products takes longer than
//   they do. It is split_three_tf32's loop over tiles of all products in one line, and of twice the
//   width, whose products hide what lanes do to the next slice.
// Traffic: per 128 x 128 x 32 step 32 KB from L2, 176 KB through shared memory, in whose time it
//   has 192. What starts anywhere is copied first, and of operands that both lie across K one.
// Limits: sm_90a; a stride of each matrix 1; K > 0; three_tf32's accuracy.
// Long: the kernel, its tiles, and which operand lanes bring.
#pragma once

#include <algorithm>

#include "kernels/gemm/batched_parts.hpp"
#include "kernels/gemm/tf32_parts.hpp"
#include "kernels/gemm/three_products.hpp"

namespace ws::gemm {

template <Contiguous kA, class Policy, class Output>
struct BatchedThreeTf32RsKernel
    : WarpSpecializedKernel<float, kA, Contiguous::kRows, Policy, BatchedTiles, Output> {
  using Base = WarpSpecializedKernel<float, kA, Contiguous::kRows, Policy, BatchedTiles, Output>;
  using typename Base::Arguments;
  using typename Base::Place;
  using typename Base::Position;
  using typename Base::StageA;
  using typename Base::StageB;
  using typename Base::Store;
  static constexpr int kStages = Base::kStages;
  static_assert(Policy::kCluster == 1 && Base::kRowBlocks == 1 && kStages == Policy::kStages);

  struct SharedStorage : Base::SharedStorage {
    SharedArray<float, kStages * StageB::kElements, 1024> low;  // of B
    tile::Pipeline<kStages> lows;
  };
  static_assert(sizeof(SharedStorage) <= 227 * 1024, "shared memory of a block");

  __device__ __forceinline__ static void init(SharedStorage& shared) {
    Base::init(shared);
    shared.lows.init(1, Policy::kHelpers);
  }

  // A helper.
  __device__ __forceinline__ static void bring(SharedStorage& shared, const Arguments& g, int warp,
                                               int /*warps*/) {
    Position at;
    Base::for_each_part(g, [&](const Place& /*place*/, const auto& part) {
      make_low_parts<StageB, Policy::kHelpers>(shared.b, shared.low, shared.pipeline, shared.lows,
                                               at, warp, part.last - part.first);
    });
  }

  // A warpgroup: multiplies its rows of every tile and stores them. Which tile it is, is asked when
  // its products are done: threads have no registers to remember it.
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& g,
                                                 int warp) {
    const int consumer = warp / 4;
    const FragmentsOf<StageA> fragments(consumer);
    Position at;
    Store store{shared.c.pointer(warp * Store::kElements)};
    const auto blocks = static_cast<int>(grid_blocks());
    for (int tile = static_cast<int>(block_index()); tile < g.work.tiles; tile += blocks) {
      float sum[1][Base::kTileN / 2] = {};
      multiply_with_low_parts<StageB>(sum[0], fragments, shared.a.pointer(), shared.b.pointer(),
                                      shared.low.pointer(), shared.pipeline, shared.lows, at,
                                      g.work.steps,
                                      [&](int stage) { Base::release(shared, stage); });
      Base::for_each_part(g, tile, g.work.tiles, [&](const Place& place, const auto& part) {
        Base::put_rows(store, g, place, part, 0, sum, consumer, warp);
      });
    }
    store.finish();
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    Base::template play_roles<BatchedThreeTf32RsKernel>(shared, g);
  }
};

// kStep: of 32 of K, in us; kEnd: of a tile. H200 2026-12-02, thought and taken, wide: 2048^3 in
// 165 us, 162; 4096^3 1266, 1317; 512 x 512 x 512 x 64 227, 231; 32 x 256^3 18, 18.6; 128 x 128^3
// 13, 14.5; narrow: 4 x 512^3 20, 18.8; 1024^3 31, 30.2; 2000 x 64^3 45, 43. (cuBLAS: 351, 2888,
// 530, 30.4, 19.6; 34, 66, 45.)
template <int kTileN, int kStagesOf>
struct ThreeRsPolicy
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = kTileN, .stages = kStagesOf}> {
  static constexpr int kHelpers = 3;
  // Whether threads have registers left: for C in rows that start anywhere, and for tiles of C^T
  // from an operand that lies along K.
  static constexpr bool kHasRoom = kTileN <= 64;
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;
};
struct ThreeRs128 : ThreeRsPolicy<128, 4> {
  static constexpr double kStep = 1.22, kEnd = 1.1;
};
struct ThreeRs64 : ThreeRsPolicy<64, 6> {
  static constexpr double kStep = 0.73, kEnd = 0.9;
};
using ThreeRsPolicies = PolicyList<ThreeRs128, ThreeRs64>;

struct BatchedThreeTf32Rs {
  // Lanes bring A, or of the transposed products B.
  struct Plan {
    bool is_turned = false;
    int policy = 0;
    double time = kNever;
  };
  template <class C>
  static Plan plan(const C& call, bool is_turned, int policy) {
    const C one = is_turned ? transposed(call) : call;
    const BroughtA a(one);
    const KMajor b = b_along(one);
    const bool lies_along = one.a.contiguous == Contiguous::kColumns || a.bytes() > 0;
    const bool wants_room = !is_stored_by_boxes(call) || (is_turned && lies_along);
    Plan plan{.is_turned = is_turned, .policy = policy};
    if ((is_turned && !is_stored_by_boxes(call)) ||
        static_cast<double>(a.bytes() + b.bytes()) > kMostWorkspace) {
      return plan;
    }
    ThreeRsPolicies::with(policy, [&]<class Policy>() {
      if (wants_room && !Policy::kHasRoom) return;
      plan.time = a.time() + b.time() + tiles_time<Policy>(one);
    });
    return plan;
  }
  template <class C>
  static Plan plan(const C& call) {
    Plan best;
    for (const bool is_turned : {false, true}) {
      for (int policy = 0; policy < ThreeRsPolicies::kCount; ++policy) {
        const Plan other = plan(call, is_turned, policy);
        if (other.time < best.time) best = other;
      }
    }
    return best;
  }

  static bool supports(const BatchedCall& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why) &&
           products_can_be_copied(call, why) &&
           why.unless(plan(call).time < kNever, "copies of a and b would be too large");
  }
  static Workspace workspace(const BatchedCall& call) {
    const BatchedCall one = plan(call).is_turned ? transposed(call) : call;
    return {.bytes = BroughtA(one).bytes() + b_along(one).bytes()};
  }
  static void run(const BatchedCall& call, const Context& context);  // beside the row
  // Into outputs made from the call, or from the transposed one: by the copy engine, or by lanes.
  template <class Boxes, class Turned, class Plain, class C>
  static void run_as(const Plan& plan, const C& call, const Context& context) {
    C one = plan.is_turned ? transposed(call) : call;
    BroughtA a(one);
    KMajor b = b_along(one);
    a.make(one, context.workspace, context.stream);
    b.make(static_cast<std::byte*>(context.workspace) + a.bytes(), context.stream);
    ThreeRsPolicies::with(plan.policy, [&]<class Policy>() {
      const auto run_lying = [&]<Contiguous kA>() {
        if (plan.is_turned) {
          if constexpr (Policy::kHasRoom || kA == Contiguous::kRows) {
            run_tiles<kA, Policy, Turned>(one, b, context.stream);
          }
        } else if (is_stored_by_boxes(call)) {
          run_tiles<kA, Policy, Boxes>(one, b, context.stream);
        } else if constexpr (Policy::kHasRoom) {
          run_tiles<kA, Policy, Plain>(one, b, context.stream);
        }
      };
      one.a.contiguous == Contiguous::kColumns
          ? run_lying.template operator()<Contiguous::kColumns>()
          : run_lying.template operator()<Contiguous::kRows>();
    });
  }

  // What a call that it takes is thought to take, in us.
  static double time(const BatchedCall& call) { return plan(call).time; }

 private:
  // Waves of tiles, or what memory has to deliver and to take.
  template <class Policy, class C>
  static double tiles_time(const C& one) {
    const auto slices = static_cast<double>(divide_up(one.k, int64_t{32}));
    const int64_t tiles = one.batch * Policy::raster(one).count();
    const auto waves = static_cast<double>(divide_up(tiles, int64_t{clusters_of(1)}));
    constexpr double kFirst = 2;  // low parts that nothing hides
    return kStart + kFirst +
           std::max(waves * (slices * Policy::kStep + Policy::kEnd),
                    batched_memory_time<Policy>(one));
  }

  template <Contiguous kA, class Policy, class Output, class C>
  static void run_tiles(const C& one, const KMajor& b, Stream stream) {
    using Kernel = BatchedThreeTf32RsKernel<kA, Policy, Output>;
    using Base = typename Kernel::Base;
    const tile::Raster raster = Policy::raster(one);
    const auto steps = static_cast<int>(divide_up(one.k, Kernel::kTileK));
    const auto work = BatchedTiles::of(one, raster.count(), steps);
    Base::template start<Kernel>(
        {.a = Kernel::StageA::tensor_map(one.a.template as<const float>(), matrix_batch(one, one.a),
                                         one.m, one.k, one.a.leading),
         .b = b.map<typename Kernel::StageB>(),
         .c = Output::template of<typename Kernel::Store>(one),
         .raster = raster,
         .work = work,
         .m = static_cast<int>(one.m),
         .n = static_cast<int>(one.n)},
        std::min(work.tiles, device_facts().multiprocessors), stream);
  }
};

}  // namespace ws::gemm
