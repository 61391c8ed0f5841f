// From a call's dtype and storage, known at run time, to the template arguments of a rung.
#pragma once

#include "kernels/gemm/problem.hpp"

namespace ws::gemm {

// f.template operator()<T, A's contiguous index, B's>() for a call in f16 or bf16.
template <class F>
void with_types(DType dtype, Contiguous a, Contiguous b, F&& f) {
  constexpr Contiguous kColumns = Contiguous::kColumns;
  constexpr Contiguous kRows = Contiguous::kRows;
  const auto with_dtype = [&]<Contiguous kA, Contiguous kB>() {
    if (dtype == DType::kF16) {
      f.template operator()<half, kA, kB>();
    } else {
      f.template operator()<bf16, kA, kB>();
    }
  };
  if (a == kColumns) {
    b == kColumns ? with_dtype.template operator()<kColumns, kColumns>()
                  : with_dtype.template operator()<kColumns, kRows>();
  } else {
    b == kColumns ? with_dtype.template operator()<kRows, kColumns>()
                  : with_dtype.template operator()<kRows, kRows>();
  }
}

// The matrices of a call with their storage, for rungs that want one stride to be 1.
struct NamedStorage {
  const char* name;
  void* data;
  Storage storage;
  int64_t runs;  // contiguous runs and their length
  int64_t length;
};

inline std::array<NamedStorage, 3> storages_of(const Call& call) {
  const auto named = [](const char* name, const Matrix& matrix, int64_t rows, int64_t columns) {
    const Storage storage = storage_of(matrix, rows, columns);
    const bool by_rows = storage.contiguous == Contiguous::kColumns;
    return NamedStorage{name, matrix.data, storage, by_rows ? rows : columns,
                        by_rows ? columns : rows};
  };
  return {named("a", call.a, call.m, call.k), named("b", call.b, call.k, call.n),
          named("c", call.c, call.m, call.n)};
}

// Why a rung that walks contiguous runs with 32-bit indices inside a tile does not take the call.
inline Reason runs_supported(const Call& call) {
  constexpr int64_t kMaxExtent = 0x7FFFFFFF - 512;  // a tile more does not overflow
  for (const NamedStorage& matrix : storages_of(call)) {
    if (matrix.storage.contiguous == Contiguous::kNeither) {
      return concatenate("needs a stride of 1 in ", matrix.name);
    }
    if (std::max({matrix.runs, matrix.length, matrix.storage.leading}) > kMaxExtent) {
      return concatenate("an extent or stride of ", matrix.name, " is over ", kMaxExtent);
    }
  }
  return {};
}

}  // namespace ws::gemm
