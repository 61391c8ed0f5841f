// What the rungs that tell of wgmma share: the matrices they take, the arguments of their kernels,
// and how sums go from registers to memory.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/ptx/tensor_map.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::gemm {

// A and B row by row, in rows that the copy engine takes; C row by row, its rows anywhere.
inline bool is_copied_nn(const Call& call, Why& why) {
  return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why) &&
         is_nn(call, why) && can_be_copied("a", call.a, call.dtype, why) &&
         can_be_copied("b", call.b, call.dtype, why);
}

// C, to be stored by the threads that hold its sums.
template <class T>
struct WgmmaOutput {
  T* c;
  int64_t leading;  // stride from row to row
  int m, n;
  bool aligned;  // rows start at multiples of 16 bytes

  // Of a warpgroup: rounds its 64 rows of sums and stores them at (row, column). A lane has pairs
  // of neighbours in two rows; four lanes together store 16 bytes of a row.
  template <int kSums>
  __device__ __forceinline__ void store(const float (&sums)[kSums], int row, int column) const {
    const bool whole = aligned && n - column >= kSums * 2;
    row += warp_index() % 4 * 16 + lane_index() / 4;
    column += lane_index() % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {  // the sums of the one row, of that 8 further down
      const int to_row = row + i * 4;
      if (to_row >= m) break;
      T* const to = c + to_row * leading + column;
#pragma unroll
      for (int j = 0; j < kSums / 4; ++j) {
        const float first = sums[j * 4 + i];
        const float second = sums[j * 4 + i + 1];
        if (whole) {
          thread::store(to + j * 8, Vec<T, 2>{from_float<T>(first), from_float<T>(second)});
        } else {
          store_pair(to + j * 8, n - column - j * 8, aligned, first, second);
        }
      }
    }
  }
};

template <class T>
struct WgmmaArguments {
  ptx::TensorMap a;
  ptx::TensorMap b;
  WgmmaOutput<T> c;
  tile::Raster raster;
  int slices;  // of K
};

// For a kernel whose stages are Kernel::StageA and Kernel::StageB.
template <class Kernel, class T>
WgmmaArguments<T> wgmma_arguments(const Call& call, const tile::Raster& raster) {
  return {.a = Kernel::StageA::tensor_map(call.a.as<const T>(), call.m, call.k, call.a.leading),
          .b = Kernel::StageB::tensor_map(call.b.as<const T>(), call.n, call.k, call.b.leading),
          .c = {.c = call.c.as<T>(),
                .leading = call.c.leading,
                .m = static_cast<int>(call.m),
                .n = static_cast<int>(call.n),
                .aligned = alignment_of(call.c, call.dtype) == 16},
          .raster = raster,
          .slices = static_cast<int>(divide_up(call.k, Kernel::kTileK))};
}

#if WS_DEVICE_CODE
// Which warpgroup of its block a thread belongs to. Broadcast, so that the compiler knows it to be
// the same in all lanes.
__device__ __forceinline__ int warpgroup_index() {
  return static_cast<int>(
      ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index() / 4), 0));
}
#endif

}  // namespace ws::gemm
