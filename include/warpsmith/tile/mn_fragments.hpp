// A of wgmma in registers, from a stage of f32 that is MN-major: what the tensor core does not turn
// on its way the lanes do.
#pragma once

#include "warpsmith/ptx/swizzle.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/operand_stage.hpp"

namespace ws::tile {

// Whether lanes bring an operand: f32 that lies across K.
template <class Stage>
inline constexpr bool kAcrossK = sizeof(typename Stage::Element) == 4 && !Stage::kKMajor;

// Of a warpgroup: fragments of blocks of 64 of the outer dimension, from 64 * panel on,
// for the wgmma_m64k8 of a stage. A lane needs two rows of K, four apart, at two columns, eight
// apart. The swizzle puts four rows of a warp's 16 columns into 16 banks; so half of the lanes read
// the upper rows first, which lie in the other 16, and a select puts them where they belong.
template <class OperandStage>
struct MnFragments {
  using Stage = OperandStage;
  static_assert(kAcrossK<Stage> && Stage::kRest == 0);
  static constexpr int kStep = 8;  // K of an instruction
  static constexpr int kSteps = Stage::kRow / kStep;

  __device__ __forceinline__ explicit MnFragments(int panel) : upper_first_(lane_index() >= 16) {
    const int outer = panel * 64 + warp_index() % 4 * 16 + lane_index() / 4;
    const int column = outer % Stage::kRow;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int k = lane_index() % 4 + ((i == 1) != upper_first_ ? 4 : 0);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const auto chunk = static_cast<uint32_t>(column / 4 + j * 2);
        const uint32_t byte =
            ptx::swizzled_chunk<ptx::Swizzle::k128>(static_cast<uint32_t>(k), chunk);
        at_[i][j] =
            outer / Stage::kRow * Stage::kPanelElements + static_cast<int>(byte / 4) + column % 4;
      }
    }
  }

  // Of block `i`.
  __device__ __forceinline__ void load(uint32_t (&a)[kSteps][4], const float* stage,
                                       int i WS_AND_PLACE) const {
    const SharedSpan<uint32_t> from{reinterpret_cast<uint32_t*>(const_cast<float*>(stage)),
                                    Stage::kElements};
    const int block = i * 64 / Stage::kRow * Stage::kPanelElements;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int at = block + step * kStep * Stage::kRow;  // patterns of eight rows are alike
        const uint32_t first = from.template load<1>(at_[0][j] + at WS_PASS_AND_PLACE)[0];
        const uint32_t second = from.template load<1>(at_[1][j] + at WS_PASS_AND_PLACE)[0];
        a[step][j] = upper_first_ ? second : first;
        a[step][j + 2] = upper_first_ ? first : second;
      }
    }
  }

 private:
  bool upper_first_;
  int at_[2][2];  // elements: of what is read first and second, of two columns
};

}  // namespace ws::tile
