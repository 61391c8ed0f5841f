// How the wmma rungs write C: nobody knows which lane holds which sum, so they go through shared
// memory, where every lane finds a row's neighbours.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/wmma.hpp"
#include "warpsmith/shared.hpp"

#if WS_DEVICE_CODE
namespace ws::gemm {

// One fragment of sums of each warp of a block.
template <class Product, int kWarps>
struct WmmaOutput {
  static constexpr int kElements = Product::kM * Product::kN;
  using Sum = typename Product::Sum;
  SharedArray<Sum, kWarps * kElements, 128> sums;

  // To c, the fragment's first element in C, of which `rows` and `columns` are left.
  template <class T>
  __device__ __forceinline__ void write(const typename Product::Sums& fragment, T* c,
                                        int64_t leading, int rows, int columns,
                                        bool aligned WS_AND_PLACE) {
    const int first = warp_index() * kElements;
    Product::store(sums.pointer(first), fragment, Product::kN WS_PASS_AND_PLACE);
    ptx::syncwarp();
#pragma unroll
    for (int at = lane_index() * 2; at < kElements; at += kWarpSize * 2) {
      const int i = at / Product::kN;
      const int j = at % Product::kN;
      const Vec<Sum, 2> two = sums.template load<2>(first + at WS_PASS_AND_PLACE);
      if (i < rows) {
        store_pair(c + i * leading + j, columns - j, aligned, to_float(two[0]),
                   to_float(two[1]) WS_PASS_AND_PLACE);
      }
    }
    ptx::syncwarp();  // all have read: the next fragment may be written
  }
};

}  // namespace ws::gemm
#endif
