// Idea: tiles instead of elements. The host cannot count them, so it launches as many blocks as
//   there could be; a warp looks up which group tile `block` is of, with a sum over 32 groups at
//   once. The rest is the kernel of one product, three pointers further on.
// From any_layout: warp_tile of gemm. Of grouped_gemm_weight a tile's group moves A and B along K.
//   Where a group moves an operand along its runs, it is copied by 4 bytes.
// Traffic: warp_tile's; a tile that is not full reads and multiplies as a full one does.
// Limits: f32; a stride of A and B 1, contiguous rows of out.
#pragma once

#include "kernels/gemm/08_warp_tile.cuh"
#include "kernels/grouped_gemm/tiles.hpp"

namespace ws::grouped_gemm {

struct WarpTile {
  template <Contiguous kA, Contiguous kB>
  using Product = gemm::WarpTileKernel<kA, kB, gemm::WarpTileShape>;
  template <Contiguous kA, Contiguous kB>
  using Rows = RowTilesKernel<Product<kA, kB>, kA>;
  template <Contiguous kA, Contiguous kB>
  using Depth = DepthTilesKernel<Product<kA, kB>, kA, kB>;
  static constexpr Contiguous kAny = Contiguous::kColumns;

  static bool supports(const RowsCall& call, Why& why) {
    return Rows<kAny, kAny>::supports(call, why);
  }
  static bool supports(const DepthCall& call, Why& why) {
    return Depth<kAny, kAny>::supports(call, why);
  }

  static void run(const RowsCall& call, const Context& context) {
    gemm::with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
      Rows<kA, kB>::run(call, "grouped_gemm/warp_tile", context.stream);
    });
  }
  static void run(const DepthCall& call, const Context& context) {
    gemm::with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
      Depth<kA, kB>::run(call, "grouped_gemm_weight/warp_tile", context.stream);
    });
  }
};

}  // namespace ws::grouped_gemm
