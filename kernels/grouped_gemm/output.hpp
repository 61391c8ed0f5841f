// How the Hopper rungs store C: by the copy engine, or by lanes where its rows start anywhere.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/grouped_gemm/policies.hpp"

namespace ws::grouped_gemm {

template <class T>
struct GroupedOutput {
  using Element = T;
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  ptx::TensorMap map;
  T* data;
  int64_t leading;
  int columns;
  bool by_lanes;  // then there is no map

  __device__ __forceinline__ void prefetch() const {
    if (!by_lanes) ptx::prefetch_tensor_map(map);
  }
  // By a warp.
  __device__ __forceinline__ void clear_row(int row) const {
    T* const to = data + row * leading;
    if (by_lanes) {
      for (int column = lane_index(); column < columns; column += kWarpSize) {
        thread::store(to + column, T{});
      }
    } else {
      for (int column = lane_index() * kWidth; column < columns; column += kWarpSize * kWidth) {
        thread::store(to + column, Vec<T, kWidth>{});
      }
    }
  }
};

// By lanes, rows [from, to) of a warp's 16: the first is to go to `row`, and they have `columns`.
template <class Store, class T>
__device__ __forceinline__ void write_rows(Store& store, T* row, int64_t leading, int from, int to,
                                           int columns, const float* sums) {
  const SharedSpan<T> staged{store.buffers + store.buffer * Store::kBufferElements,
                             Store::kBufferElements};
  store.stage_and(sums, [](const T* /*staged*/) {});
#pragma unroll 1  // seldom used: it should not push the products out of the instruction cache
  for (int i = from > 0 ? from : 0; i < Store::kRows && i < to; ++i) {
#pragma unroll
    for (int column = lane_index(); column < Store::kColumns; column += kWarpSize) {
      if (column >= columns) continue;
      const uint32_t chunk = ptx::swizzled_chunk<Store::template kSwizzle<Store::kColumns>>(
          static_cast<uint32_t>(i), static_cast<uint32_t>(column / Store::kChunk));
      thread::store(row + i * leading + column, staged[chunk / sizeof(T) + column % Store::kChunk]);
    }
  }
  ptx::syncwarp();  // all lanes have read
}

template <class Store, class T>
GroupedOutput<T> output_of(const Call& call, const ptx::MatrixBatch& batch) {
  constexpr int64_t kMost = kMostBatch * 2 / static_cast<int64_t>(sizeof(T));
  const bool by_boxes = gemm::is_stored_by_boxes(call, call.out_dtype) && call.c.batch < kMost;
  GroupedOutput<T> output{{}, call.c.as<T>(), call.c.leading, static_cast<int>(call.n), !by_boxes};
  if (by_boxes) {
    output.map = Store::tensor_map(call.c.as<const T>(), batch, call.m, call.n, call.c.leading);
  }
  return output;
}

}  // namespace ws::grouped_gemm
