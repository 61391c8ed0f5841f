// Idea: the lanes of a warp share an instruction; where a branch divides them, the warp goes
// through
//   both sides one after the other, half of its lanes idle.
// From by_lane to by_warp: a warp takes 32 even elements, its neighbour the 32 odd ones between.
// From by_lane to both_paths: no branch: every lane computes both, and keeps one.
// From both_paths to one_path: the sides differ in a sign, which is data: one is computed.
// Traffic: every element once; by_warp half of each sector at a time.
// Limits: polynomials are long, so that instructions are what takes the time.
#pragma once

#include "kernels/lessons/launch_each.hpp"

namespace ws::lessons {

// 1 + x + ... + x^degree, and the same of -x.
__device__ __forceinline__ float power_sum(float x, int degree) {
  float sum = 1;
#pragma unroll 8
  for (int k = 0; k < degree; ++k) sum = thread::fma(sum, x, 1.0F);
  return sum;
}
__device__ __forceinline__ float alternating_power_sum(float x, int degree) {
  float sum = 1;
#pragma unroll 8
  for (int k = 0; k < degree; ++k) sum = thread::fma(-sum, x, 1.0F);
  return sum;
}

struct ByLaneKernel {
  static constexpr int kThreads = 256;
  static constexpr int kPerBlock = kThreads;
  using Arguments = Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.count) return;
    const float x = thread::load(a.x + i);
    if (i % 2 == 0) {
      thread::store(a.y + i, power_sum(x, a.rounds));
    } else {
      thread::store(a.y + i, alternating_power_sum(x, a.rounds));
    }
  }
};

struct ByWarpKernel {
  static constexpr int kThreads = 256;
  static constexpr int kPerBlock = kThreads;
  using Arguments = Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int odd = warp_index() % 2;
    const int64_t i =
        block_index() * kThreads + warp_index() / 2 * (2 * kWarpSize) + 2 * lane_index() + odd;
    if (i >= a.count) return;
    const float x = thread::load(a.x + i);
    if (odd == 0) {
      thread::store(a.y + i, power_sum(x, a.rounds));
    } else {
      thread::store(a.y + i, alternating_power_sum(x, a.rounds));
    }
  }
};

struct BothPathsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kPerBlock = kThreads;
  using Arguments = Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.count) return;
    const float x = thread::load(a.x + i);
    const float even = power_sum(x, a.rounds);
    const float odd = alternating_power_sum(x, a.rounds);
    thread::store(a.y + i, i % 2 == 0 ? even : odd);
  }
};

struct OnePathKernel {
  static constexpr int kThreads = 256;
  static constexpr int kPerBlock = kThreads;
  using Arguments = Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.count) return;
    const float x = thread::load(a.x + i);
    thread::store(a.y + i, power_sum(i % 2 == 0 ? x : -x, a.rounds));
  }
};

inline constexpr Rung kByLane = rung_of<LaunchEach<ByLaneKernel>, WarpDivergence>({
    .name = "by_lane",
    .idea = "neighbouring lanes take different branches: the warp takes both",
    .file = "03_warp_divergence.cuh",
});
inline constexpr Rung kByWarp = rung_of<LaunchEach<ByWarpKernel>, WarpDivergence>({
    .name = "by_warp",
    .from = "by_lane",
    .idea = "elements are dealt out so that all lanes of a warp take the same branch",
    .file = "03_warp_divergence.cuh",
});
inline constexpr Rung kBothPaths = rung_of<LaunchEach<BothPathsKernel>, WarpDivergence>({
    .name = "both_paths",
    .from = "by_lane",
    .idea = "no branch: both are computed, one is kept",
    .file = "03_warp_divergence.cuh",
});
inline constexpr Rung kOnePath = rung_of<LaunchEach<OnePathKernel>, WarpDivergence>({
    .name = "one_path",
    .from = "both_paths",
    .idea = "the difference becomes data: a sign is chosen, one polynomial computed",
    .file = "03_warp_divergence.cuh",
});

}  // namespace ws::lessons
