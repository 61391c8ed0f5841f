// Idea: f32 with f32's accuracy where there are few rows, or few tiles: low parts are made on the
//   way. Lanes bring one operand, the larger, in registers, whichever way it lies, and know what
//   TF32 leaves of it; the other's low parts three warps write beside it in shared memory.
// From three_tf32: no pass over the operands, which took longer than 64 rows do; and K is divided
//   among a cluster's blocks, which add up in shared memory, as in split_k.
// Traffic: A and B once from memory where one side is a tile wide; of the sums 4 bytes an element
//   and block through the cluster's network.
// Limits: sm_90a; a stride of each matrix 1, rows of the larger operand at multiples of 16 bytes;
//   K > 0; three_tf32's accuracy. Where both lie across K the smaller is copied.
// Long: what the warps do to a slice, that bring, make low parts and multiply, stands together.
#pragma once

#include "kernels/gemm/split_f32.hpp"
#include "warpsmith/tile/k_fragments.hpp"

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
  using Fragments = std::conditional_t<kA == Contiguous::kColumns, tile::KFragments<StageA>,
                                       tile::MnFragments<StageA>>;
  static constexpr int kSteps = Fragments::kSteps;
  static constexpr int kTileN = Base::kTileN;
  static constexpr int kSums = kTileN / 2;
  static_assert(Policy::kSharers == 1);

  struct SharedStorage : Base::SharedStorage {
    SharedArray<float, Policy::kStages * StageB::kElements, 1024> low;  // of B
    tile::Pipeline<Policy::kStages> lows;
  };
  static_assert(sizeof(SharedStorage) <= 227 * 1024 / Policy::kMinBlocks);

  __device__ __forceinline__ static void init(SharedStorage& shared) {
    Base::init(shared);
    shared.lows.init(1);
  }

  // A helper: the low parts of each kHelpers-th slice, wherever the swizzle has put the numbers.
  // Nobody reads those of the round before, or the stage would not be full. It waits for every
  // round of its stages: of two rounds later the barrier has the same parity.
  __device__ __forceinline__ static void help(SharedStorage& shared, int warp, int first,
                                              int last) {
    constexpr int kWidth = 4;
    constexpr int kVectors = StageB::kElements / kWidth / kWarpSize;  // of a lane
    constexpr int kAtOnce = kVectors < 8 ? kVectors : 8;
    static_assert(Policy::kStages % Policy::kHelpers == 0, "a stage is one helper's");
    Position at;
    at.advance(warp);
    for (int slice = first + warp; slice < last; slice += Policy::kHelpers) {
      shared.pipeline.wait(at);
#pragma unroll
      for (int i = 0; i < kVectors; i += kAtOnce) {
        const auto place = [&](int j) {
          return at.stage * StageB::kElements + ((i + j) * kWarpSize + lane_index()) * kWidth;
        };
        float whole[kAtOnce * kWidth];
        float low[kAtOnce * kWidth];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const auto vector = shared.b.template load<kWidth>(place(j));
#pragma unroll
          for (int e = 0; e < kWidth; ++e) whole[j * kWidth + e] = vector[e];
        }
        low_parts(whole, low);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          Vec<float, kWidth> vector;
#pragma unroll
          for (int e = 0; e < kWidth; ++e) vector[e] = low[j * kWidth + e];
          shared.low.template store<kWidth>(place(j), vector);
        }
      }
      ptx::fence_proxy_async();
      ptx::syncwarp();
      if (lane_index() == 0) shared.lows.fill(at.stage);
      at.advance(Policy::kHelpers);
    }
  }

  // A slice of A, as it is and what TF32 leaves of it.
  struct OfSlice {
    uint32_t whole[kSteps][4];
    uint32_t low[kSteps][4];
  };

  // A warpgroup, as in split_k. The next slice is brought under the products of this one.
  __device__ __forceinline__ static void multiply(float (&sum)[1][kSums], SharedStorage& shared,
                                                  const Arguments& /*g*/, const Place& place,
                                                  int consumer, int /*row*/, int /*column*/,
                                                  int first, int last) {
    const Fragments fragments(consumer);
    Position at;
    float products[kSums];
    const auto bring = [&](OfSlice& a) {
      shared.pipeline.wait(at);
      fragments.load(a.whole, shared.a.pointer(at.stage * StageA::kElements), 0);
      float whole[kSteps * 4];
      float low[kSteps * 4];
#pragma unroll
      for (int i = 0; i < kSteps * 4; ++i) whole[i] = std::bit_cast<float>(a.whole[i / 4][i % 4]);
      low_parts(whole, low);
#pragma unroll
      for (int i = 0; i < kSteps * 4; ++i) a.low[i / 4][i % 4] = std::bit_cast<uint32_t>(low[i]);
    };
    int slice = first;
    // Whether there is another slice.
    const auto multiply_slice = [&](OfSlice& a, OfSlice& next) {
      const uint64_t b = StageB::descriptor(shared.b.pointer(at.stage * StageB::kElements));
      const uint64_t b_low = StageB::descriptor(shared.low.pointer(at.stage * StageB::kElements));
      shared.lows.wait(at);
      const auto add = [&](uint32_t (&left)[kSteps][4], uint64_t right, bool is_first) {
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
          ptx::wgmma_m64k8<kTileN>(products, left[k], StageB::advance(right, 0, k * StageB::kStep),
                                   !is_first || k > 0);
        }
      };
      ptx::wgmma_pin(products);
#pragma unroll
      for (int k = 0; k < kSteps; ++k) ptx::wgmma_fence(a.whole[k], a.low[k]);
      // The least first: a sum is cut by as much as its size says.
      add(a.low, b, true);
      add(a.whole, b_low, false);
      add(a.whole, b, false);
      ptx::wgmma_commit_group();
      const int stage = at.stage;
      at.advance();
      const bool goes_on = ++slice < last;
      if (goes_on) bring(next);
      ptx::wgmma_wait_group<0>(products);
      Base::release(shared, place, stage);
#pragma unroll
      for (int j = 0; j < kSums; ++j) sum[0][j] += products[j];
      return goes_on;
    };
    OfSlice even;
    OfSlice odd;
    bring(even);
    while (multiply_slice(even, odd) && multiply_slice(odd, even)) {
    }
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
