// What is computed, for kernels that are written once for all operations. A reducer has
//
//   Element, kInputs            what it reads
//   Accumulator                 what is known of some elements
//   none()                      of no elements
//   add(a, x, index)            of one element more; index is its place, row-major
//   merge(a, b)                 of two sets; (a, b) and (b, a) give the same bits
//   finish(a)                   the result, as store_as() takes it
//
// and, if it likes whole vectors better: Running<N>, begin(), add_all(), settle() (see fold.hpp).
//
// Operations that differ by a sign or a constant share one, so that kernels are compiled once.
#pragma once

#include <bit>
#include <limits>

#include "catalogue/row.hpp"
#include "kernels/reduce/operations.hpp"
#include "warpsmith/ptx/math.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::reduce {

// What a T is added up in: f32 of narrow floats, 64 bits of integers, as torch does.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, int64_t,
                                std::conditional_t<std::is_same_v<T, double>, double, float>>;
// What holds every T.
template <class T>
using Held = std::conditional_t<std::is_integral_v<T> && sizeof(T) <= 4, int32_t, Wide<T>>;

template <class To, class T>
__device__ __forceinline__ To widen(T x) {
  if constexpr (kIsNarrowFloat<T>) {
    return to_float(x);
  } else {
    return static_cast<To>(x);
  }
}

// ---- Sums -------------------------------------------------------------------------------------

// The sum of f(x): x itself, its magnitude or its square; then nothing, divided, or its root.
template <class T>
struct SumOf {
  using Element = T;
  using Accumulator = Wide<T>;
  static constexpr int kInputs = 1;

  Accumulator divisor = 1;

  __device__ __forceinline__ static Accumulator none() { return 0; }
  __device__ __forceinline__ Accumulator add(Accumulator sum, T x, int64_t /*index*/) const {
    return sum + widen<Accumulator>(x);
  }
  __device__ __forceinline__ static Accumulator merge(Accumulator a, Accumulator b) {
    return a + b;
  }
  __device__ __forceinline__ Accumulator finish(Accumulator sum) const {
    if constexpr (std::is_integral_v<Accumulator>) {
      return sum;
    } else {
      return divisor == 1 ? sum : sum / divisor;
    }
  }
};

template <class T>
struct PowersOf {
  using Element = T;
  using Accumulator = Wide<T>;
  static constexpr int kInputs = 1;

  bool squares = true;

  __device__ __forceinline__ static Accumulator none() { return 0; }
  __device__ __forceinline__ Accumulator add(Accumulator sum, T x, int64_t /*index*/) const {
    const auto wide = widen<Accumulator>(x);
    return squares ? sum + wide * wide : sum + std::abs(wide);
  }
  __device__ __forceinline__ static Accumulator merge(Accumulator a, Accumulator b) {
    return a + b;
  }
  __device__ __forceinline__ Accumulator finish(Accumulator sum) const {
    return squares ? std::sqrt(sum) : sum;
  }
};

template <class T>
struct ProductsOf {
  using Element = T;
  using Accumulator = Wide<T>;
  static constexpr int kInputs = 2;

  __device__ __forceinline__ static Accumulator none() { return 0; }
  __device__ __forceinline__ Accumulator add(Accumulator sum, T a, T b, int64_t /*index*/) const {
    return sum + widen<Accumulator>(a) * widen<Accumulator>(b);
  }
  __device__ __forceinline__ static Accumulator merge(Accumulator a, Accumulator b) {
    return a + b;
  }
  __device__ __forceinline__ Accumulator finish(Accumulator sum) const { return sum; }
};

template <class T>
struct ProductOf {
  using Element = T;
  using Accumulator = Wide<T>;
  static constexpr int kInputs = 1;

