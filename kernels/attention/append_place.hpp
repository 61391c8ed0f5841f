// Where append_kv's tokens go, as kernels see it.
#pragma once

#include "kernels/attention/append.hpp"
#include "kernels/rope/rotation.hpp"
#include "warpsmith/device_error.hpp"

namespace ws::attention {

// Made on the host; `rung` is of static storage.
struct AppendPlaces {
  IndexCheck room, page, row;

  AppendPlaces(const AppendKv::Call& call, const char* rung)
      : room(rung, "seqlens", call.most_pages * call.page - call.tokens + 1),
        page(rung, "block_table", call.total_pages),
        row(rung, "cos", call.table_rows) {}

#if WS_DEVICE_CODE
  struct Place {
    bool exists = false;
    int64_t position = 0;
    int64_t page = 0;
    int64_t row = 0;  // of the page
  };
  // Of token t of sequence b; what is wrong is reported.
  __device__ __forceinline__ Place of(const AppendKv::Call& call, int64_t b, int64_t t) const {
    const int64_t before = thread::load(call.seqlens.data + b * call.seqlens.stride);
    if (!room(before, b)) return {};
    const int64_t position = before + t;
    if (call.turns && !row(position, position)) return {};
    const int64_t nth = position / call.page;
    int64_t at = b;
    if (call.pages != nullptr) {
      at = thread::load(call.pages + b * call.pages_batch + nth * call.pages_column);
      if (!page(at, b * call.most_pages + nth)) return {};
    }
    return {true, position, at, position - nth * call.page};
  }
#endif
};

#if WS_DEVICE_CODE
// Pair i of a position.
template <class V>
__device__ __forceinline__ thread::SinCos angle_of(const AppendKv::Call& call, int64_t position,
                                                   int64_t i) {
  const auto at = [&](const AppendKv::Table& table) {
    return to_float(
        thread::load(static_cast<const V*>(table.data) + position * table.row + i * table.column));
  };
  return {at(call.sin), at(call.cos)};
}
#endif

// f.template operator()<T, V>() with the types of keys and tables.
template <class F>
void with_append_types(const AppendKv::Call& call, F&& f) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    if (call.table_dtype == DType::kF32) {
      f.template operator()<T, float>();
    } else {
      f.template operator()<T, T>();
    }
  });
}

}  // namespace ws::attention
