// A of wgmma in registers, from a stage of f32 that is K-major: for lanes that make something of an
// operand before it is multiplied.
#pragma once

#include "warpsmith/ptx/swizzle.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/operand_stage.hpp"

namespace ws::tile {

// Of a warpgroup: fragments of blocks of 64 of the outer dimension, from 64 * panel on, for the
// wgmma_m64k8 of a stage. A lane needs two rows, eight apart, at two places of K, four apart; a
// warp's eight rows are in all banks, for the swizzle has each row's chunk elsewhere.
template <class OperandStage>
struct KFragments {
  using Stage = OperandStage;
  static_assert(sizeof(typename Stage::Element) == 4 && Stage::kKMajor);
  static constexpr int kStep = 8;  // K of an instruction
  static constexpr int kSteps = Stage::kRow / kStep;

  __device__ __forceinline__ explicit KFragments(int panel)
      : row_(panel * 64 + warp_index() % 4 * 16 + lane_index() / 4) {}

  // Of block `i`.
  __device__ __forceinline__ void load(uint32_t (&a)[kSteps][4], const float* stage,
                                       int i WS_AND_PLACE) const {
    const SharedSpan<uint32_t> from{reinterpret_cast<uint32_t*>(const_cast<float*>(stage)),
                                    Stage::kElements};
    const auto row = static_cast<uint32_t>(row_ + i * 64);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto chunk = static_cast<uint32_t>(step * 2 + half);
        const uint32_t byte = ptx::swizzled_chunk<ptx::Swizzle::k128>(row, chunk);
        const int at = static_cast<int>(byte / 4) + lane_index() % 4;
        a[step][half * 2] = from.template load<1>(at WS_PASS_AND_PLACE)[0];
        // Patterns of eight rows are alike.
        a[step][half * 2 + 1] = from.template load<1>(at + 8 * Stage::kRow WS_PASS_AND_PLACE)[0];
      }
    }
  }

 private:
  int row_;
};

}  // namespace ws::tile
