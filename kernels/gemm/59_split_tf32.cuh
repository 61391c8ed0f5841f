// Idea: TF32 of few rows, or few tiles: a cluster's blocks divide K and add up in shared memory,
//   and the tensor cores take one operand from a lane's registers where it lies across K.
// From wgmma_tf32_rs: tiles cut along K exchanged their sums through memory, 11 us of 50.
// Traffic: split_k's, in 4 bytes. Where both operands lie across K the smaller is copied, and what
//   starts anywhere is.
// Limits: sm_90a; calls that allow for tf32; a stride of each matrix 1; K > 0.
#pragma once

#include "kernels/gemm/split_f32.hpp"

namespace ws::gemm {

template <int kTileN, int kStages, bool kTurned, int kBlocks = 1>
using SplitTf32Shape = SplitPolicy<SplitShape{
    .tile_m = 128, .tile_n = kTileN, .stages = kStages, .blocks = kBlocks, .turned = kTurned}>;
// kStep and kEnd as of split_k's, of 32 of K.
template <bool kTurned>
struct SplitTf32Square : SplitTf32Shape<128, 6, kTurned> {
  static constexpr double kStep = 0.33, kEnd = 3.5;
};
template <bool kTurned>
struct SplitTf32Half : SplitTf32Shape<64, 8, kTurned> {
  static constexpr double kStep = 0.22, kEnd = 1.6;
};
template <bool kTurned>
struct SplitTf32Thin : SplitTf32Shape<16, 6, kTurned, 2> {
  static constexpr double kStep = 0.27, kEnd = 0.4;
};

struct Tf32Parts {
  template <bool kTurned>
  using Policies =
      PolicyList<SplitTf32Square<kTurned>, SplitTf32Half<kTurned>, SplitTf32Thin<kTurned>>;
  template <Contiguous kA, class Policy, class Output>
  using Kernel = SplitKKernel<float, kA, Contiguous::kRows, Policy, Output>;
};

struct SplitTf32 : SplitF32<Tf32Parts> {
  static bool supports(const Call& call, Why& why) {
    return allows_tf32(call, why) && SplitF32::supports(call, why);
  }
};

}  // namespace ws::gemm