  __device__ __forceinline__ static Accumulator none() { return 1; }
  __device__ __forceinline__ Accumulator add(Accumulator product, T x, int64_t /*index*/) const {
    return merge(product, widen<Accumulator>(x));
  }
  __device__ __forceinline__ static Accumulator merge(Accumulator a, Accumulator b) {
    if constexpr (std::is_integral_v<Accumulator>) {  // wraps around, as torch's does
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
  __device__ __forceinline__ Accumulator finish(Accumulator product) const { return product; }
};

// ---- Extrema ----------------------------------------------------------------------------------

// How a minimum becomes a maximum: numbers turned round by their sign bit, integers by all bits,
// which have no -x of their least one. And the magnitude, for the norm of order infinity.
template <class Value>
class Turned {
  using Bits = std::conditional_t<sizeof(Value) == 8, uint64_t, uint32_t>;
  static constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);

 public:
  Turned() = default;
  Turned(bool least, bool magnitude)
      : keep_(magnitude ? static_cast<Bits>(~kSign) : static_cast<Bits>(~Bits{0})),
        turn_(!least                      ? 0
              : std::is_integral_v<Value> ? static_cast<Bits>(~Bits{0})
                                          : kSign) {}

  __device__ __forceinline__ Value operator()(Value x) const {
    return std::bit_cast<Value>(static_cast<Bits>((std::bit_cast<Bits>(x) & keep_) ^ turn_));
  }
  __device__ __forceinline__ Value back(Value x) const {
    return std::bit_cast<Value>(static_cast<Bits>(std::bit_cast<Bits>(x) ^ turn_));
  }

 private:
  Bits keep_ = static_cast<Bits>(~Bits{0});
  Bits turn_ = 0;
};

template <class Value>
__device__ __forceinline__ Value least() {
  if constexpr (std::is_integral_v<Value>) {
    return std::numeric_limits<Value>::min();
  } else {
    return -std::numeric_limits<Value>::infinity();
  }
}

template <class T>
struct LargestOf {
  using Element = T;
  using Accumulator = Held<T>;
  static constexpr int kInputs = 1;

  Turned<Accumulator> turned;

  __device__ __forceinline__ static Accumulator none() { return least<Accumulator>(); }
  __device__ __forceinline__ Accumulator add(Accumulator most, T x, int64_t /*index*/) const {
    return merge(most, turned(widen<Accumulator>(x)));
  }
  __device__ __forceinline__ static Accumulator merge(Accumulator a, Accumulator b) {
    if constexpr (std::is_same_v<Accumulator, float>) {
      return ptx::max_nan_f32(a, b);
    } else if constexpr (std::is_same_v<Accumulator, double>) {
      if (a != a || b != b) return std::numeric_limits<double>::quiet_NaN();
      if (a == b) return std::signbit(a) ? b : a;
      return a < b ? b : a;
    } else {
      return a < b ? b : a;
    }
  }
  __device__ __forceinline__ Accumulator finish(Accumulator most) const {
    return turned.back(most);
  }
};

// The largest and its place; of equal ones, and of several NaN, the first.
//
// Numbers are compared as integers in their order, NaN above all: one comparison decides. Where the
// integer holds more than the element's values, `none` lies below all of them.
template <class T>
struct PlaceOfLargest {
  using Element = T;
  using Value = Held<T>;
  using Key = std::conditional_t<sizeof(T) == 8 || std::is_same_v<T, int32_t>, int64_t, int32_t>;
  struct Accumulator {
    Key key;
    int64_t index;
  };
  static constexpr int kInputs = 1;
  static constexpr Key kNone = std::numeric_limits<Key>::min();
  static constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

  Turned<Value> turned;

  __device__ __forceinline__ static Accumulator none() { return {kNone, kNowhere}; }
  // Elements come in the order of their places, so the first of equals stays.
  __device__ __forceinline__ Accumulator add(const Accumulator& most, T x, int64_t index) const {
    const Key key = key_of(value_of(x));
    bool larger = key > most.key;
    if constexpr (std::is_same_v<T, int64_t>) larger = larger || most.index == kNowhere;
    return {larger ? key : most.key, larger ? index : most.index};
  }
  __device__ __forceinline__ static Accumulator merge(const Accumulator& a, const Accumulator& b) {
    const bool first = a.key > b.key || (a.key == b.key && a.index < b.index);
    return {first ? a.key : b.key, first ? a.index : b.index};
  }
  __device__ __forceinline__ int64_t finish(const Accumulator& most) const { return most.index; }

