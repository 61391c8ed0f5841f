// Tensor maps: how the copy engine sees a tensor in global memory (CUDA driver API, "Tensor Map
// Object Management", cuTensorMapEncodeTiled; PTX ISA, "Tensor-map"). The driver encodes them on
// the host, in about a microsecond and without touching the GPU; they travel as kernel arguments.
//
// Tiles of 1 to 5 dimensions; im2col would be a second function.
#pragma once

#include <array>
#include <cstdint>

#include "warpsmith/device.hpp"
#include "warpsmith/error.hpp"
#include "warpsmith/ptx/swizzle.hpp"

#ifdef WS_EMULATED
#include <cstring>

#include "emulator/copies.hpp"
#else
#include <cuda.h>  // types alone: the driver's functions are looked up at run time
#endif

namespace ws::ptx {

struct alignas(64) TensorMap {
  std::array<uint64_t, 16> opaque;
};
static_assert(sizeof(TensorMap) == 128);

// What a tensor map says. Dimensions are listed innermost first.
struct TensorMapShape {
  const void* base = nullptr;  // a multiple of 16 bytes
  int element_bytes = 2;       // 1, 2, 4, 8
  int rank = 2;
  std::array<int64_t, 5> extents{};  // elements
  std::array<int64_t, 5>
      strides{};             // bytes, multiples of 16; [0] is not used: the innermost is dense
  std::array<int, 5> box{};  // elements of a copy, up to 256 in each dimension
  // Rows of a box are then up to one swizzle row long, and shorter ones a swizzle row apart.
  Swizzle swizzle = Swizzle::kNone;
  bool is_f32 = false;  // what tensor_add_2d_f32 wants; to copies only the bytes matter
};

namespace detail {

inline std::string describe(const TensorMapShape& shape) {
  std::string text =
      concatenate("tensor map of ", shape.element_bytes, "-byte elements at ", shape.base);
  const auto list = [&](const char* name, const auto& values, int first) {
    text += concatenate(", ", name, " [");
    for (int d = first; d < shape.rank; ++d) {
      text += concatenate(d > first ? ", " : "", values[static_cast<size_t>(d)]);
    }
    text += "]";
  };
  list("extents", shape.extents, 0);
  list("strides", shape.strides, 1);
  list("box", shape.box, 0);
  return text + concatenate(", swizzle ",
                            shape.swizzle == Swizzle::kNone ? 0 : swizzle_row_bytes(shape.swizzle));
}

// The driver's rules, with words for each; it knows only "invalid value".
inline void check(const TensorMapShape& shape) {
  const auto rule = [&shape](bool holds, const auto&... what) {
    if (!holds) [[unlikely]]
      throw InvalidArgument(concatenate(what..., " (", describe(shape), ")"));
  };
  rule(shape.rank >= 1 && shape.rank <= 5, "a tensor map has 1 to 5 dimensions, not ", shape.rank);
  const int size = shape.element_bytes;
  rule(size == 1 || size == 2 || size == 4 || size == 8, "elements have 1, 2, 4 or 8 bytes, not ",
       size);
  rule(!shape.is_f32 || size == 4, "f32 has 4 bytes, not ", size);
  rule(shape.base != nullptr && reinterpret_cast<uintptr_t>(shape.base) % 16 == 0, "the base ",
       shape.base, " is not a multiple of 16 bytes");
  for (size_t d = 0; d < static_cast<size_t>(shape.rank); ++d) {
    rule(shape.extents[d] >= 1 && shape.extents[d] <= int64_t{1} << 32, "extent ", shape.extents[d],
         " of dimension ", d, " is outside [1, 2^32]");
    rule(shape.box[d] >= 1 && shape.box[d] <= 256, "box extent ", shape.box[d], " of dimension ", d,
         " is outside [1, 256]");
    if (d == 0) continue;
    rule(shape.strides[d] % 16 == 0, "stride ", shape.strides[d], " of dimension ", d,
         " is not a multiple of 16 bytes");
    rule(shape.strides[d] > 0 && shape.strides[d] < int64_t{1} << 40, "stride ", shape.strides[d],
         " of dimension ", d, " is outside (0, 2^40)");
  }
  const int row = shape.box[0] * size;
  rule(row % 16 == 0, "a box row of ", row, " bytes is not a multiple of 16");
  rule(shape.swizzle == Swizzle::kNone || row <= swizzle_row_bytes(shape.swizzle), "a box row of ",
       row, " bytes is longer than a swizzle row of ", swizzle_row_bytes(shape.swizzle));
}

#ifndef WS_EMULATED
using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's encoder, found at run time, so that nothing links libcuda.
inline EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                                12000, cudaEnableDefault, &result);
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
      throw Error(concatenate("the driver has no cuTensorMapEncodeTiled (",
                              cudaGetErrorName(status),
                              "): tensor maps need a driver for CUDA 12"));
    }
    return reinterpret_cast<EncodeTiled>(found);
  }();
  return function;
}
#endif

}  // namespace detail

