// Idea: tiles instead of elements. The host cannot count them, so it launches as many blocks as
//   there could be; a warp looks up which group tile `block` is of, with a sum over 32 groups at
//   once. The rest is the kernel of one product, three pointers further on.
// From any_layout: warp_tile of gemm. Of grouped_gemm_weight a tile's group moves A and B along K.
// Traffic: warp_tile's; a tile that is not full reads and multiplies as a full one does.
// Limits: f32; contiguous rows of A and out and a stride of 1 in B; of grouped_gemm_weight
//   contiguous columns of A and rows of B and out.
#pragma once

#include "kernels/gemm/08_warp_tile.cuh"
#include "kernels/grouped_gemm/tiles.hpp"

namespace ws::grouped_gemm {

struct WarpTile {
  template <Contiguous kA, Contiguous kB>
  using Product = gemm::WarpTileKernel<kA, kB, gemm::WarpTileShape>;
  template <Contiguous kB>
  using Rows = RowTilesKernel<Product<Contiguous::kColumns, kB>>;
  using Depth = DepthTilesKernel<Product<Contiguous::kRows, Contiguous::kColumns>>;

  static bool supports(const RowsCall& call, Why& why) {
    return Rows<Contiguous::kColumns>::supports(call, why);
  }
  static bool supports(const DepthCall& call, Why& why) { return Depth::supports(call, why); }

  static void run(const RowsCall& call, const Context& context) {
    constexpr const char* kName = "grouped_gemm/warp_tile";
    call.b.contiguous == Contiguous::kColumns
        ? Rows<Contiguous::kColumns>::run(call, kName, context.stream)
        : Rows<Contiguous::kRows>::run(call, kName, context.stream);
  }
  static void run(const DepthCall& call, const Context& context) {
    Depth::run(call, "grouped_gemm_weight/warp_tile", context.stream);
  }
};

}  // namespace ws::grouped_gemm
