// Idea: a warpgroup has a tile to itself, and the two take turns at the tensor cores ("pingpong"):
//   while one stores its tile, the other multiplies the next.
// From warp_specialized: there both end a tile together, and no product is in flight until both
//   have put it into shared memory; here the next tile's are queued behind this one's last.
// Traffic: a tile has as many sums a thread, so half as many in all: 128 x 128 reads 24 KB from L2
//   for 512 cycles of products (cluster of two), where 128 x 256 reads 32 for 1024.
// Limits: as warp_specialized.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"

namespace ws::gemm {

// Producer, stages and stores are warp_specialized's. The block's tiles go to its warpgroups in
// turns; stages are filled in the order of the tiles, and each has one user a block.
template <class T, Contiguous kA, Contiguous kB, class Policy, class Output = OutputOf<T, Policy>,
          class Work = WholeTiles, class TB = T>
struct PingpongKernel : WarpSpecializedKernel<T, kA, kB, Policy, Work, Output, TB> {
  using Base = WarpSpecializedKernel<T, kA, kB, Policy, Work, Output, TB>;
  using typename Base::Arguments;
  using typename Base::Place;
  using typename Base::Position;
  using typename Base::SharedStorage;
  using typename Base::StageA;
  using typename Base::StageB;
  using typename Base::Store;
  static_assert(Policy::kUsers == 1 && Policy::kConsumers == 2);

  // A warpgroup: every other tile of its block. Products of a tile begin when all of the tile
  // before have been issued: barrier 1 + w is where warpgroup w waits for that and the other one
  // arrives. So a stage that it waits for was full in the round before, and parities tell.
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& g,
                                                 int warp) {
    constexpr int kBoth = 256;
    const int self = warp / 4;
    const int steps = g.work.steps;
    const auto clusters = static_cast<int>(grid_blocks()) / Policy::kCluster;
    const auto cluster = static_cast<int>(block_index()) / Policy::kCluster;
    Position at;
    at.advance(self * steps);
    Store store{shared.c.pointer(warp * Store::kElements)};
    ptx::WgmmaSum<T> sum[Policy::kRowBlocks][Policy::kTileN / 2] = {};
    const auto multiply_and_store = [&](const Place& place, const auto& part) {
      const auto held = Base::hold(g, place, 0, warp);
      const int tile = Work::place_of(part);
      if (tile >= clusters) ptx::barrier_sync(1 + self, kBoth);  // the block's first waits not
      multiply_stages<StageA, StageB>(
          sum, shared.a.pointer(), shared.b.pointer(), shared.pipeline, at, steps, 0,
          [&](int stage) { Base::release(shared, stage); }, AsTheyLand{},
          [&] {
            if (tile + clusters < g.work.tiles) ptx::barrier_arrive(2 - self, kBoth);
          });
      at.advance(steps);  // the other's
      Base::put_rows(store, g, place, part, held, sum, 0, warp);
    };
    Base::for_each_part(g, cluster + self * clusters, 2 * clusters, multiply_and_store);
    store.finish();
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    Base::template play_roles<PingpongKernel>(shared, g);
  }

  static void run(const Call& call, int max_blocks, Stream stream) {
    Base::template run<PingpongKernel>(call, max_blocks, stream);
  }
  template <class Kernel = PingpongKernel>
  static void start(const Arguments& arguments, int clusters, Stream stream) {
    Base::template start<Kernel>(arguments, clusters, stream);
  }
};

// A policy's kernel of the two.
template <class T, Contiguous kA, Contiguous kB, class Policy, class Output = OutputOf<T, Policy>>
using KernelOf = std::conditional_t<Policy::kUsers == 1, PingpongKernel<T, kA, kB, Policy, Output>,
                                    WarpSpecializedKernel<T, kA, kB, Policy, WholeTiles, Output>>;

// By the plan.
template <class T>
void run_pingpong(const Call& call, Stream stream) {
  const int blocks = device_facts().multiprocessors;
  with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
    PingpongPolicies::with(plan_pingpong(call).policy, [&]<class Policy>() {
      if constexpr (Policy::takes(kB)) {
        PingpongKernel<T, kA, kB, Policy>::run(call, blocks, stream);
      }
    });
  });
}
// Many kernels: 45_pingpong.cu and pingpong_bf16.cu have them.
extern template void run_pingpong<half>(const Call&, Stream);
extern template void run_pingpong<bf16>(const Call&, Stream);

struct Pingpong {
  static bool supports(const Call& call, Why& why) { return WarpSpecialized::supports(call, why); }
  static void run(const Call& call, const Context& context) {
    call.dtype == DType::kF16 ? run_pingpong<half>(call, context.stream)
                              : run_pingpong<bf16>(call, context.stream);
  }
};

}  // namespace ws::gemm
