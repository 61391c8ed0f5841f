// A ring of shared-memory stages between threads that fill them and threads that use them.
//
// Two mbarriers guard a stage: `full` completes when its data has landed, `empty` when all its
// users have let go of it. Both sides walk the ring in the same order with a PipelinePosition of
// their own.
#pragma once

#include "warpsmith/ptx/mbarrier.hpp"

namespace ws::tile {

// A place in the ring, and the parity of the round: 0 in the first, then 1, 0, ...
template <int kStages>
struct PipelinePosition {
  int stage = 0;
  uint32_t parity = 0;

  __host__ __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  // Past `stages` of them, which others use.
  __host__ __device__ __forceinline__ void advance(int stages) {
    const int to = stage + stages;
    stage = to % kStages;
    parity ^= static_cast<uint32_t>(to / kStages) & 1;
  }
};

template <int kStages>
struct Pipeline {
  using Position = PipelinePosition<kStages>;

  // By one thread of the block; then fence_mbarrier_init() and a barrier of all who take part. A
  // stage is full after an arrival of each of its `fillers` and the bytes that they announce, and
  // empty after `users` arrivals.
  __device__ __forceinline__ void init(uint32_t users, uint32_t fillers = 1) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(full[stage], fillers);
      ptx::mbarrier_init(empty[stage], users);
    }
  }

  // The filling side, one thread: waits until the stage is free, announces `bytes` of copies that
  // will complete on the barrier returned.
  template <ptx::Scope kScope = ptx::Scope::kCta>
  __device__ __forceinline__ ptx::Mbarrier& acquire(const Position& at,
                                                    uint32_t bytes WS_AND_PLACE) {
    // Before the first round all stages are free: that is the phase of parity 1.
    ptx::mbarrier_wait_parity<kScope>(empty[at.stage], at.parity ^ 1 WS_PASS_AND_PLACE);
    ptx::mbarrier_arrive_expect_tx(full[at.stage], bytes WS_PASS_AND_PLACE);
    return full[at.stage];
  }

  // The same where threads write into the stage themselves: they wait until it is free; then one of
  // each filler's says that it is full.
  __device__ __forceinline__ void wait_free(const Position& at WS_AND_PLACE) {
    ptx::mbarrier_wait_parity(empty[at.stage], at.parity ^ 1 WS_PASS_AND_PLACE);
  }
  __device__ __forceinline__ void fill(int stage WS_AND_PLACE) {
    ptx::mbarrier_arrive(full[stage] WS_PASS_AND_PLACE);
  }

  // The using side: all threads wait for the data, one of each group of users lets go.
  __device__ __forceinline__ void wait(const Position& at WS_AND_PLACE) {
    ptx::mbarrier_wait_parity(full[at.stage], at.parity WS_PASS_AND_PLACE);
  }
  __device__ __forceinline__ void release(int stage WS_AND_PLACE) {
    ptx::mbarrier_arrive(empty[stage] WS_PASS_AND_PLACE);
  }
  // ... to block `rank` of the cluster, whose copies also land in this block's stages. Where the
  // users have only read, there is nothing that the other block should see, and no fence goes with
  // it; where they wrote into the stage, it is kCluster, and that of acquire().
  template <ptx::Scope kScope = ptx::Scope::kCta>
  __device__ __forceinline__ void release(int stage, int rank WS_AND_PLACE) {
    ptx::mbarrier_arrive_cluster<kScope>(empty[stage], rank WS_PASS_AND_PLACE);
  }

  ptx::Mbarrier full[kStages];
  ptx::Mbarrier empty[kStages];
};

}  // namespace ws::tile