  // What a thread knows while it goes through vectors: the best of them, whole. The place within is
  // looked up once, at the end: two or three instructions an element instead of eight.
  template <int N>
  struct Running {
    Key key;
    int64_t index;  // of the vector's first element
    Vec<T, N> vector;
  };
  template <int N>
  __device__ __forceinline__ static Running<N> begin() {
    return {kNone, kNowhere, {}};
  }
  template <int N>
  __device__ __forceinline__ Running<N> add_all(const Running<N>& most, const Vec<T, N>& x,
                                                int64_t index) const {
    Value value = value_of(x[0]);
#pragma unroll
    for (int e = 1; e < N; ++e) value = LargestOf<T>::merge(value, value_of(x[e]));
    const Key key = key_of(value);
    const bool larger = key > most.key;
    return {larger ? key : most.key, larger ? index : most.index, larger ? x : most.vector};
  }
  template <int N>
  __device__ __forceinline__ Accumulator settle(const Running<N>& most) const {
    if (most.index == kNowhere) return none();
    int64_t index = most.index;
#pragma unroll
    for (int e = N - 1; e >= 0; --e) {
      if (key_of(value_of(most.vector[e])) == most.key) index = most.index + e;
    }
    return {most.key, index};
  }

 private:
  __device__ __forceinline__ Value value_of(T x) const { return turned(widen<Value>(x)); }
  __device__ __forceinline__ static Key key_of(Value value) {
    if constexpr (std::is_integral_v<Value>) {
      return value;
    } else {
      // One NaN, positive; one zero.
      const Value canonical = LargestOf<T>::merge(value, least<Value>()) + Value{0};
      const Key bits = std::bit_cast<Key>(canonical);
      return bits ^ ((bits >> (sizeof(Key) * 8 - 1)) & std::numeric_limits<Key>::max());
    }
  }
};

// ---- Tests ------------------------------------------------------------------------------------

// Whether any word, less its sign bit, is other than 0; or is 0, and the answer is turned round,
// for `all`. Word is an unsigned integer of the element's size.
template <class Word>
struct AnyOf {
  using Element = Word;
  using Accumulator = uint32_t;
  static constexpr int kInputs = 1;

  Word kept = static_cast<Word>(~Word{0});
  bool all = false;

