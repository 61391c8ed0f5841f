// Where append_kv's tokens go, as kernels see it.
#pragma once

#include "kernels/attention/append.hpp"
#include "kernels/attention/scales.hpp"
#include "kernels/rope/rotation.hpp"
#include "warpsmith/device_error.hpp"

namespace ws::attention {

// Made on the host; `rung` is of static storage.
struct AppendPlaces {
  IndexCheck room, page, row;
  ScaleCheck scale_k, scale_v;

  AppendPlaces(const AppendKv::Call& call, const char* rung)
      : room(rung, "seqlens", call.most_pages * call.page - call.tokens + 1),
        page(rung, "block_table", call.total_pages),
        row(rung, "cos", call.table_rows),
        scale_k(rung, "scale_k"),
        scale_v(rung, "scale_v") {}

#if WS_DEVICE_CODE
  struct Place {
    bool exists = false;
    int64_t position = 0;
    int64_t page = 0;
    int64_t row = 0;  // of the page
    // What a cache of 8 bits divides by.
    float scale_k = 1;
    float scale_v = 1;
  };
  // Of token t of sequence b and a head, in a cache of C; what is wrong is reported.
  template <class C>
  __device__ __forceinline__ Place of(const AppendKv::Call& call, int64_t b, int64_t t,
                                      int64_t head) const {
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
    Place place{true, position, at, position - nth * call.page};
    if constexpr (sizeof(C) == 1) {
      place.scale_k = HeadScales::number(call.scale_k, b, head);
      place.scale_v = HeadScales::number(call.scale_v, b, head);
      if (!scale_k(place.scale_k, position_in(call, call.scale_k, b, head)) ||
          !scale_v(place.scale_v, position_in(call, call.scale_v, b, head))) {
        return {};
      }
    }
    return place;
  }

 private:
  __device__ __forceinline__ static int64_t position_in(const AppendKv::Call& call,
                                                        const PerHead& scales, int64_t b,
                                                        int64_t head) {
    return (scales.batch == 0 ? 0 : b * call.kv_heads) + head;
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

// f.template operator()<T, C, V>() with the types of new keys, of the cache and of tables.
template <class F>
void with_append_types(const AppendKv::Call& call, F&& f) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    const auto with_table = [&]<class C>() {
      if (call.table_dtype == DType::kF32) {
        f.template operator()<T, C, float>();
      } else {
        f.template operator()<T, C, T>();
      }
    };
    if (call.cache_dtype == DType::kE4m3) {
      with_table.template operator()<e4m3>();
    } else {
      with_table.template operator()<T>();
    }
  });
}

}  // namespace ws::attention
