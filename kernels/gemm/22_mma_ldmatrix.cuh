// Idea: ldmatrix. A warp reads four 8 x 8 matrices with one instruction, and every element lands in
//   the register of the lane that mma.sync wants it in; `.trans` turns those of B on the way.
// From mma_tile: 6 instructions where 32 stood, for the same 16 products.
// Traffic: as mma_tile.
// Limits: f16 and bf16; dense row-major matrices, layout nn.
#pragma once

#include "kernels/gemm/21_mma_tile.cuh"
#include "warpsmith/ptx/ldmatrix.hpp"

namespace ws::gemm {

// Lane i gives the address of row i % 8 of matrix i / 8: of A 16 rows by 16 of K, of B 16 of K by
// 16 columns.
struct LoadMatrices {
  template <int kPitchA, int kPitchB, class T, class Fragments>
  __device__ __forceinline__ static void fragments(Fragments& fragments, SharedSpan<T> a,
                                                   SharedSpan<T> b, int row, int column) {
    const int down = lane_index() % 16;
    const int across = lane_index() / 16 * 8;
#pragma unroll
    for (int i = 0; i < Fragments::kDown; ++i) {
      ptx::ldmatrix_x4(fragments.a[i], a.pointer((row + i * 16 + down) * kPitchA + across));
    }
#pragma unroll
    for (int j = 0; j < Fragments::kAcross; j += 2) {
      uint32_t two[4];
      ptx::ldmatrix_x4<true>(two, b.pointer(down * kPitchB + column + j * 8 + across));
      fragments.b[j][0] = two[0];
      fragments.b[j][1] = two[1];
      fragments.b[j + 1][0] = two[2];
      fragments.b[j + 1][1] = two[3];
    }
  }
};

struct MmaLdmatrix {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(
        call.dtype, [&]<class T>() { MmaTileKernel<T, LoadMatrices>::run(call, context.stream); });
  }
};

inline constexpr Rung kMmaLdmatrix = rung_of<MmaLdmatrix, kHalves, Gemm>({
    .name = "mma_ldmatrix",
    .from = "mma_tile",
    .idea = "ldmatrix reads fragments, four 8 x 8 matrices an instruction",
});

}  // namespace ws::gemm
