// What rungs of lookups share: which calls they take, and those as kernels see them.
#pragma once

#include "kernels/embedding/indices.hpp"
#include "kernels/embedding/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::embedding {

inline int64_t width_of(const Lookup& call) {
  return static_cast<int64_t>(16 / size_of(call.dtype));
}

inline bool is_dense(const Lookup& call, Why& why) {
  return why.unless(call.is_dense(), "takes contiguous tensors") &&
         why.unless(call.rows.rows <= kMostBlocks, "takes up to ", kMostBlocks, " indices, not ",
                    call.rows.rows);
}
// Indices and their rows at one stride each.
inline bool is_even(const Lookup& call, Why& why) {
  return why.unless(call.rows.outer <= 1, "takes indices and their rows at one stride");
}
// Whether rows of both are whole vectors of 16 bytes.
inline bool has_vectors(const Lookup& call) {
  const int64_t width = width_of(call);
  const auto starts = [&](const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  return call.rows.columns % width == 0 && call.rows.stride(kRow) % width == 0 &&
         call.strides[0] % width == 0 && call.strides[1] == 1 && call.rows.inner[kRow] == 1 &&
         starts(call.table) && starts(call.rows.data[kRow]);
}
inline bool needs_vectors(const Lookup& call, Why& why) {
  return why.unless(has_vectors(call), "takes rows of whole vectors of 16 bytes");
}

#if WS_DEVICE_CODE

inline Indices indices_of(const Lookup& call, const char* rung) {
  return {call.rows.data[kIndex], call.wide_index, call.rows.stride(kIndex), rung, call.table_rows};
}

#endif

}  // namespace ws::embedding
