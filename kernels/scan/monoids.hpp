// What is scanned, for kernels that are written once for all operations. A monoid has
//
//   Element, Result             what it reads and writes
//   Accumulator                 what is known of some elements, of 4 or 8 bytes
//   none()                      of no elements
//   filler()                    an Element that changes nothing: what stands beyond a line's ends
//   lift(x)                     of one element
//   merge(a, b)                 of elements and of those behind them
//   lower(a)                    the result, as results() takes it: a float of any float
//
// Operations that differ by a sign share one, so that kernels are compiled once.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/reducers.hpp"
#include "kernels/scan/operations.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/packed.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// What sums and products of a T are made in on the way to a Result: f32 of narrow floats, whole
// numbers in the width of the result.
template <class T, class Result>
using Exact = std::conditional_t<std::is_integral_v<T>, Result, float>;

// What lower() gave, as results; narrow floats in pairs.
template <class Result, class Lowered, int N>
__device__ __forceinline__ Vec<Result, N> results(const Vec<Lowered, N>& lowered) {
  if constexpr (kIsNarrowFloat<Result>) {
    return thread::convert<Result>(lowered);
  } else {
    return lowered;
  }
}
template <class Accumulator, class T>
__device__ __forceinline__ Accumulator lifted(T x) {
  if constexpr (std::is_integral_v<Accumulator>) {
    return static_cast<Accumulator>(x);
  } else {
    return to_float(x);
  }
}
template <class T, class Number>
__device__ __forceinline__ T element_of(Number x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x);
  } else {
    return from_float<T>(x);
  }
}

template <class T, class To>
struct SumOf {
  using Element = T;
  using Result = To;
  using Accumulator = Exact<T, To>;

  __device__ __forceinline__ static Accumulator none() { return 0; }
  __device__ __forceinline__ static T filler() { return element_of<T>(0.0F); }
  __device__ __forceinline__ static Accumulator lift(T x) { return lifted<Accumulator>(x); }
  __device__ __forceinline__ static Accumulator merge(Accumulator a, Accumulator b) {
    if constexpr (std::is_integral_v<Accumulator>) {  // wraps around, as torch's does
      using Bits = std::make_unsigned_t<Accumulator>;
      return static_cast<Accumulator>(static_cast<Bits>(a) + static_cast<Bits>(b));
    } else {
      return a + b;
    }
  }
  __device__ __forceinline__ static Accumulator lower(Accumulator sum) { return sum; }
};

template <class T, class To>
struct ProductOf {
  using Element = T;
  using Result = To;
  using Accumulator = Exact<T, To>;

  __device__ __forceinline__ static Accumulator none() { return 1; }
  __device__ __forceinline__ static T filler() { return element_of<T>(1.0F); }
  __device__ __forceinline__ static Accumulator lift(T x) { return lifted<Accumulator>(x); }
  __device__ __forceinline__ static Accumulator merge(Accumulator a, Accumulator b) {
    if constexpr (std::is_integral_v<Accumulator>) {
      using Bits = std::make_unsigned_t<Accumulator>;
      return static_cast<Accumulator>(static_cast<Bits>(a) * static_cast<Bits>(b));
    } else {
      return a * b;
    }
  }
  __device__ __forceinline__ static Accumulator lower(Accumulator product) { return product; }
};

// As a maximum and the sum of exponentials below it: one exponential a merge, and the logarithm is
// taken of each result once, so that errors of logarithms do not add up.
template <class T>
struct LogSumOf {
  using Element = T;
  using Result = T;
  using Accumulator = thread::MaxSum;

  __device__ __forceinline__ static Accumulator none() { return Accumulator::none(); }
  __device__ __forceinline__ static T filler() { return element_of<T>(-thread::kInfinity); }
  __device__ __forceinline__ static Accumulator lift(T x) { return {to_float(x), 1.0F}; }
  __device__ __forceinline__ static Accumulator merge(const Accumulator& a, const Accumulator& b) {
    return thread::merge(a, b);
  }
  __device__ __forceinline__ static float lower(const Accumulator& total) {
    return total.max + thread::fast_log2(total.sum) * thread::kLn2;
  }
};

// Maxima; minima are those of what is turned round.
template <class T>
struct LargestOf : reduce::LargestOf<T> {
  using Base = reduce::LargestOf<T>;
  using Element = T;
  using Result = T;
  using Accumulator = typename Base::Accumulator;

