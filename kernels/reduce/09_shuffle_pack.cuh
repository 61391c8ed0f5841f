// Idea: 16 bytes a load: a quarter of the instructions, four times the bytes in flight.
// From shuffle: float4 loads.
// Traffic: every element once, 16 bytes a thread and load.
// Limits: tensors that start at a multiple of 16 bytes.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/in_launches.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::reduce {

struct ShufflePackKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int64_t kPerBlock = 4 * kThreads;
  static constexpr int64_t kMostBlocks = 1024;
  using Arguments = SumArguments;
  struct SharedStorage {
    SharedArray<float, kWarps> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int t = thread_index();
    float sum = 0;
    const int64_t packs = a.count / 4;
    for (int64_t i = block_index() * kThreads + t; i < packs; i += grid_blocks() * kThreads) {
      const Vec<float, 4> x = thread::load<4>(a.x + 4 * i);
      sum += (x[0] + x[1]) + (x[2] + x[3]);
    }
    // Up to three elements are in no pack.
    const int64_t rest = 4 * packs + t;
    if (block_index() == 0 && rest < a.count) sum += thread::load(a.x + rest);
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
      sum += warp::shuffle_down(sum, distance);
    }
    if (lane_index() == 0) shared.sums[warp_index()] = sum;
    ptx::barrier_sync();
    if (t < kWarpSize) {
      sum = t < kWarps ? shared.sums[t] : 0.0F;
      for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
        sum += warp::shuffle_down(sum, distance);
      }
      if (t == 0) thread::store(a.sums + block_index(), sum);
    }
  }
};

struct ShufflePack : SumInLaunches<ShufflePackKernel> {
  static bool supports(const Sum::Call& call, Why& why) {
    return SumInLaunches::supports(call, why) &&
           why.unless(reinterpret_cast<uintptr_t>(call.inputs[0]) % 16 == 0,
                      "takes tensors that start at a multiple of 16 bytes");
  }
};

inline constexpr Seed kShufflePackSeeds[] = {
    {.name = "reduce_v8_shfl_down_pack", .operation = "sum"}};
inline constexpr Rung kShufflePack = rung_of<ShufflePack, kF32, Sum>({.name = "shuffle_pack",
                                                                      .from = "shuffle",
                                                                      .idea = "16 bytes a load",
                                                                      .seeds = kShufflePackSeeds});

}  // namespace ws::reduce
