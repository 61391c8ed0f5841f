// Idea: the tensor core adds up 128 of K, the warps the rest. Each sum of 128 products is
//   multiplied by its scales and added to an f32 sum in registers: that mends the tensor core's 14
//   bits, and is the very place for scales that differ along K (DeepSeek-V3, 2024).
// From wgmma: two sets of products beside the sums, so that those of the next slice are under way
//   while one is added. 3 x 64 registers are a tile of 128 x 128. Scales of blocks come to shared
//   memory beside the operands, brought by the warps that have nothing to copy.
// Traffic: 24 KB from L2 per 128 x 128 x 128 step of a block of a pair; scales of blocks once a
//   block.
// Limits: sm_90a; e4m3 and e5m2; K contiguous in both operands, rows at multiples of 16 bytes. All
//   scales, with or without use_fast_accum.
#pragma once

#include "kernels/scaled_gemm/policies.hpp"
#include "kernels/scaled_gemm/stage_scales.hpp"
#include "kernels/scaled_gemm/wgmma_parts.hpp"

namespace ws::scaled_gemm {

template <class A, class B, class Policy, class Output>
struct PromotedKernel : WgmmaKernel<A, B, Policy, Output> {
  using Base = WgmmaKernel<A, B, Policy, Output>;
  using typename Base::Arguments;
  using typename Base::Place;
  using typename Base::Position;
  using typename Base::StageA;
  using typename Base::StageB;
  using typename Base::Store;
  static constexpr int kTileM = Base::kTileM;
  static constexpr int kTileN = Base::kTileN;
  static constexpr bool kByBlocks = Base::kBeside;
  static constexpr int kSums = kTileN / 2;  // of a thread
  static constexpr int kTurn = 8;           // slices between which products are always under way
  static_assert(StageA::kRow == kBlock && Base::kRowBlocks == 1);
  static_assert(kTurn % 2 == 0);

  using Beside = StageScales<Base::kStages, kTileM, kTileN>;
  using Scales = typename Beside::Scales;
  struct BlocksStorage : Base::SharedStorage {
    Beside beside;
  };
  using SharedStorage = std::conditional_t<kByBlocks, BlocksStorage, typename Base::SharedStorage>;
  static_assert(sizeof(SharedStorage) <= 227 * 1024, "shared memory of a block");

  __device__ __forceinline__ static void bring(SharedStorage& shared, const Arguments& g, int warp,
                                               int warps) {
    Beside::template bring<Base>(shared.beside, shared.pipeline, g, warp, warps);
  }

  __device__ __forceinline__ static void add(float (&sum)[kSums], const float (&products)[kSums],
                                             const Scales& scales) {
#pragma unroll
    for (int half = 0; half < Beside::kHalves; ++half) {
      const float of_row[2] = {scales.rows[0] * scales.halves[half],
                               scales.rows[1] * scales.halves[half]};
#pragma unroll
      for (int j = half * 32; j < half * 32 + 32; ++j) {
        sum[j] += kByBlocks ? products[j] * of_row[j / 2 % 2] : products[j];
      }
    }
  }

  // A warpgroup: multiplies its rows of every tile, adds up and stores them. The compiler follows
  // products under way through straight code alone: each turn of kTurn slices waits for its last.
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& g,
                                                 int warp) {
    const int consumer = warp / 4;
    const int row = consumer * 64 + warp % 4 * 16 + lane_index() / 4;
    Position at;
    Store store{shared.c.pointer(warp * Store::kElements)};
    Base::for_each_part(g, [&](const Place& place, const auto& part) {
      const auto held = Base::hold(g, place, consumer, warp);
      float sum[1][kSums] = {};
      float even[kSums];
      float odd[kSums];
      // Issues the products of the next slice; where it lies.
      const auto multiply = [&](float (&products)[kSums]) {
        const int stage = at.stage;
        const uint64_t a = StageA::descriptor(shared.a.pointer(stage * StageA::kElements));
        const uint64_t b = StageB::descriptor(shared.b.pointer(stage * StageB::kElements));
        shared.pipeline.wait(at);
        multiply_slice<StageA, StageB>(products, a, b, consumer);
        at.advance();
        return stage;
      };
      int stage = 0;  // of what is added next, while kUnderWay later sets are under way
      const auto finish = [&]<int kUnderWay>(float (&products)[kSums]) {
        Scales scales{};
        if constexpr (kByBlocks) scales = shared.beside.scales_of(stage, row);
        ptx::wgmma_wait_group<kUnderWay>(products);
        Base::release(shared, stage);
        add(sum[0], products, scales);
      };
      const auto multiply_and_add = [&](float (&next)[kSums], float (&products)[kSums]) {
        const int next_stage = multiply(next);
        finish.template operator()<1>(products);
        stage = next_stage;
      };
      const auto add_last = [&](float (&products)[kSums]) {
        finish.template operator()<0>(products);
      };
      // Whole turns, then pairs, then the last.
      int left = part.last - part.first;
      for (; left >= kTurn; left -= kTurn) {
        stage = multiply(even);
#pragma unroll
        for (int i = 2; i < kTurn; i += 2) {
          multiply_and_add(odd, even);
          multiply_and_add(even, odd);
        }
        multiply_and_add(odd, even);
        add_last(odd);
      }
      for (; left >= 2; left -= 2) {
        stage = multiply(even);
        multiply_and_add(odd, even);
        add_last(odd);
      }
      if (left > 0) {
        stage = multiply(even);
        add_last(even);
      }
      Base::put_rows(store, g, place, part, held, sum, consumer, warp);
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
