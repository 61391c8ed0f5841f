// What kernels of every format share: sums, the vectors, and entries that say by their columns
// which element of x they are multiplied with.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/spmv/operations.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/store_relaxed.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::spmv {

// What sums of T are added up in.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline size_t size_of_sum(DType dtype) {
  return dtype == DType::kF64 ? sizeof(double) : sizeof(float);
}

// f.operator()<T, I>() with the types of values and of indices.
template <class Call, class F>
void with_types(const Call& call, F&& f) {
  with_type<kValues>(call.dtype, [&]<class T>() {
    with_type<kIndices>(call.index, [&]<class I>() { f.template operator()<T, I>(); });
  });
}

// Whether kCount elements can be read at once from where the tensor begins.
template <class T, int kCount>
bool begins_at_vector(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % alignof(Vec<T, kCount>) == 0;
}

#if WS_DEVICE_CODE
template <class T>
__device__ __forceinline__ Sum<T> widen(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return to_float(value);
  }
}
template <class T>
__device__ __forceinline__ T narrow(Sum<T> value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return from_float<T>(value);
  }
}

template <class T>
struct Strided {
  T* data;
  int64_t step;

  __device__ __forceinline__ T* at(int64_t i) const { return data + i * step; }
  // Of fewer than 2^31 elements, 2^31 bytes from one to the next: one multiplication of 32 bits.
  __device__ __forceinline__ T* near(int i) const {
    const auto bytes = static_cast<int>(step * static_cast<int64_t>(sizeof(T)));
    using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    return reinterpret_cast<T*>(reinterpret_cast<Byte*>(data) + int64_t{i} * bytes);
  }
};

// The elements `step` apart of which it is `known` that they are there; one access where all are
// and `at_once` says that they lie so.
template <int kCount, class T>
__device__ __forceinline__ Vec<T, kCount> load_known(const T* data, int64_t step, bool at_once,
                                                     const bool (&known)[kCount]) {
  Vec<T, kCount> elements{};
  if (at_once) elements = thread::load<kCount>(data);
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    if (known[e] && !at_once) elements[e] = thread::load(data + e * step);
  }
  return elements;
}

// The matrix' columns, as entries name them. One that is none is reported, and its entry counts as
// 0.
template <class T, class I>
class Columns {
 public:
  // `rung` is of static storage.
  Columns(int64_t count, const char* rung)
      : limit_(static_cast<Unsigned>(std::min(count, kMostNamed))), check_(rung, "col", count) {}

  // False where it is none, which is reported; `position` is its place in `col`.
  __device__ __forceinline__ bool operator()(int64_t column, int64_t position) const {
    return check_(column, position);
  }
  __device__ __forceinline__ Sum<T> product(T value, I column, int64_t position,
                                            const Strided<const T>& x) const {
    if (!(*this)(column, position)) return 0;
    return widen(value) * widen(thread::load(x.at(column)));
  }

  // Which of several columns exist. Told without a branch, so that loads by all of them are under
  // way at once; what is wrong is reported after those.
  template <int kCount>
  struct Found {
    bool good[kCount];
    int wrong = -1;
    I wrong_column = 0;
  };
  template <int kCount>
  __device__ __forceinline__ Found<kCount> find(const Vec<I, kCount>& at,
                                                const bool (&known)[kCount]) const {
    Found<kCount> found;
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      found.good[e] = known[e] && exists(at[e]);
      if (known[e] && !found.good[e]) {
        found.wrong = e;
        found.wrong_column = at[e];
      }
    }
    return found;
  }
  // position(e) is that of the e-th column.
  template <int kCount, class Position>
  __device__ __forceinline__ void report(const Found<kCount>& found,
                                         const Position& position) const {
    if (found.wrong >= 0) (*this)(found.wrong_column, position(found.wrong));
  }

  // The products of entries that are `known`, 0 of others.
  template <int kCount, class Position>
  __device__ __forceinline__ Vec<Sum<T>, kCount> products(const Vec<T, kCount>& of,
                                                          const Vec<I, kCount>& at,
                                                          const bool (&known)[kCount],
                                                          const Strided<const T>& x,
                                                          const Position& position) const {
    const Found<kCount> found = find(at, known);
    Vec<T, kCount> factors{};
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      if (found.good[e]) factors[e] = thread::load(x.at(at[e]));
    }
    Vec<Sum<T>, kCount> result;
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      result[e] = found.good[e] ? widen(of[e]) * widen(factors[e]) : 0;
    }
    report(found, position);
    return result;
  }

  // The same where x is `near`; false, and nothing is read, where a column does not exist. One
  // check for all, before the first load: under a condition of its own each would wait for the one
  // before.
  template <int kCount>
  __device__ __forceinline__ bool multiply_all(const Vec<T, kCount>& of, const Vec<I, kCount>& at,
                                               const Strided<const T>& x,
                                               Vec<Sum<T>, kCount>& products) const {
    bool all_exist = true;
#pragma unroll
    for (int e = 0; e < kCount; ++e) all_exist = all_exist && exists(at[e]);
    if (!all_exist) return false;
    Vec<T, kCount> factors{};
#pragma unroll
    for (int e = 0; e < kCount; ++e) factors[e] = thread::load(x.near(static_cast<int>(at[e])));
#pragma unroll
    for (int e = 0; e < kCount; ++e) products[e] = widen(of[e]) * widen(factors[e]);
    return true;
  }

 private:
  using Unsigned = std::make_unsigned_t<I>;
  static constexpr int64_t kMostNamed =
      sizeof(I) == 4 ? int64_t{1} << 31 : std::numeric_limits<int64_t>::max();
  __device__ __forceinline__ bool exists(I column) const {
    return static_cast<Unsigned>(column) < limit_;
  }

  Unsigned limit_;  // above all columns that I can name and that exist
  IndexCheck check_;
};

// Where sums of rows go.
template <class T>
class Result {
 public:
  explicit Result(const Vectors& call)
      : y_{static_cast<T*>(call.y), call.y_step},
        added_{static_cast<const T*>(call.added), call.added_step},
        alpha_(static_cast<Sum<T>>(call.alpha)),
        beta_(static_cast<Sum<T>>(call.beta)) {}

  __device__ __forceinline__ void store(int64_t row, Sum<T> sum) const {
    thread::store(y_.at(row), completed(row, sum));
  }
  // The same where a wrong matrix may have several threads store a row: one of them stands.
  __device__ __forceinline__ void store_relaxed(int64_t row, Sum<T> sum) const {
    ptx::st_global_relaxed(y_.at(row), completed(row, sum));
  }

 private:
  __device__ __forceinline__ T completed(int64_t row, Sum<T> sum) const {
    Sum<T> result = alpha_ * sum;
    if (added_.data != nullptr) result += beta_ * widen(thread::load(added_.at(row)));
    return narrow<T>(result);
  }

  Strided<T> y_;
  Strided<const T> added_;
  Sum<T> alpha_;
  Sum<T> beta_;
};

template <class T>
Strided<const T> vector_of(const Vectors& call) {
  return {static_cast<const T*>(call.x), call.x_step};
}
#endif

}  // namespace ws::spmv
