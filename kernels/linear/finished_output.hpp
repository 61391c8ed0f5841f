// The epilogue before any store of gemm's Hopper kernels: what is added is loaded as a piece of a
// tile is finished. Where it should be there before, 05_wgmma.cuh has another.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/linear/epilogue.hpp"
#include "warpsmith/row/load.hpp"

namespace ws::linear {

// Base stores what becomes of the sums. T: of what is added.
template <class Base, class T>
struct FinishedOutput : Base {
  Epilogue<T> epilogue;
  int m, n;

  template <class Store>
  static FinishedOutput of(const Call& call) {
    return {Base::template of<Store>(call), Epilogue<T>(call), static_cast<int>(call.m),
            static_cast<int>(call.n)};
  }

  template <class Store>
  __device__ __forceinline__ void put(Store& store, int row, int column, const float* sums) const {
    constexpr int kSums = Store::kColumns / 2;
    // A lane has pairs of neighbours, in two rows that are eight apart, every eight columns.
    const int first_row = row + lane_index() / 4;
    const int first_column = column + lane_index() % 4 * 2;
    float y[kSums];
#pragma unroll
    for (int s = 0; s < kSums; ++s) y[s] = epilogue.alpha * sums[s];
    if (epilogue.source != nullptr) {
      // So many loads are in flight together, for more a thread has no registers; and one pointer
      // walks, for the same reason.
      constexpr int kLoads = 8;
      const T* from = epilogue.source + first_row * epilogue.row + first_column * epilogue.column;
#pragma unroll
      for (int s = 0; s < kSums; s += kLoads) {
        row::Packed<T, 1> added[kLoads];
#pragma unroll
        for (int e = 0; e < kLoads; ++e) {
          const int down = e / 2 % 2 * 8;
          const int right = e / 4 * 8 + e % 2;
          added[e] =
              row::load_or_zeros<1>(from + down * epilogue.row + right * epilogue.column,
                                    first_row + down < m && first_column + s / 4 * 8 + right < n);
        }
#pragma unroll
        for (int e = 0; e < kLoads; ++e) y[s + e] += epilogue.beta * added[e][0];
        from += kLoads / 4 * 8 * epilogue.column;
      }
    }
    with_activation(epilogue.activation, [&](const auto& function) {
#pragma unroll
      for (int s = 0; s < kSums; ++s) y[s] = function(y[s]);
    });
    Base::put(store, row, column, y);
  }
};

}  // namespace ws::linear
