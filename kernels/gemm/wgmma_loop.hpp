// The products of a warpgroup over slices of K that lie in a ring of stages.
#pragma once

#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/tile/mn_fragments.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::gemm {

// Before the first copies of a block alone: the warp that made the stages' barriers waits for
// nobody, and its copies are under way while the others arrive. They meet at barrier `id`, which
// the kernel uses for nothing else: this warp may be at its end before they are here.
__device__ __forceinline__ void meet_maker(bool made, int id, int threads) {
  if (made) {
    ptx::syncwarp();
    ptx::barrier_arrive(id, threads);
  } else {
    ptx::barrier_sync(id, threads);
  }
}

// Stages are multiplied as they land.
struct AsTheyLand {
  __device__ __forceinline__ void operator()(int /*block*/, int /*stage*/) const {}
};
// Nobody waits for the tensor cores.
struct NobodyWaits {
  __device__ __forceinline__ void operator()() const {}
};

// For the products on these sums.
template <class Sum, int kRowBlocks, int kSums>
__device__ __forceinline__ void wait_for_all(Sum (&sum)[kRowBlocks][kSums]) {
  if constexpr (kRowBlocks == 1) {
    ptx::wgmma_wait_group<0>(sum[0]);
  } else if constexpr (kRowBlocks == 2) {
    ptx::wgmma_wait_group<0>(sum[0], sum[1]);
  } else {
    static_assert(kRowBlocks == 3);
    ptx::wgmma_wait_group<0>(sum[0], sum[1], sum[2]);
  }
}

// sum = A's rows times B's columns over `blocks` slices of K, from `at` on in the ring; A's rows
// begin at the 64-row panel `panel`. release(stage) gives a stage back, by all threads. One group
// of products stays in flight, so a stage goes back when those after it have been issued.
// prepare(block, stage) may change what has landed, before slice `block` is multiplied; issued() is
// called once, when all slices are and the last may still be in flight.
template <class StageA, class StageB, class Sum, int kStages, int kRowBlocks, int kSums,
          class Release, class Prepare = AsTheyLand, class Issued = NobodyWaits>
  requires(!tile::kAcrossK<StageA>)
__device__ __forceinline__ void multiply_stages(
    Sum (&sum)[kRowBlocks][kSums], const typename StageA::Element* stages_a,
    const typename StageB::Element* stages_b, tile::Pipeline<kStages>& pipeline,
    tile::PipelinePosition<kStages>& at, int blocks, int panel, Release&& release,
    const Prepare& prepare = {}, const Issued& issued = {}) {
  using A = typename StageA::Element;
  using B = typename StageB::Element;
  constexpr int kTileN = kSums * 2;
  // Whatever was done to the sums was done before the first product's fence.
#pragma unroll
  for (int i = 0; i < kRowBlocks; ++i) ptx::wgmma_pin(sum[i]);
  int previous = 0;
  int block = 0;
  do {
    const uint64_t a = StageA::descriptor(stages_a + at.stage * StageA::kElements);
    const uint64_t b = StageB::descriptor(stages_b + at.stage * StageB::kElements);
    pipeline.wait(at);
    prepare(block, at.stage);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < StageA::kRow; k += StageA::kStep) {
#pragma unroll
      for (int i = 0; i < kRowBlocks; ++i) {
        // The first product overwrites what was there.
        ptx::wgmma_32_bytes<kTileN, A, B, StageA::kMajor, StageB::kMajor>(
            sum[i], StageA::advance(a, panel + i, k), StageB::advance(b, 0, k), block > 0 || k > 0);
      }
    }
    ptx::wgmma_commit_group();
    // These products stay in flight; those before them are done with their stage.
    ptx::wgmma_wait_group<1>();
    if (block > 0) release(previous);
    previous = at.stage;
    at.advance();
  } while (++block < blocks);
  issued();
  wait_for_all(sum);
  release(previous);
}

// The same of f32 where A lies across K: lanes bring it in registers, those of a slice while the
// products of the one before it are under way. Every warp reads A's stage, and gives it back.
template <class StageA, class StageB, int kStages, int kRowBlocks, int kSums, class Release,
          class Issued = NobodyWaits>
  requires(tile::kAcrossK<StageA>)
__device__ __forceinline__ void multiply_stages(
    float (&sum)[kRowBlocks][kSums], const float* stages_a, const float* stages_b,
    tile::Pipeline<kStages>& pipeline, tile::PipelinePosition<kStages>& at, int blocks, int panel,
    Release&& release, const AsTheyLand& /*prepare*/ = {}, const Issued& issued = {}) {
  using Fragments = tile::MnFragments<StageA>;
  const Fragments fragments(panel);
#pragma unroll
  for (int i = 0; i < kRowBlocks; ++i) ptx::wgmma_pin(sum[i]);
  int previous = 0;
  int block = 0;
  // Whether there is another slice.
  const auto multiply = [&](uint32_t (&a)[kRowBlocks][Fragments::kSteps][4]) {
    const uint64_t b = StageB::descriptor(stages_b + at.stage * StageB::kElements);
    pipeline.wait(at);
#pragma unroll
    for (int i = 0; i < kRowBlocks; ++i) {
      fragments.load(a[i], stages_a + at.stage * StageA::kElements, i);
      ptx::wgmma_fence(a[i][0], a[i][1], a[i][2], a[i][3]);
    }
#pragma unroll
    for (int k = 0; k < Fragments::kSteps; ++k) {
#pragma unroll
      for (int i = 0; i < kRowBlocks; ++i) {
        ptx::wgmma_m64k8<kSums * 2>(sum[i], a[i][k], StageB::advance(b, 0, k * StageB::kStep),
                                    block > 0 || k > 0);
      }
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    if (block > 0) release(previous);
    previous = at.stage;
    at.advance();
    return ++block < blocks;
  };
  // Registers of a slice are read until the products of the next one have been issued.
  uint32_t even[kRowBlocks][Fragments::kSteps][4];
  uint32_t odd[kRowBlocks][Fragments::kSteps][4];
  while (multiply(even) && multiply(odd)) {
  }
  issued();
  wait_for_all(sum);
  release(previous);
}

}  // namespace ws::gemm
