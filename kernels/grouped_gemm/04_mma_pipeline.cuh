// Idea: the same lookup before a kernel on tensor cores.
// From warp_tile: mma_pipeline of gemm, in the tile that takes rows of any alignment.
// Traffic: mma_pipeline's; a group of few rows costs as much as one of 128.
// Limits: f16 and bf16; contiguous rows of A and out and a stride of 1 in B; of grouped_gemm_weight
//   contiguous columns of A and rows of B and out. Rows that start at odd elements are copied an
//   element at a time.
#pragma once

#include "kernels/gemm/28_mma_pipeline.cuh"
#include "kernels/grouped_gemm/tiles.hpp"

namespace ws::grouped_gemm {

struct MmaPipeline {
  template <class T, Contiguous kA, Contiguous kB>
  using Product = gemm::MmaPipelineKernel<T, kA, kB, gemm::MmaSmall>;
  template <class T, Contiguous kB>
  using Rows = RowTilesKernel<Product<T, Contiguous::kColumns, kB>, Contiguous::kColumns>;
  template <class T>
  using Depth = DepthTilesKernel<Product<T, Contiguous::kRows, Contiguous::kColumns>,
                                 Contiguous::kRows, Contiguous::kColumns>;

  static bool supports(const RowsCall& call, Why& why) {
    return is_of_one_dtype(call, why) &&
           why.unless(call.a.contiguous == Contiguous::kColumns, "needs contiguous rows of a") &&
           Rows<half, Contiguous::kColumns>::supports(call, why);
  }
  static bool supports(const DepthCall& call, Why& why) {
    return is_of_one_dtype(call, why) &&
           why.unless(
               call.a.contiguous == Contiguous::kRows && call.b.contiguous == Contiguous::kColumns,
               "needs contiguous columns of a and rows of b") &&
           Depth<half>::supports(call, why);
  }

  static void run(const RowsCall& call, const Context& context) {
    constexpr const char* kName = "grouped_gemm/mma_pipeline";
    with_type<kHalves>(call.dtype, [&]<class T>() {
      call.b.contiguous == Contiguous::kColumns
          ? Rows<T, Contiguous::kColumns>::run(call, kName, context.stream)
          : Rows<T, Contiguous::kRows>::run(call, kName, context.stream);
    });
  }
  static void run(const DepthCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      Depth<T>::run(call, "grouped_gemm_weight/mma_pipeline", context.stream);
    });
  }
};

}  // namespace ws::grouped_gemm
