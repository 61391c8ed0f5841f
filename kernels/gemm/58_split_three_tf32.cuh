// Idea: f32 with f32's accuracy where there are few rows, or few tiles: low parts are made on the
//   way. Lanes bring one operand, the larger, in registers, whichever way it lies, and know what
//   TF32 leaves of it; the other's low parts three warps write beside it in shared memory.
// From three_tf32: no pass over the operands, which took longer than 64 rows do; and K is divided
//   among a cluster's blocks, which add up in shared memory, as in split_k.
// Traffic: A and B once from memory where one side is a tile wide; of the sums 4 bytes an element
//   and block through the cluster's network.
// Limits: sm_90a; a stride of each matrix 1; K > 0; three_tf32's accuracy. What does not start at
//   multiples of 16 bytes is copied, and where both lie across K the smaller.
#pragma once

#include "kernels/gemm/split_f32.hpp"
#include "kernels/gemm/three_products.hpp"

namespace ws::gemm {

// B's tile along K. As many sums as products: a lane has no registers for wider tiles.
template <Contiguous kA, class Policy, class Output>
struct SplitThreeKernel : SplitKKernel<float, kA, Contiguous::kRows, Policy, Output> {
  using Base = SplitKKernel<float, kA, Contiguous::kRows, Policy, Output>;
  using typename Base::Arguments;
  using typename Base::Place;
  using typename Base::Position;
  using typename Base::StageA;
  using typename Base::StageB;
  static constexpr int kSums = Base::kTileN / 2;
  static_assert(Policy::kSharers == 1);

  struct SharedStorage : Base::SharedStorage {
    SharedArray<float, Policy::kStages * StageB::kElements, 1024> low;  // of B
    tile::Pipeline<Policy::kStages> lows;
  };
  static_assert(sizeof(SharedStorage) <= 227 * 1024 / Policy::kMinBlocks);

  __device__ __forceinline__ static void init(SharedStorage& shared) {
    Base::init(shared);
    shared.lows.init(1, Policy::kHelpers);
  }

  // A helper.
  __device__ __forceinline__ static void help(SharedStorage& shared, int warp, int first,
                                              int last) {
    Position at;
    make_low_parts<StageB, Policy::kHelpers>(shared.b, shared.low, shared.pipeline, shared.lows, at,
                                             warp, last - first);
  }

  // A warpgroup, as in split_k.
  __device__ __forceinline__ static void multiply(float (&sum)[1][kSums], SharedStorage& shared,
                                                  const Arguments& /*g*/, const Place& place,
                                                  int consumer, int /*row*/, int /*column*/,
                                                  int first, int last) {
    const FragmentsOf<StageA> fragments(consumer);
    Position at;
    multiply_with_low_parts<StageB>(sum[0], fragments, shared.a.pointer(), shared.b.pointer(),
                                    shared.low.pointer(), shared.pipeline, shared.lows, at,
                                    last - first,
                                    [&](int stage) { Base::release(shared, place, stage); });
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    Base::template play<SplitThreeKernel>(shared, g);
  }
};

template <int kTileN, int kStages, bool kTurned>
using SplitThreeShape = SplitPolicy<SplitShape{
    .tile_m = 128, .tile_n = kTileN, .stages = kStages, .turned = kTurned, .helpers = 3}>;
// kStep and kEnd as of split_k's, of 32 of K. H200 2026-12-02, nt, us: 1024^3 by 64 columns 33.1;
// 64 x 4096 x 4096 by 64 in three parts 45.1, by 32 in two 46.4; 16 x 4096 x 4096 by 16 in three
// 29.5; 512^3 by 32 in two 11.5. (cuBLAS, CUDA cores: 65.6, 66.6, 51.5, 17.7.)
template <bool kTurned>
struct SplitThree64 : SplitThreeShape<64, 6, kTurned> {
  static constexpr double kStep = 0.83, kEnd = 1.4;
};
template <bool kTurned>
struct SplitThree32 : SplitThreeShape<32, 9, kTurned> {
  static constexpr double kStep = 0.59, kEnd = 1.0;
};
template <bool kTurned>
struct SplitThree16 : SplitThreeShape<16, 9, kTurned> {
  static constexpr double kStep = 0.47, kEnd = 0.6;
};
template <bool kTurned>
using SplitThreePolicies =
    PolicyList<SplitThree64<kTurned>, SplitThree32<kTurned>, SplitThree16<kTurned>>;

struct ThreeTf32Parts {
  template <bool kTurned>
  using Policies = SplitThreePolicies<kTurned>;
  template <Contiguous kA, class Policy, class Output>
  using Kernel = SplitThreeKernel<kA, Policy, Output>;
};
using SplitThreeTf32 = SplitF32<ThreeTf32Parts>;

}  // namespace ws::gemm
