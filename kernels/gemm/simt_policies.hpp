// The policies of the CUDA-core rungs: tile shapes, and which of them a call gets. What else was
// considered stands in simt_candidates.hpp, where the tuner measures it.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "warpsmith/device.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::gemm {

// ---- double_buffer, async_copy, and their f16 ---------------------------------------------------

// A thread computes eight rows by kThreadColumns columns, in slices of kSliceOfK.
template <int kThreadColumns, int kSliceOfK, int kBlocks>
struct QuadPolicy {
  static constexpr int kColumns = kThreadColumns;
  static constexpr int kSlice = kSliceOfK;
  static constexpr int kMinBlocks = kBlocks;  // of an SM: bounds the registers of a thread
};

// f.template operator()<Policy>() with the largest tile that leaves no multiprocessor without one.
// kMiddleSlice: of 8 x 8; where registers hold the next slice, two blocks of an SM have them for 8.
template <int kMiddleSlice, class F>
void with_quad_policy(const Call& call, int multiprocessors, F&& f) {
  const auto tiles = [&](int tile_n) { return divide_up(call.m, 128) * divide_up(call.n, tile_n); };
  if (tiles(256) >= multiprocessors) {
    f.template operator()<QuadPolicy<16, 16, 1>>();
  } else if (tiles(128) >= multiprocessors) {
    f.template operator()<QuadPolicy<8, kMiddleSlice, 2>>();
  } else {
    f.template operator()<QuadPolicy<4, 16, 2>>();
  }
}

// The same for pieces of eight f16: a thread's columns are eight or two times eight.
template <class F>
void with_octet_policy(const Call& call, int multiprocessors, F&& f) {
  if (divide_up(call.m, 128) * divide_up(call.n, 256) >= multiprocessors) {
    f.template operator()<QuadPolicy<16, 32, 1>>();
  } else {
    f.template operator()<QuadPolicy<8, 16, 2>>();
  }
}

// ---- warp_tile, copy_engine ---------------------------------------------------------------------

// What can be chosen. A warp is four lanes down and eight across.
struct SimtShape {
  int tile_m;
  int tile_n;
  int thread_m;  // a lane's sums
  int thread_n;
  int blocks;  // of an SM: bounds the registers of a thread
  int stages;
  int tile_k = 32;
  int unroll = 8;           // times four steps of K
  bool by_columns = false;  // C is stored by columns
};

template <SimtShape kShape>
struct SimtPolicy {
  static constexpr int kTileM = kShape.tile_m;
  static constexpr int kTileN = kShape.tile_n;
  static constexpr int kTileK = kShape.tile_k;
  static constexpr int kThreadM = kShape.thread_m;
  static constexpr int kThreadN = kShape.thread_n;
  static constexpr int kWarpTileM = 4 * kThreadM;
  static constexpr int kWarpTileN = 8 * kThreadN;
  static constexpr int kWarpsN = kTileN / kWarpTileN;
  static constexpr int kWarps = kTileM / kWarpTileM * kWarpsN;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kStages = kShape.stages;
  static constexpr int kUnroll = kShape.unroll;
  static constexpr bool kByColumns = kShape.by_columns;
  static constexpr int kStageElements = (kTileM + kTileN) * kTileK;

  static constexpr tile::Raster raster(const Call& call) { return raster_of(call, kTileM, kTileN); }

  static_assert(kTileM % kWarpTileM == 0 && kTileN % kWarpTileN == 0, "whole warp tiles");
  static_assert(kTileM <= 256 && kTileN <= 256, "a tensor copy's box");
  static_assert(kStages >= 3, "one in use, one that a slow warp has not left, one on its way");
  static_assert(kMinBlocks * (kStages * kStageElements * 4 + 1024) <= 227 * 1024,
                "shared memory of an SM");
};

// 24 KB: also where an SM has 100 KB. H200 2026-11-22, 4096^3: 42.4 TFLOP/s (128 x 128 with 8 x 16
// a lane 40.4).
using WarpTileShape = SimtPolicy<SimtShape{.tile_m = 64,
                                           .tile_n = 64,
                                           .thread_m = 8,
                                           .thread_n = 8,
                                           .blocks = 4,
                                           .stages = 3,
                                           .tile_k = 16}>;

// The loop is short, 16 KB of instructions; unrolled once more it is 6 % slower, see README.md.
// H200 2026-11-22, 4096^3, nn / nt / tn: 45.4, 46.2, 51.3 TFLOP/s.
using CopyEngineBig = SimtPolicy<SimtShape{.tile_m = 128,
                                           .tile_n = 128,
                                           .thread_m = 8,
                                           .thread_n = 16,
                                           .blocks = 2,
                                           .stages = 3,
                                           .unroll = 2}>;
// For layout nn as the transposed product. H200 2026-11-22, 4096^3: 48.3 TFLOP/s,
// untransposed 45.4.
using CopyEngineTurned = SimtPolicy<SimtShape{.tile_m = 128,
                                              .tile_n = 128,
                                              .thread_m = 8,
                                              .thread_n = 16,
                                              .blocks = 2,
                                              .stages = 3,
                                              .unroll = 2,
                                              .by_columns = true}>;
using CopyEngineSmall = SimtPolicy<SimtShape{.tile_m = 64,
                                             .tile_n = 64,
                                             .thread_m = 8,
                                             .thread_n = 8,
                                             .blocks = 4,
                                             .stages = 3,
                                             .unroll = 4}>;

// Whether big tiles take less time than small ones. An SM computes the tiles that it gets one after
// the other or side by side at one rate; small ones at 0.93 of the big ones' by their count of
// instructions. An SM with one big block has a warp for each scheduler, and 0.8 of the rate: an
// estimate.
template <class Big, class Small>
bool choose_big(const Call& call, int multiprocessors) {
  const int big = divide_up(Big::raster(call).count(), multiprocessors);
  const int small = divide_up(Small::raster(call).count(), multiprocessors);
  const double big_time = big * double{Big::kTileM} * Big::kTileN / (big == 1 ? 0.8 : 1.0);
  return big_time <= small * double{Small::kTileM} * Small::kTileN / 0.93;
}

}  // namespace ws::gemm
