// Rows: what most rungs know of a call. Elements side by side, rows at one stride.
#pragma once

#include "kernels/topk/keys.hpp"
#include "kernels/topk/operations.hpp"
#include "warpsmith/launch.hpp"

namespace ws::topk {

inline bool has_rows(const Selection& call, Why& why) {
  const RowLayout<kOperands>& rows = call.rows;
  bool side_by_side = rows.inner[kX] == 1;
  for (const size_t output : {size_t{kValues}, size_t{kIndices}}) {
    side_by_side = side_by_side && (call.k <= 1 || rows.inner[output] == 1);
  }
  return why.unless(side_by_side && rows.outer <= 1,
                    "takes rows at one stride whose elements lie side by side") &&
         why.unless(rows.rows <= kMostBlocks, "takes up to ", kMostBlocks, " rows, not ",
                    rows.rows);
}

#if WS_DEVICE_CODE
template <class T>
struct Rows {
  using Of = Worth<T>;
  const T* x;
  T* values;
  int64_t* indices;
  int64_t rows;
  int64_t columns;
  int64_t k;
  int64_t x_stride;  // from row to row
  int64_t values_stride;
  int64_t indices_stride;
  uint32_t flip;

  explicit Rows(const Selection& call)
      : x(call.rows.as<const T>(kX)),
        values(call.rows.as<T>(kValues)),
        indices(call.rows.as<int64_t>(kIndices)),
        rows(call.rows.rows),
        columns(call.rows.columns),
        k(call.k),
        x_stride(call.rows.stride(kX)),
        values_stride(call.rows.stride(kValues)),
        indices_stride(call.rows.stride(kIndices)),
        flip(Of::flip(call.largest)) {}

  __device__ __forceinline__ const T* row(int64_t r) const { return x + r * x_stride; }

  // Writes a row's output `rank` from its key.
  template <class Word>
  __device__ __forceinline__ void write(int64_t r, int64_t rank, Word key WS_AND_PLACE) const {
    const int64_t place_of_it = Key<Word>::place(key);
    thread::store(values + r * values_stride + rank,
                  Of::back(Key<Word>::worth(key), flip, row(r) + place_of_it) WS_PASS_AND_PLACE);
    thread::store(indices + r * indices_stride + rank, place_of_it WS_PASS_AND_PLACE);
  }
};
#endif

}  // namespace ws::topk