// Encodes a tensor map. Throws InvalidArgument that names the values where the shape breaks a rule.
inline TensorMap make_tensor_map(const TensorMapShape& shape) {
  detail::check(shape);
  TensorMap map{};
#ifdef WS_EMULATED
  emulator::TensorMapImage image{};
  image.magic = emulator::kTensorMapMagic;
  image.element_bytes = static_cast<uint16_t>(shape.element_bytes);
  image.rank = static_cast<uint16_t>(shape.rank);
  image.is_f32 = shape.is_f32;
  image.swizzle_span =
      shape.swizzle == Swizzle::kNone ? 0 : static_cast<uint32_t>(swizzle_row_bytes(shape.swizzle));
  image.base = static_cast<std::byte*>(const_cast<void*>(shape.base));
  image.extents = shape.extents;
  for (size_t d = 0; d < 5; ++d) image.box[d] = static_cast<uint16_t>(shape.box[d]);
  for (size_t d = 1; d < 5; ++d) image.strides[d - 1] = shape.strides[d];
  std::memcpy(&map, &image, sizeof image);
#else
  // Integers stand for floats that are copied: only the bytes matter, and zeros outside the tensor
  // are zeros in both. What is added is added as the map says.
  constexpr CUtensorMapDataType kTypes[] = {
      CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_UINT16, CU_TENSOR_MAP_DATA_TYPE_UINT32,
      CU_TENSOR_MAP_DATA_TYPE_UINT64};
  constexpr CUtensorMapSwizzle kSwizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B,
                                              CU_TENSOR_MAP_SWIZZLE_64B,
                                              CU_TENSOR_MAP_SWIZZLE_128B};
  cuuint64_t extents[5];
  cuuint64_t strides[4];
  cuuint32_t box[5];
  cuuint32_t steps[5];
  for (int d = 0; d < shape.rank; ++d) {
    const auto at = static_cast<size_t>(d);
    extents[d] = static_cast<cuuint64_t>(shape.extents[at]);
    if (d > 0) strides[d - 1] = static_cast<cuuint64_t>(shape.strides[at]);
    box[d] = static_cast<cuuint32_t>(shape.box[at]);
    steps[d] = 1;
  }
  int type = 0;
  while (1 << type < shape.element_bytes) ++type;
  const CUresult result = detail::encode_tiled()(
      reinterpret_cast<CUtensorMap*>(&map),
      shape.is_f32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : kTypes[type],
      static_cast<cuuint32_t>(shape.rank), const_cast<void*>(shape.base), extents, strides, box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, kSwizzles[static_cast<int>(shape.swizzle)],
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error(concatenate("cuTensorMapEncodeTiled: error ", static_cast<int>(result), " (",
                            detail::describe(shape), ")"));
  }
#endif
  return map;
}

// The map of a matrix [rows, columns] of T whose rows are `row_stride` elements apart, for boxes of
// [box_rows, box_columns]. is_f32: to be added to.
template <class T>
TensorMap make_tensor_map_2d(const T* base, int64_t rows, int64_t columns, int64_t row_stride,
                             int box_rows, int box_columns, Swizzle swizzle, bool is_f32 = false) {
  constexpr auto kBytes = static_cast<int>(sizeof(T));
  return make_tensor_map({.base = base,
                          .element_bytes = kBytes,
                          .rank = 2,
                          .extents = {columns, rows},
                          .strides = {0, row_stride * kBytes},
                          .box = {box_columns, box_rows},
                          .swizzle = swizzle,
                          .is_f32 = is_f32});
}

// Matrices of one shape, `stride` elements apart; of one alone its stride does not matter.
struct MatrixBatch {
  int64_t count = 1;
  int64_t stride = 0;
};

// The map of a batch of such matrices, for boxes of one of them: what is outside a matrix is not in
// its neighbour.
template <class T>
TensorMap make_tensor_map_3d(const T* base, const MatrixBatch& batch, int64_t rows, int64_t columns,
                             int64_t row_stride, int box_rows, int box_columns, Swizzle swizzle) {
  constexpr auto kBytes = static_cast<int>(sizeof(T));
  return make_tensor_map(
      {.base = base,
       .element_bytes = kBytes,
       .rank = 3,
       .extents = {columns, rows, batch.count},
       .strides = {0, row_stride * kBytes, (batch.count > 1 ? batch.stride : row_stride) * kBytes},
       .box = {box_columns, box_rows, 1},
       .swizzle = swizzle});
}

}  // namespace ws::ptx
