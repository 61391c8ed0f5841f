// From a call's dtype and storage, known at run time, to the template arguments of a rung.
#pragma once

#include <algorithm>

#include "kernels/gemm/operations.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/tile/raster.hpp"

namespace ws::gemm {

// f.template operator()<A's contiguous index, B's>().
template <class F>
void with_contiguous(const Call& call, F&& f) {
  constexpr Contiguous kColumns = Contiguous::kColumns;
  constexpr Contiguous kRows = Contiguous::kRows;
  const bool b_by_columns = call.b.contiguous == kColumns;
  if (call.a.contiguous == kColumns) {
    b_by_columns ? f.template operator()<kColumns, kColumns>()
                 : f.template operator()<kColumns, kRows>();
  } else {
    b_by_columns ? f.template operator()<kRows, kColumns>() : f.template operator()<kRows, kRows>();
  }
}

// f.template operator()<T, A's contiguous index, B's>() for a call in one of kSet.
template <DTypes kSet, class F>
void with_types(const Call& call, F&& f) {
  with_type<kSet>(call.dtype, [&]<class T>() {
    with_contiguous(call,
                    [&]<Contiguous kA, Contiguous kB>() { f.template operator()<T, kA, kB>(); });
  });
}

struct NamedMatrix {
  const char* name;
  const Matrix& matrix;
};
inline std::array<NamedMatrix, 3> matrices_of(const Call& call) {
  return {{{"a", call.a}, {"b", call.b}, {"c", call.c}}};
}

// Whether a rung can walk contiguous runs with 32-bit indices inside a tile.
inline bool runs_supported(const Call& call, Why& why) {
  constexpr int64_t kMaxExtent = 0x7FFFFFFF - 512;  // a tile more does not overflow
  for (const auto& [name, matrix] : matrices_of(call)) {
    if (!why.unless(matrix.contiguous != Contiguous::kNeither, "needs a stride of 1 in ", name) ||
        !why.unless(std::max({matrix.runs, matrix.length, matrix.leading}) <= kMaxExtent,
                    "an extent or stride of ", name, " is over ", kMaxExtent)) {
      return false;
    }
  }
  return true;
}

// Whether a call of f32 may be computed on tensor cores.
inline bool allows_tf32(const Call& call, Why& why) {
  return why.unless(call.tf32, "cuts f32 to TF32, which precision=tf32 allows");
}

// Whether A and B are stored row by row, with any space between rows.
inline bool is_nn(const Call& call, Why& why) {
  return why.unless(
      call.a.contiguous == Contiguous::kColumns && call.b.contiguous == Contiguous::kColumns,
      "needs layout nn");
}

// The output in tiles, in bands of `band` rows.
constexpr tile::Raster raster_of(const Call& call, int tile_m, int tile_n, int band = 2048) {
  return {.tiles_m = static_cast<int>(divide_up(call.m, tile_m)),
          .tiles_n = static_cast<int>(divide_up(call.n, tile_n)),
          .group = std::max(1, band / tile_m)};
}

// Bytes of one copy of A or B by a thread: 16, 4 or 2.
inline int copy_bytes_of(const Call& call) {
  const int aligned = std::min(alignment_of(call.a, call.dtype), alignment_of(call.b, call.dtype));
  return aligned == 8 ? 4 : aligned;
}

// What the rungs take that tell of stages: A and B row by row, copied by 16 bytes. Other rungs have
// other layouts and rows.
inline bool is_aligned_nn(const Call& call, Why& why) {
  return runs_supported(call, why) &&
         why.unless(
             call.a.contiguous == Contiguous::kColumns && call.b.contiguous == Contiguous::kColumns,
             "needs layout nn") &&
         why.unless(copy_bytes_of(call) == 16, "rows of a and b start at multiples of ",
                    copy_bytes_of(call), " bytes, copies need 16");
}

// The arguments of a kernel whose threads copy the tiles of A and B.
template <class T>
struct CopiedArguments {
  const T* a;
  const T* b;
  T* c;
  int a_leading, b_leading;  // strides from run to run, in elements
  int64_t c_leading;
  int m, n, k;
  tile::Raster raster;
  int copy_bytes;  // of one copy of A or B
  bool c_aligned;  // rows of C start at multiples of 16 bytes

  CopiedArguments() = default;
  CopiedArguments(const Call& call, const tile::Raster& tiles, int bytes)
      : a(call.a.as<const T>()),
        b(call.b.as<const T>()),
        c(call.c.as<T>()),
        a_leading(static_cast<int>(call.a.leading)),
        b_leading(static_cast<int>(call.b.leading)),
        c_leading(call.c.leading),
        m(static_cast<int>(call.m)),
        n(static_cast<int>(call.n)),
        k(static_cast<int>(call.k)),
        raster(tiles),
        copy_bytes(bytes),
        c_aligned(alignment_of(call.c, call.dtype) == 16) {}
};

#if WS_DEVICE_CODE
// Neighbours of a row of C, of which `left` are left.
template <class T, int kWidth>
__device__ __forceinline__ void put_some(T* to, int left, const Vec<T, kWidth>& values) {
  if (left >= kWidth) {
    thread::store(to, values);
  } else {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      if (k < left) thread::store(to + k, values[k]);
    }
  }
}

// Two neighbours of a row of C, of which `left` are left.
template <class T>
__device__ __forceinline__ void store_pair(T* to, int left, bool aligned, float first,
                                           float second WS_AND_PLACE) {
  if (aligned && left >= 2) {
    thread::store(to, Vec<T, 2>{from_float<T>(first), from_float<T>(second)} WS_PASS_AND_PLACE);
  } else {
    if (left >= 1) thread::store(to, from_float<T>(first) WS_PASS_AND_PLACE);
    if (left >= 2) thread::store(to + 1, from_float<T>(second) WS_PASS_AND_PLACE);
  }
}
#endif

// Whether the copy engine takes a matrix.
inline bool can_be_copied(const char* name, const Matrix& matrix, DType dtype, Why& why) {
  const int alignment = alignment_of(matrix, dtype);
  return why.unless(alignment >= 16, "rows of ", name, " start at multiples of ", alignment,
                    " bytes, the copy engine needs 16") &&
         why.unless(matrix.runs <= 1 || matrix.leading >= matrix.length, "rows of ", name,
                    " overlap") &&
         why.unless(matrix.batch >= 0, "products of ", name, " lie one before the other");
}

// Whether it stores c, of `dtype`: it cuts at multiples of 16 bytes, not at the tensor's edge.
inline bool is_stored_by_boxes(const Call& call, DType dtype) {
  Why nobody;
  return can_be_copied("c", call.c, dtype, nobody) &&
         call.c.length * static_cast<int64_t>(size_of(dtype)) % 16 == 0;
}
inline bool is_stored_by_boxes(const Call& call) { return is_stored_by_boxes(call, call.dtype); }

// Whether it takes both operands; C may lie as it likes.
inline bool operands_can_be_copied(const Call& call, Why& why) {
  return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why) &&
         can_be_copied("a", call.a, call.dtype, why) && can_be_copied("b", call.b, call.dtype, why);
}

}  // namespace ws::gemm
