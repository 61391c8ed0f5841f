// What rungs share: contiguous images, and the sum that a gradient is.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/upsample/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::upsample {

// Sources of an axis whose numbers are whole in f32: five instructions, none of 64 bits. What is
// not below 0 is cut as it is floored.
struct ShortAxis {
  static constexpr int64_t kMost = int64_t{1} << 24;

  float step;
  float shift;
  float last;

  explicit ShortAxis(const Axis& axis)
      : step(axis.step), shift(axis.shift), last(static_cast<float>(axis.from - 1)) {}

  __host__ __device__ int source(int i) const {
    return static_cast<int>(::fminf((static_cast<float>(i) + shift) * step, last));
  }
};

// A row further down, which is so many bytes long: one multiplication and addition, where elements
// and strides of 64 bits take four.
template <class T>
__device__ __forceinline__ T* rows_below(T* at, int rows, uint32_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(at) +
                              static_cast<uint64_t>(static_cast<uint32_t>(rows)) * bytes);
}

// ---- Which rungs take a call --------------------------------------------------------------------

// Planes one after the other, rows and columns in order.
template <class OperationCall>
bool is_dense(const OperationCall& call, Why& why) {
  const auto follows = [&](const Strides& s, int64_t rows, int64_t columns) {
    return (columns == 1 || s.column == 1) && (rows == 1 || s.row == columns) &&
           (call.channels == 1 || s.channel == rows * columns) &&
           (call.images == 1 || s.image == call.channels * rows * columns);
  };
  const Strides& small = OperationCall::kIsForward ? call.in_strides : call.out_strides;
  const Strides& large = OperationCall::kIsForward ? call.out_strides : call.in_strides;
  return why.unless(follows(small, call.rows.from, call.columns.from) &&
                        follows(large, call.rows.to, call.columns.to),
                    "takes contiguous planes");
}
// Channels side by side.
inline bool has_channels_inside(const Call& call, Why& why) {
  return why.unless(call.in_strides.channel == 1 && call.out_strides.channel == 1,
                    "takes channels that lie side by side");
}
inline bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }
inline int64_t width_of(const Call& call) { return 16 / static_cast<int64_t>(size_of(call.dtype)); }
// So that a thread's number fits the divisions.
inline bool is_counted(int64_t threads, Why& why) {
  return why.unless(threads < (int64_t{1} << 31), "takes up to 2^31 accesses, not ", threads);
}
// So that ShortAxis has its columns, and its rows.
inline bool is_short(const Call& call, Why& why) {
  const auto fits = [](const Axis& axis) {
    return axis.from <= ShortAxis::kMost && axis.to <= ShortAxis::kMost;
  };
  return why.unless(fits(call.rows) && fits(call.columns), "takes up to ", ShortAxis::kMost,
                    " rows and columns");
}
// So that a block has the columns of bands, and reads those of grad in vectors.
inline bool fits_bands(const BackwardCall& call, int64_t most, Why& why) {
  const int64_t width = width_of(call);
  return is_dense(call, why) &&
         why.unless(call.columns.from <= most && call.columns.to <= most, "takes up to ", most,
                    " columns, not ", call.columns.from, " and ", call.columns.to) &&
         why.unless(call.columns.to % width == 0 && is_aligned(call.in), "reads whole vectors of ",
                    width, " columns, aligned to 16 bytes, not ", call.columns.to) &&
         is_counted(call.planes() * std::max(call.rows.from, call.rows.to), why);
}

}  // namespace ws::upsample
