// What the policies of the upper rungs are chosen from, a rung each, so that the tuner measures
// them on the harness. Not in the family's table.
#pragma once

#include "kernels/norm/06_row_in_registers.cuh"
#include "kernels/norm/08_cluster_queue.cuh"
#include "kernels/norm/13_backward_cluster.cuh"

namespace ws::norm {

// Vectors a thread x parameters with x or when used x blocks of 512 threads that an SM has
// registers for.
template <class Shape>
struct OnlyRow {
  static constexpr bool kAddsResidual = false;
  static constexpr int64_t most_bytes(DType /*dtype*/) { return Shape::kBytes; }
  template <class T, bool kCentred, class F>
  static void with_shape(int64_t /*bytes*/, const F& f) {
    f.template operator()<Shape>();
  }
};
template <int kVectors, bool kEarly, int kMinBlocks>
constexpr Rung row_candidate(std::string_view name) {
  return rung_of<RowInRegisters<OnlyRow<RowShape<0, kVectors, kEarly, kMinBlocks>>>,
                 DTypes{DType::kF32, DType::kBf16}, LayerNorm, RmsNorm>(
      {.name = name, .idea = "vectors, parameters, blocks an SM", .may_spill = true});
}
inline constexpr Rung kRowCandidates[] = {
    row_candidate<1, true, 3>("v1_early_3"), row_candidate<2, true, 1>("v2_early_1"),
    row_candidate<2, true, 3>("v2_early_3"), row_candidate<2, false, 1>("v2_late_1"),
    row_candidate<2, false, 3>("v2_late_3"), row_candidate<4, true, 1>("v4_early_1"),
    row_candidate<4, false, 1>("v4_late_1"), row_candidate<4, false, 2>("v4_late_2"),
    row_candidate<8, false, 1>("v8_late_1"), row_candidate<8, false, 2>("v8_late_2"),
};

// Threads x vectors x rows under way x blocks an SM.
template <class Shape>
struct OnlyQueue {
  static constexpr int64_t kLeastBytes = 2048;
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
                 DTypes{DType::kF32, DType::kBf16}, LayerNorm, RmsNorm>(
      {.name = name,
       .idea = "threads, vectors, rows under way, blocks an SM",
       .arch = Arch::kSm90,
       .may_spill = true});
}
inline constexpr Rung kQueueCandidates[] = {
    queue_candidate<128, 4, 4, 6>("128x4_4_6"),   queue_candidate<128, 8, 3, 4>("128x8_3_4"),
    queue_candidate<256, 4, 4, 3>("256x4_4_3"),   queue_candidate<256, 4, 3, 4>("256x4_3_4"),
    queue_candidate<128, 16, 3, 2>("128x16_3_2"), queue_candidate<256, 8, 3, 2>("256x8_3_2"),
    queue_candidate<512, 4, 3, 2>("512x4_3_2"),   queue_candidate<512, 4, 6, 1>("512x4_6_1"),
    queue_candidate<256, 16, 3, 1>("256x16_3_1"), queue_candidate<512, 8, 3, 1>("512x8_3_1"),
};

// The same of the gradients.
template <class Shape>
struct OnlyRing {
  template <bool kCentred>
  static constexpr int64_t most_bytes(DType /*dtype*/) {
    return cluster::kMaxBlocks * Shape::kBytes;
  }
  template <class T, bool kCentred, class F>
  static void with_shape(int64_t /*bytes*/, const F& f) {
    f.template operator()<Shape>();
  }
};
template <int kThreads, int kVectors, int kStages, int kMinBlocks>
constexpr Rung ring_candidate(std::string_view name) {
  return rung_of<BackwardCluster<OnlyRing<RingShape<kThreads, kVectors, kStages, kMinBlocks>>>,
                 DTypes{DType::kF32, DType::kBf16}, LayerNormBackward, RmsNormBackward>(
      {.name = name,
       .idea = "threads, vectors, rows under way, blocks an SM",
       .arch = Arch::kSm90,
       .may_spill = true});
}
inline constexpr Rung kRingCandidates[] = {
    ring_candidate<128, 1, 4, 6>("128x1_4_6"), ring_candidate<128, 1, 4, 8>("128x1_4_8"),
    ring_candidate<128, 2, 4, 4>("128x2_4_4"), ring_candidate<256, 1, 4, 4>("256x1_4_4"),
    ring_candidate<256, 2, 4, 2>("256x2_4_2"), ring_candidate<256, 2, 3, 3>("256x2_3_3"),
    ring_candidate<512, 1, 4, 2>("512x1_4_2"), ring_candidate<512, 2, 6, 1>("512x2_6_1"),
    ring_candidate<256, 4, 3, 2>("256x4_3_2"), ring_candidate<512, 4, 3, 1>("512x4_3_1"),
};

}  // namespace ws::norm
