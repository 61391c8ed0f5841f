// What the policies of the upper rungs are chosen from, a rung each, so that the tuner measures
// them on the harness. Not in the family's table.
#pragma once

#include "kernels/norm/06_row_in_registers.cuh"
#include "kernels/norm/08_cluster_queue.cuh"
#include "kernels/norm/12_backward_in_registers.cuh"
#include "kernels/norm/13_backward_cluster.cuh"

namespace ws::norm {

// Threads of a row x vectors x parameters with x or when used x blocks an SM has registers for.
template <class Shape>
struct OnlyRow {
  static constexpr bool kAddsResidual = false;
  static constexpr int64_t most_bytes(DType /*dtype*/) { return Shape::kBytes; }
  template <class T, bool kCentred, class F>
  static void with_shape(int64_t /*bytes*/, const F& f) {
    f.template operator()<Shape>();
  }
};
template <int kLanes, int kVectors, bool kEarly, int kMinBlocks = 1>
constexpr Rung row_candidate(std::string_view name) {
  return rung_of<RowInRegisters<OnlyRow<RowShape<kLanes, kVectors, kEarly, kMinBlocks>>>,
                 DTypes{DType::kF32, DType::kBf16}, LayerNorm, RmsNorm>(
      {.name = name, .idea = "threads of a row, vectors, parameters", .may_spill = true});
}
inline constexpr Rung kRowCandidates[] = {
    row_candidate<16, 2, true>("16x2_early"),      row_candidate<8, 4, false>("8x4_late"),
    row_candidate<32, 4, false, 9>("32x4_late_9"), row_candidate<64, 2, true>("64x2_early"),
    row_candidate<64, 4, false>("64x4_late"),      row_candidate<128, 4, true>("128x4_early"),
    row_candidate<128, 4, false>("128x4_late"),    row_candidate<256, 2, true>("256x2_early"),
    row_candidate<256, 4, true>("256x4_early"),    row_candidate<256, 4, false, 6>("256x4_late_6"),
    row_candidate<256, 8, false>("256x8_late"),    row_candidate<512, 2, true>("512x2_early"),
    row_candidate<512, 4, true>("512x4_early"),    row_candidate<512, 4, false, 3>("512x4_late_3"),
    row_candidate<512, 8, false>("512x8_late"),
};

// Threads x vectors x rows under way x blocks an SM.
template <class Shape>
struct OnlyQueue {
  static constexpr int64_t kLeastBytes = Shape::kBytes / 2;
  template <bool kCentred>
  static constexpr int64_t part_bytes(DType /*dtype*/, DType /*parameters*/) {
    return Shape::kBytes;
  }
  template <class T, class W, bool kCentred, class F>
  static void with_shape(int64_t /*bytes*/, const F& f) {
    if constexpr (sizeof(T) == sizeof(W)) f.template operator()<Shape>();
  }
};
template <int kThreads, int kVectors, int kStages, int kMinBlocks>
constexpr Rung queue_candidate(std::string_view name) {
  return rung_of<ClusterQueue<OnlyQueue<row::QueueShape<kThreads, kVectors, kStages, kMinBlocks>>>,
                 DTypes{DType::kF32, DType::kBf16}, LayerNorm>(
      {.name = name,
       .idea = "threads, vectors, rows under way, blocks an SM",
       .arch = Arch::kSm90,
       .may_spill = true});
}
inline constexpr Rung kQueueCandidates[] = {
    queue_candidate<128, 8, 3, 4>("128x8_3_4"),   queue_candidate<128, 8, 4, 3>("128x8_4_3"),
    queue_candidate<256, 4, 4, 3>("256x4_4_3"),   queue_candidate<256, 4, 6, 2>("256x4_6_2"),
    queue_candidate<256, 8, 3, 2>("256x8_3_2"),   queue_candidate<256, 8, 6, 1>("256x8_6_1"),
    queue_candidate<512, 4, 6, 1>("512x4_6_1"),   queue_candidate<512, 8, 3, 1>("512x8_3_1"),
    queue_candidate<256, 16, 3, 1>("256x16_3_1"),
};

// The same of the gradients.
template <class Shape>
struct OnlyRing {
  template <bool kCentred>
  static constexpr int64_t most_bytes(DType /*dtype*/, DType /*parameters*/) {
    return cluster::kMaxBlocks * Shape::kBytes;
  }
  template <class T, class W, bool kCentred, class F>
  static void with_shape(int64_t /*bytes*/, const F& f) {
    if constexpr (sizeof(T) == sizeof(W)) f.template operator()<Shape>();
  }
};
template <int kThreads, int kVectors, int kStages, int kMinBlocks>
constexpr Rung ring_candidate(std::string_view name) {
  return rung_of<BackwardCluster<OnlyRing<RingShape<kThreads, kVectors, kStages, kMinBlocks>>>,
                 DTypes{DType::kF32, DType::kBf16}, LayerNormBackward>(
      {.name = name,
       .idea = "threads, vectors, rows under way, blocks an SM",
       .arch = Arch::kSm90,
       .may_spill = true});
}
inline constexpr Rung kRingCandidates[] = {
    ring_candidate<64, 4, 3, 8>("64x4_3_8"),   ring_candidate<64, 4, 4, 6>("64x4_4_6"),
    ring_candidate<128, 2, 6, 4>("128x2_6_4"), ring_candidate<128, 4, 3, 4>("128x4_3_4"),
    ring_candidate<128, 4, 4, 3>("128x4_4_3"), ring_candidate<256, 2, 6, 2>("256x2_6_2"),
    ring_candidate<256, 4, 3, 2>("256x4_3_2"), ring_candidate<512, 2, 6, 1>("512x2_6_1"),
    ring_candidate<512, 4, 3, 1>("512x4_3_1"),
};

// Lanes of a row x vectors x rows under way x blocks an SM.
template <class Shape>
struct OnlyLanes {
  static constexpr int64_t kMostBytes = Shape::kBytes;
  template <class F>
  static void with_shape(int64_t /*bytes*/, const F& f) {
    f.template operator()<Shape>();
  }
};
template <int kLanes, int kVectors, int kStages, int kMinBlocks>
constexpr Rung lanes_candidate(std::string_view name) {
  return rung_of<BackwardInRegisters<OnlyLanes<LanesShape<kLanes, kVectors, kStages, kMinBlocks>>>,
                 DTypes{DType::kF32, DType::kBf16}, LayerNormBackward>(
      {.name = name, .idea = "lanes, vectors, rows under way, blocks an SM", .may_spill = true});
}
inline constexpr Rung kLanesCandidates[] = {
    lanes_candidate<8, 2, 4, 6>("8x2_4_6"),   lanes_candidate<8, 4, 4, 3>("8x4_4_3"),
    lanes_candidate<16, 2, 3, 6>("16x2_3_6"), lanes_candidate<16, 2, 4, 6>("16x2_4_6"),
    lanes_candidate<16, 4, 4, 3>("16x4_4_3"), lanes_candidate<32, 2, 3, 6>("32x2_3_6"),
    lanes_candidate<32, 4, 3, 4>("32x4_3_4"), lanes_candidate<32, 4, 4, 3>("32x4_4_3"),
};

}  // namespace ws::norm
