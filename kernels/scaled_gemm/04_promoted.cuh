// Idea: the tensor core adds up 128 of K, the warps the rest. Each sum of 128 products is
//   multiplied by its scales and added to an f32 sum in registers: that mends the tensor core's 14
//   bits, and is the very place for scales that differ along K (DeepSeek-V3, 2024).
// From wgmma: two sets of accumulators. While one warpgroup adds, the other's products keep the
//   tensor core busy; for 128 x 256 a thread would have 256 of them, so tiles are 256 x 128, of
//   which a warpgroup multiplies 64 rows at a time.
// Traffic: wgmma's; scales of blocks are read by each thread for its own rows, from L1.
// Limits: sm_90a; e4m3 and e5m2; K contiguous in both operands, rows at multiples of 16 bytes. All
//   scales, with or without use_fast_accum.
#pragma once

#include "kernels/scaled_gemm/policies.hpp"
#include "kernels/scaled_gemm/wgmma_parts.hpp"

namespace ws::scaled_gemm {

template <class A, class B, class Policy>
struct PromotedKernel : WgmmaKernel<A, B, Policy, PromotedOutput> {
  using Base = WgmmaKernel<A, B, Policy, PromotedOutput>;
  using typename Base::Arguments;
  using typename Base::Place;
  using typename Base::Position;
  using typename Base::SharedStorage;
  using typename Base::StageA;
  using typename Base::StageB;
  using typename Base::Store;
  static constexpr int kTileN = Base::kTileN;
  static constexpr int kRowBlocks = Base::kRowBlocks;
  static constexpr int kSums = kTileN / 2;  // of a row block, of a thread
  static_assert(StageA::kRow == kBlock && kTileN == kBlock, "a stage has one scale of B's columns");

  // The scales of a thread's sums over one slice of K: of its rows, two in each block of 64, and of
  // either half of the tile's columns, which need not begin at a multiple of 128 at C's edge.
  struct Scales {
    float rows[kRowBlocks][2];
    float columns[2];
  };
  __device__ __forceinline__ static Scales scales_of(const Arguments& g, const Place& place,
                                                     int first_row, int slice) {
    Scales scales{};
    const BlockScales& from = g.c.blocks;
    if (from.a == nullptr) return scales;
#pragma unroll
    for (int i = 0; i < kRowBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = place.from_row + first_row + i * 64 + j * 8;
        scales.rows[i][j] =
            thread::load(from.a + (row < g.m ? row : g.m - 1) * from.a_row + slice * from.a_block);
      }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int column = place.from_column + j * 64;
      const int block = (column < g.n ? column : g.n - 1) / static_cast<int>(kBlock);
      scales.columns[j] = thread::load(from.b + slice * from.b_block + block * from.b_column);
    }
    return scales;
  }

  // A warpgroup: multiplies its rows of every tile, adds up and stores them.
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& g,
                                                 int warp) {
    const int consumer = warp / 4;
    const int first_row = consumer * kRowBlocks * 64 + warp % 4 * 16 + lane_index() / 4;
    const bool by_blocks = g.c.blocks.a != nullptr;
    Position at;
    Store store{shared.c.pointer(warp * Store::kElements)};
    Base::for_each_part(g, [&](const Place& place, const auto& part) {
      float sum[kRowBlocks][kSums] = {};
      float products[kSums];
      Scales scales = scales_of(g, place, first_row, part.first);
      for (int slice = part.first; slice < part.last; ++slice) {
        // Read a slice ahead: from L2 they take longer than a slice's first products.
        const Scales next =
            scales_of(g, place, first_row, slice + 1 < part.last ? slice + 1 : slice);
        const uint64_t a = StageA::descriptor(shared.a.pointer(at.stage * StageA::kElements));
        const uint64_t b = StageB::descriptor(shared.b.pointer(at.stage * StageB::kElements));
        shared.pipeline.wait(at);
#pragma unroll
        for (int i = 0; i < kRowBlocks; ++i) {
          ptx::wgmma_pin(products);
          ptx::wgmma_fence();
#pragma unroll
          for (int k = 0; k < StageA::kRow; k += StageA::kStep) {
            ptx::wgmma_m64k32<kTileN, A, B>(products,
                                            StageA::advance(a, consumer * kRowBlocks + i, k),
                                            StageB::advance(b, 0, k), k > 0);
          }
          ptx::wgmma_commit_group();
          ptx::wgmma_wait_group<0>(products);
          if (i == kRowBlocks - 1) Base::release(shared, at.stage);
          if (by_blocks) {
#pragma unroll
            for (int j = 0; j < kSums; ++j) {
              sum[i][j] +=
                  products[j] * (scales.rows[i][j / 2 % 2] * scales.columns[j / (kSums / 2)]);
            }
          } else {
#pragma unroll
            for (int j = 0; j < kSums; ++j) sum[i][j] += products[j];
          }
        }
        scales = next;
        at.advance();
      }
      Base::put_rows(store, g, place, part, 0, sum, consumer * kRowBlocks, warp);
    });
    store.finish();
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    Base::template play_roles<PromotedKernel>(shared, g);
  }
};

struct Promoted {
  static bool supports(const Call& call, Why& why) { return is_k_major(call, why); }

  // In a unit of its own: `realigned` calls it too.
  static void run(const Call& call, const Context& context);
};

}  // namespace ws::scaled_gemm
