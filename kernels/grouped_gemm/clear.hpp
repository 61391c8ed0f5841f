// Zeros over a part of what the copy engine brought, before it is multiplied.
#pragma once

#include "warpsmith/ptx/swizzle.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/operand_stage.hpp"

namespace ws::grouped_gemm {

// Zeros over what of K in an operand's stage lies before `from` and from `to` on; by kThreads
// threads, those behind the producer's warpgroup. MN-major these are whole lines, K-major the ends
// of lines.
template <class Stage, int kThreads>
__device__ __forceinline__ void clear_outside(typename Stage::Element* stage, int from, int to) {
  using T = typename Stage::Element;
  constexpr int kChunk = 8;
  const SharedSpan<T> elements{stage, Stage::kElements};
  const int thread = thread_index() - 128;
  if constexpr (Stage::kKMajor) {
    for (int row = thread; row < Stage::kElements / Stage::kRow; row += kThreads) {
      for (int first = 0; first < Stage::kRow; first += kChunk) {
        if (first >= from && first + kChunk <= to) continue;
        const uint32_t bytes = ptx::swizzled_chunk<ptx::Swizzle::k128>(
            static_cast<uint32_t>(row), static_cast<uint32_t>(first / kChunk));
        const auto at = static_cast<int>(bytes / sizeof(T));
        auto values = elements.template load<kChunk>(at);
#pragma unroll
        for (int e = 0; e < kChunk; ++e) {
          if (first + e < from || first + e >= to) values[e] = T{};
        }
        elements.template store<kChunk>(at, values);
      }
    }
  } else {
    constexpr int kLine = 64;
#pragma unroll
    for (int panel = 0; panel < Stage::kPanels; ++panel) {
      const int begin = panel * Stage::kPanelElements + thread * kChunk;
      const auto clear = [&](int first, int last) {
        for (int at = begin + first * kLine; at < panel * Stage::kPanelElements + last * kLine;
             at += kThreads * kChunk) {
          elements.template store<kChunk>(at, Vec<T, kChunk>{});
        }
      };
      clear(0, from);
      clear(to, Stage::kPanelElements / kLine);
    }
  }
}

}  // namespace ws::grouped_gemm