  __device__ __forceinline__ T filler() const { return element_of<T>(lower(Base::none())); }
  __device__ __forceinline__ Accumulator lift(T x) const {
    return this->turned(lifted<Accumulator>(x));
  }
  __device__ __forceinline__ Accumulator lower(Accumulator most) const {
    return this->turned.back(most);
  }
};

// ---- Elements in words --------------------------------------------------------------------------

// In the words that they came in: the compiler would rather keep each 16-bit element in a register
// of its own.
template <class T>
using Packed = row::Packed<T, row::kWidest<T>>;

template <class T, int N>
__device__ __forceinline__ T element(const row::Packed<T, N>& packed, int e) {
  T x;
  if constexpr (sizeof(T) == 2) {
    x.bits = static_cast<uint16_t>(packed.words[e / 2] >> (16 * (e % 2)));
  } else if constexpr (sizeof(T) == 4) {
    x = std::bit_cast<T>(packed.words[e]);
  } else {
    const uint64_t high = packed.words[2 * e + 1];
    x = static_cast<T>(high << 32 | packed.words[2 * e]);
  }
  return x;
}
template <class T, int N>
__device__ __forceinline__ void set_element(row::Packed<T, N>& packed, int e, T x) {
  if constexpr (sizeof(T) == 2 && N == 1) {
    packed.words[0] = x.bits;
  } else if constexpr (sizeof(T) == 2) {
    uint32_t& word = packed.words[e / 2];
    word = e % 2 == 0 ? (word & 0xFFFF0000U) | x.bits
                      : (word & 0x0000FFFFU) | static_cast<uint32_t>(x.bits) << 16;
  } else if constexpr (sizeof(T) == 4) {
    packed.words[e] = std::bit_cast<uint32_t>(x);
  } else {
    packed.words[2 * e] = static_cast<uint32_t>(x);
    packed.words[2 * e + 1] = static_cast<uint32_t>(static_cast<uint64_t>(x) >> 32);
  }
}
template <int N, class T>
__device__ __forceinline__ row::Packed<T, N> filled_with(T x) {
  row::Packed<T, N> all{};
#pragma unroll
  for (int e = 0; e < N; ++e) set_element(all, e, x);
  return all;
}
template <class T>
__device__ __forceinline__ Packed<T> filled_with(T x) {
  return filled_with<row::kWidest<T>>(x);
}
// Last element first.
template <class T, int N>
__device__ __forceinline__ row::Packed<T, N> turned_round(const row::Packed<T, N>& packed) {
  row::Packed<T, N> turned;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if constexpr (sizeof(T) == 2) {
      const uint32_t word = packed.words[3 - w];
      turned.words[w] = word << 16 | word >> 16;
    } else {
      turned.words[w] = packed.words[sizeof(T) == 4 ? 3 - w : w ^ 2];
    }
  }
  return turned;
}
template <class T, int N>
__device__ __forceinline__ Vec<T, N> turned_round(const Vec<T, N>& x) {
  Vec<T, N> turned;
#pragma unroll
  for (int e = 0; e < N; ++e) turned[e] = x[N - 1 - e];
  return turned;
}

// ---- From a call to its monoid ----------------------------------------------------------------

// f(monoid) for the call's operation and dtypes, of kTaken.
template <template <class, class> class Monoid, DTypes kTaken, class F>
void with_result(const Scan& call, const F& f) {
  with_type<kTaken>(call.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, int32_t>) {
      if (call.output_dtype == DType::kI64) return f(Monoid<T, int64_t>{});
    }
    f(Monoid<T, T>{});
  });
}
template <DTypes kTaken, class F>
void with_monoid(const Cumsum::Call& call, const F& f) {
  with_result<SumOf, kTaken & Cumsum::kDTypes>(call, f);
}
template <DTypes kTaken, class F>
void with_monoid(const Cumprod::Call& call, const F& f) {
  with_result<ProductOf, kTaken & Cumprod::kDTypes>(call, f);
}
template <DTypes kTaken, class F>
void with_monoid(const Logcumsumexp::Call& call, const F& f) {
  with_type<kTaken & Logcumsumexp::kDTypes>(call.dtype, [&]<class T>() { f(LogSumOf<T>{}); });
}
template <DTypes kTaken, class F>
void with_monoid(const Extremum::Call& call, const F& f) {
  with_type<kTaken & Extremum::kDTypes>(call.dtype, [&]<class T>() {
    LargestOf<T> monoid;
    monoid.turned = {call.least, false};
    f(monoid);
  });
}

}  // namespace ws::scan
#endif
