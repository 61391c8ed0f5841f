// f32 by three products of TF32 whose low parts are made on the way: lanes bring A in registers and
// know what TF32 leaves of it; B's low parts other warps write beside it in shared memory.
#pragma once

#include <bit>
#include <type_traits>

#include "kernels/gemm/k_major.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/thread/tf32.hpp"
#include "warpsmith/tile/k_fragments.hpp"
#include "warpsmith/tile/mn_fragments.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::gemm {

// How lanes bring a tile of A.
template <class StageA>
using FragmentsOf =
    std::conditional_t<StageA::kKMajor, tile::KFragments<StageA>, tile::MnFragments<StageA>>;

#if WS_DEVICE_CODE
// One of kHelpers warps: its share of the low parts of `slices` stages of B, wherever the swizzle
// has put the numbers; each says that its share is there. Nobody reads those of the round before,
// or the stage would not be full.
template <class StageB, int kHelpers, int kStages, class Ring>
__device__ __forceinline__ void make_low_parts(Ring& b, Ring& low,
                                               tile::Pipeline<kStages>& pipeline,
                                               tile::Pipeline<kStages>& lows,
                                               tile::PipelinePosition<kStages>& at, int helper,
                                               int slices) {
  constexpr int kWidth = 4;
  constexpr int kVectors = StageB::kElements / kWidth / kWarpSize;  // of a lane of each helper
  for (int slice = 0; slice < slices; ++slice) {
    pipeline.wait(at);
    const auto each = [&](const auto& low_of) {
#pragma unroll
      for (int i = 0; i < kVectors; i += kHelpers) {
        if (i + kHelpers > kVectors && i + helper >= kVectors) break;
        const int place =
            at.stage * StageB::kElements + ((i + helper) * kWarpSize + lane_index()) * kWidth;
        auto vector = b.template load<kWidth>(place);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) vector[e] = low_of(vector[e]);
        low.template store<kWidth>(place, vector);
      }
    };
    float strange = 0;
    each([&](float x) { return thread::low_part_unless_strange(x, strange); });
    if (strange != 0) each([](float x) { return thread::low_part(x); });
    ptx::fence_proxy_async();
    ptx::syncwarp();
    if (lane_index() == 0) lows.fill(at.stage);
    at.advance();
  }
}

// A warpgroup: adds to `sum` the products of `slices` slices of K, at least one, from `at` on in
// the ring; release(stage) gives a stage back, by all threads. The next slice of A is brought under
// the products of this one. Sums over a slice are added up outside of the tensor cores, which cut
// what they add.
template <class StageB, class Fragments, int kStages, int kSums, class Release>
__device__ __forceinline__ void multiply_with_low_parts(
    float (&sum)[kSums], const Fragments& fragments, const float* stages_a, const float* stages_b,
    const float* stages_low, tile::Pipeline<kStages>& pipeline, tile::Pipeline<kStages>& lows,
    tile::PipelinePosition<kStages>& at, int slices, Release&& release) {
  constexpr int kSteps = Fragments::kSteps;
  // A slice of A, as it is and what TF32 leaves of it.
  struct OfSlice {
    uint32_t whole[kSteps][4];
    uint32_t low[kSteps][4];
  };
  float products[kSums];
  const auto bring = [&](OfSlice& a) {
    pipeline.wait(at);
    fragments.load(a.whole, stages_a + at.stage * Fragments::Stage::kElements, 0);
    float whole[kSteps * 4];
    float low[kSteps * 4];
#pragma unroll
    for (int i = 0; i < kSteps * 4; ++i) whole[i] = std::bit_cast<float>(a.whole[i / 4][i % 4]);
    thread::low_parts(whole, low);
#pragma unroll
    for (int i = 0; i < kSteps * 4; ++i) a.low[i / 4][i % 4] = std::bit_cast<uint32_t>(low[i]);
  };
  int slice = 0;
  // Whether there is another slice.
  const auto multiply = [&](OfSlice& a, OfSlice& next) {
    const uint64_t b = StageB::descriptor(stages_b + at.stage * StageB::kElements);
    const uint64_t b_low = StageB::descriptor(stages_low + at.stage * StageB::kElements);
    lows.wait(at);
    const auto add = [&](uint32_t (&left)[kSteps][4], uint64_t right, bool is_first) {
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        ptx::wgmma_m64k8<kSums * 2>(products, left[k], StageB::advance(right, 0, k * StageB::kStep),
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
    const bool goes_on = ++slice < slices;
    if (goes_on) bring(next);
    ptx::wgmma_wait_group<0>(products);
    release(stage);
#pragma unroll
    for (int j = 0; j < kSums; ++j) sum[j] += products[j];
    return goes_on;
  };
  OfSlice even;
  OfSlice odd;
  bring(even);
  while (multiply(even, odd) && multiply(odd, even)) {
  }
}
#endif

}  // namespace ws::gemm
