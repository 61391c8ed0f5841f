// Indices as kernels see them.
#pragma once

#include "catalogue/dtype.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE

// Indices of i64 or i32, at one stride.
class Indices {
 public:
  Indices() = default;
  // Rows below `limit` are right; `rung` and the tensor's name are of static storage.
  Indices(const void* data, bool wide, int64_t stride, const char* rung, int64_t limit,
          const char* tensor = "index")
      : data_(data), stride_(stride), is_wide_(wide), check_(rung, tensor, limit), limit_(limit) {}

  __device__ __forceinline__ int64_t operator[](int64_t i) const { return at_offset(i * stride_); }
  // The one `offset` elements from the first.
  __device__ __forceinline__ int64_t at_offset(int64_t offset) const {
    return is_wide_ ? thread::load(static_cast<const int64_t*>(data_) + offset)
                    : thread::load(static_cast<const int32_t*>(data_) + offset);
  }
  // Those at several offsets, or from each of them on: all loads are under way before the first is
  // used.
  template <int kCount, class Index>
  __device__ __forceinline__ void read(const int64_t (&offset)[kCount],
                                       Index (&index)[kCount]) const {
    if (is_wide_) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        assign(index[j], static_cast<const int64_t*>(data_) + offset[j]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        assign(index[j], static_cast<const int32_t*>(data_) + offset[j]);
      }
    }
  }
  __device__ __forceinline__ int64_t stride() const { return stride_; }
  // The first, for who knows which they are.
  template <class Stored>
  __device__ __forceinline__ const Stored* as() const {
    return static_cast<const Stored*>(data_);
  }
  int64_t limit() const { return limit_; }
  // False where it is no row, which is reported of index `position`.
  __device__ __forceinline__ bool is_right(int64_t index, int64_t position) const {
    return check_(index, position);
  }
  // The same, which tells nobody.
  __device__ __forceinline__ bool exists(int64_t index) const {
    return static_cast<uint64_t>(index) < static_cast<uint64_t>(limit_);
  }
  // For who has other limits.
  __device__ __forceinline__ const IndexCheck& check() const { return check_; }

 private:
  template <class Stored>
  __device__ __forceinline__ static void assign(int64_t& index, const Stored* from) {
    index = thread::load(from);
  }
  template <class Stored, int kWidth>
  __device__ __forceinline__ static void assign(Vec<int64_t, kWidth>& index, const Stored* from) {
    const auto stored = thread::load<kWidth>(from);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) index[k] = stored[k];
  }

  const void* data_ = nullptr;
  int64_t stride_ = 1;
  bool is_wide_ = true;
  IndexCheck check_;
  int64_t limit_ = 0;
};

namespace detail {
template <size_t kBytes>
using WordOf = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;
}  // namespace detail

// f.operator()<Word>() with an unsigned integer as large as an element: what is only moved is of no
// type.
template <DTypes kSet, class F>
void with_word(DType dtype, F&& f) {
  with_type<kSet>(dtype, [&]<class T>() { f.template operator()<detail::WordOf<sizeof(T)>>(); });
}

#endif

}  // namespace ws::embedding