  __device__ __forceinline__ static Accumulator none() { return 0; }
  __device__ __forceinline__ Accumulator add(Accumulator any, Word x, int64_t /*index*/) const {
    return any | static_cast<uint32_t>(((x & kept) != 0) != all);
  }
  __device__ __forceinline__ static Accumulator merge(Accumulator a, Accumulator b) {
    return a | b;
  }
  __device__ __forceinline__ int64_t finish(Accumulator any) const { return (any != 0) != all; }
};

// ---- Results ----------------------------------------------------------------------------------

// A result as the call wants it: a float as any narrower one, an integer as any, which wraps.
template <class Result>
__device__ __forceinline__ void store_as(DType dtype, void* output, int64_t at, Result result) {
  const auto put = [=]<class T>(T value) { thread::store(static_cast<T*>(output) + at, value); };
  if constexpr (std::is_same_v<Result, double>) {
    put(result);
  } else if constexpr (std::is_same_v<Result, float>) {
    switch (dtype) {
      case DType::kF32: return put(result);
      case DType::kF16: return put(from_float<half>(result));
      case DType::kBf16: return put(from_float<bf16>(result));
      case DType::kE4m3: return put(from_float<e4m3>(result));
      default: return put(from_float<e5m2>(result));
    }
  } else {
    switch (dtype) {
      case DType::kI64: return put(static_cast<int64_t>(result));
      case DType::kI32: return put(static_cast<int32_t>(result));
      default: return put(static_cast<uint8_t>(result));
    }
  }
}

// ---- From a call to its reducer ---------------------------------------------------------------

// A bool is a byte.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

// What a reducer's Element is: the call's, or a wide one that the kernel converts elements to, so
// that few kernels take all dtypes.
enum class Elements { kAsTheyLie, kWidened };

template <class Op, Elements kElements, DTypes kTaken, class F>
void with_element(DType dtype, const F& f) {
  if constexpr (kElements == Elements::kAsTheyLie) {
    with_type<Op::kFast & kTaken>(dtype, [&]<class T>() { f.template operator()<Stored<T>>(); });
  } else if (dtype == DType::kF64) {
    f.template operator()<double>();
  } else if (is_float(dtype)) {
    f.template operator()<float>();
  } else if constexpr ((Op::kDTypes & kIntegers).bits != 0) {
    f.template operator()<int64_t>();
  }
}

// f(reducer) for the call's operation and dtype, one of kTaken.
template <Elements kElements, DTypes kTaken = kEveryDType, class F>
void with_reducer(const Sum::Call& call, const F& f) {
  with_element<Sum, kElements, kTaken>(call.dtype, [&]<class T>() { f(SumOf<T>{}); });
}
template <Elements kElements, DTypes kTaken = kEveryDType, class F>
void with_reducer(const Mean::Call& call, const F& f) {
  with_element<Mean, kElements, kTaken>(call.dtype, [&]<class T>() {
    using Reducer = SumOf<T>;
    f(Reducer{.divisor = static_cast<typename Reducer::Accumulator>(call.count)});
  });
}
template <Elements kElements, DTypes kTaken = kEveryDType, class F>
void with_reducer(const Prod::Call& call, const F& f) {
  with_element<Prod, kElements, kTaken>(call.dtype, [&]<class T>() { f(ProductOf<T>{}); });
}
template <Elements kElements, DTypes kTaken = kEveryDType, class F>
void with_reducer(const Extremum::Call& call, const F& f) {
  with_element<Extremum, kElements, kTaken>(call.dtype, [&]<class T>() {
    using Reducer = LargestOf<T>;
    f(Reducer{.turned = {call.least, false}});
  });
}
template <Elements kElements, DTypes kTaken = kEveryDType, class F>
void with_reducer(const ArgExtremum::Call& call, const F& f) {
  with_element<ArgExtremum, kElements, kTaken>(call.dtype, [&]<class T>() {
    using Reducer = PlaceOfLargest<T>;
    f(Reducer{.turned = {call.least, false}});
  });
}
template <Elements kElements, DTypes kTaken = kEveryDType, class F>
void with_reducer(const Test::Call& call, const F& f) {
  const uint64_t sign = uint64_t{1} << (8 * size_of(call.dtype) - 1);
  const uint64_t kept = is_float(call.dtype) ? ~sign : ~uint64_t{0};
  const auto with = [&]<class Word>(Word /*word*/) {
    f(AnyOf<Word>{.kept = static_cast<Word>(kept), .all = call.all});
  };
  if constexpr (kElements == Elements::kWidened) return with(uint64_t{});
  switch (size_of(call.dtype)) {
    case 1: return with(uint8_t{});
    case 2: return with(uint16_t{});
    default: return with(uint32_t{});
  }
}
template <Elements kElements, DTypes kTaken = kEveryDType, class F>
void with_reducer(const VectorNorm::Call& call, const F& f) {
  with_element<VectorNorm, kElements, kTaken>(call.dtype, [&]<class T>() {
    if (call.order == VectorNorm::Order::kInfinity) {
      using Reducer = LargestOf<T>;
      f(Reducer{.turned = {false, true}});
    } else {
      f(PowersOf<T>{.squares = call.order == VectorNorm::Order::kTwo});
    }
  });
}
template <Elements kElements, DTypes kTaken = kEveryDType, class F>
void with_reducer(const Dot::Call& call, const F& f) {
  with_element<Dot, kElements, kTaken>(call.dtype, [&]<class T>() { f(ProductsOf<T>{}); });
}

// What a rung for speed does for each of Ops.
template <class Struct, class... Ops>
inline constexpr Implementation kFastImplementations[] = {
    ws::detail::kImplementations<Struct, Ops::kFast, Ops>[0]...};
template <class Struct, class... Ops>
constexpr Rung fast_rung_of(Rung text) {
  text.implementations = kFastImplementations<Struct, Ops...>;
  return text;
}

}  // namespace ws::reduce
#endif
