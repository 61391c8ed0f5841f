// From a call's dtype and storage, known at run time, to the template arguments of a rung.
#pragma once

#include <algorithm>

#include "kernels/gemm/operations.hpp"

namespace ws::gemm {

// f.template operator()<T, A's contiguous index, B's>() for a call in one of kSet.
template <DTypes kSet, class F>
void with_types(const Call& call, F&& f) {
  constexpr Contiguous kColumns = Contiguous::kColumns;
  constexpr Contiguous kRows = Contiguous::kRows;
  with_type<kSet>(call.dtype, [&]<class T>() {
    const bool b_by_columns = call.b.contiguous == kColumns;
    if (call.a.contiguous == kColumns) {
      b_by_columns ? f.template operator()<T, kColumns, kColumns>()
                   : f.template operator()<T, kColumns, kRows>();
    } else {
      b_by_columns ? f.template operator()<T, kRows, kColumns>()
                   : f.template operator()<T, kRows, kRows>();
    }
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

// Whether the copy engine takes a matrix.
inline bool can_be_copied(const char* name, const Matrix& matrix, DType dtype, Why& why) {
  const int alignment = alignment_of(matrix, dtype);
  return why.unless(alignment >= 16, "rows of ", name, " start at multiples of ", alignment,
                    " bytes, the copy engine needs 16") &&
         why.unless(matrix.runs <= 1 || matrix.leading >= matrix.length, "rows of ", name,
                    " overlap");
}

}  // namespace ws::gemm
