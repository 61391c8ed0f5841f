// Idea: K is divided among the blocks of a cluster, which add up in shared memory: gemm's split_k.
//   Few rows of A are the narrow side of turned tiles, so that the weights are read once, at the
//   rate of memory.
// From promoted: its tiles are 128 rows high, mostly empty where there are few, and too few for all
//   SMs: 64 x 8192 x 8192 is 64 tiles.
// Traffic: A and B once from memory where A has up to 128 rows; of the sums 4 bytes an element and
//   block through the cluster's network.
// Limits: sm_90a; K contiguous in both operands, rows at multiples of 16 bytes; C row by row, its
//   rows anywhere.
#pragma once

#include "kernels/gemm/36_split_k.cuh"
#include "kernels/scaled_gemm/policies.hpp"
#include "kernels/scaled_gemm/wgmma_parts.hpp"

namespace ws::scaled_gemm {

template <class A, class B, class Policy, class Output>
using SplitKernel =
    gemm::SplitKKernel<A, Contiguous::kColumns, Contiguous::kRows, Policy, Output, B>;

// Sums of 128 of K, scaled and added up in registers as `promoted` does. A's rows are columns of
// turned tiles.
template <class A, class B, class Policy>
struct SplitPromotedKernel : SplitKernel<A, B, Policy, ScaledLines> {
  using Base = SplitKernel<A, B, Policy, ScaledLines>;
  using typename Base::Arguments;
  using typename Base::Place;
  using typename Base::Position;
  using typename Base::SharedStorage;
  using typename Base::StageA;
  using typename Base::StageB;
  static constexpr int kTileN = Base::kTileN;
  static constexpr int kSums = kTileN / 2;
  static_assert(Policy::kTurned && StageA::kRow == kBlock);

  // The scales of a slice: of the thread's two rows, which are C's columns, and of the lane's of
  // each 32 columns.
  static constexpr int kEach = divide_up(kTileN, kWarpSize);
  struct Scales {
    float rows[2];
    float columns[kEach];
  };
  __device__ __forceinline__ static Scales scales_of(const Arguments& g, int row, int column,
                                                     int slice) {
    Scales scales;
    const BlockScales& from = g.c.blocks;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = row + i * 8;
      const int block = (at < g.length ? at : g.length - 1) / static_cast<int>(kBlock);
      scales.rows[i] = thread::load(from.b + slice * from.b_block + block * from.b_column);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = column + i * kWarpSize + lane_index();
      scales.columns[i] = thread::load(from.a + (at < g.lines ? at : g.lines - 1) * from.a_row +
                                       slice * from.a_block);
    }
    return scales;
  }

  __device__ __forceinline__ static void multiply(float (&sum)[1][kSums], SharedStorage& shared,
                                                  const Arguments& g, const Place& place,
                                                  int consumer, int row, int column, int first,
                                                  int last) {
    row += consumer * 64 + warp_index() % 4 * 16 + lane_index() / 4;
    const bool by_blocks = g.c.blocks.a != nullptr;
    float products[kSums];
    Position at;
    Scales scales{};
    if (by_blocks) scales = scales_of(g, row, column, first);
    for (int slice = first; slice < last; ++slice) {
      // Asked for a slice ahead: from L2 they take longer than a slice.
      Scales next = scales;
      if (by_blocks) next = scales_of(g, row, column, slice + 1 < last ? slice + 1 : slice);
      const uint64_t a = StageA::descriptor(shared.a.pointer(at.stage * StageA::kElements));
      const uint64_t b = StageB::descriptor(shared.b.pointer(at.stage * StageB::kElements));
      shared.pipeline.wait(at);
      multiply_slice<StageA, StageB>(products, a, b, consumer);
      ptx::wgmma_wait_group<0>(products);
      Base::release(shared, place, at.stage);
      at.advance();
      if (by_blocks) {
#pragma unroll
        for (int j = 0; j < kSums; j += 4) {  // a pair of a row, a pair of that 8 below it
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int of = j * 2 + lane_index() % 4 * 2 + i;
            const float factor = warp::shuffle(scales.columns[j / 16], of % kWarpSize);
            sum[0][j + i] += products[j + i] * (scales.rows[0] * factor);
            sum[0][j + i + 2] += products[j + i + 2] * (scales.rows[1] * factor);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < kSums; ++j) sum[0][j] += products[j];
      }
      scales = next;
    }
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    Base::template play<SplitPromotedKernel>(shared, g);
  }
};

// C^T = B A^T: B's rows, along K as A's, are the tile's.
inline Call turned(const Call& call) {
  Call turned = call;
  std::swap(turned.a, turned.b);
  std::swap(turned.m, turned.n);
  return turned;
}

struct SplitK {
  static bool supports(const Call& call, Why& why) {
    return has_k_major_operands(call, why) &&
           why.unless(call.c.contiguous == Contiguous::kColumns, "needs a c row by row");
  }

  // In units of their own: `realigned` calls it too.
  static void run(const Call& call, const Context& context);
};
// Many kernels: split_k_floats.cu has them.
void run_split_k_of_floats(const Call& call, Stream stream);

}  // namespace ws::scaled_gemm
