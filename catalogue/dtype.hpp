// The dtypes of the catalogue. WS_DTYPES is the one table: all that knows a dtype by name, size,
// C++ type or number is made from it, here and in Python.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "warpsmith/error.hpp"
#include "warpsmith/types.hpp"

namespace ws {

// clang-format off
// X(enumerator, C++ type, name, DLPack's type code, name in torch and NumPy)
#define WS_DTYPES(X)                                         \
  X(kF64,  double,  "f64",  2, "float64")     \
  X(kF32,  float,   "f32",  2, "float32")     \
  X(kF16,  half,    "f16",  2, "float16")     \
  X(kBf16, bf16,    "bf16", 4, "bfloat16")    \
  X(kE4m3, e4m3,    "e4m3", 10, "float8_e4m3fn") \
  X(kE5m2, e5m2,    "e5m2", 12, "float8_e5m2") \
  X(kI64,  int64_t, "i64",  0, "int64")       \
  X(kI32,  int32_t, "i32",  0, "int32")       \
  X(kI8,   int8_t,  "i8",   0, "int8")        \
  X(kU8,   uint8_t, "u8",   1, "uint8")       \
  X(kBool, bool,    "bool", 6, "bool")
// clang-format on

enum class DType : uint8_t {
#define WS_ENUMERATOR(enumerator, type, name, code, torch) enumerator,
  WS_DTYPES(WS_ENUMERATOR)
#undef WS_ENUMERATOR
};

struct DTypeFacts {
  DType dtype;
  std::string_view name;        // "f32"
  std::string_view torch_name;  // "float32": torch's, and NumPy's or that of ml_dtypes
  size_t bytes;
  uint8_t dlpack_code;  // with 8 * bytes bits and one lane a DLDataType
  bool is_float;
};

inline constexpr auto kDTypeFacts = std::to_array<DTypeFacts>({
#define WS_FACTS(enumerator, type, name, code, torch) \
  {DType::enumerator, name, torch, sizeof(type), code, (code) != 0 && (code) != 1 && (code) != 6},
    WS_DTYPES(WS_FACTS)
#undef WS_FACTS
});

inline constexpr std::array kAllDTypes = [] {
  std::array<DType, kDTypeFacts.size()> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = kDTypeFacts[i].dtype;
  return all;
}();

constexpr const DTypeFacts& facts_of(DType dtype) {
  return kDTypeFacts[static_cast<size_t>(dtype)];
}
constexpr std::string_view to_string(DType dtype) { return facts_of(dtype).name; }
constexpr size_t size_of(DType dtype) { return facts_of(dtype).bytes; }
constexpr bool is_float(DType dtype) { return facts_of(dtype).is_float; }
DType dtype_from(std::string_view name);  // throws InvalidArgument

// The dtype of a C++ type.
template <class T>
struct dtype_traits;
#define WS_TRAITS(enumerator, type, name, code, torch) \
  template <>                                          \
  struct dtype_traits<type> {                          \
    static constexpr DType kValue = DType::enumerator; \
  };
WS_DTYPES(WS_TRAITS)
#undef WS_TRAITS
template <class T>
inline constexpr DType kDType = dtype_traits<T>::kValue;

// A set of dtypes, usable in constant expressions and as a template argument.
struct DTypes {
  uint32_t bits = 0;  // public, so that a set can be a template argument

  constexpr DTypes() = default;
  // For nvcc, which writes a default template argument that is a set as {bits}.
  constexpr DTypes(uint32_t set) : bits(set) {}
  constexpr DTypes(std::initializer_list<DType> dtypes) {
    for (const DType d : dtypes) bits |= bit(d);
  }
  constexpr bool has(DType dtype) const { return (bits & bit(dtype)) != 0; }
  constexpr bool empty() const { return bits == 0; }
  friend constexpr bool operator==(const DTypes&, const DTypes&) = default;
  friend constexpr DTypes operator&(DTypes a, DTypes b) {
    DTypes both{};
    both.bits = a.bits & b.bits;
    return both;
  }
  friend constexpr DTypes operator|(DTypes a, DTypes b) {
    DTypes either{};
    either.bits = a.bits | b.bits;
    return either;
  }

 private:
  static constexpr uint32_t bit(DType d) { return 1U << static_cast<int>(d); }
};
inline constexpr DTypes kFloats = {DType::kF32, DType::kF16, DType::kBf16};
inline constexpr DTypes kHalves = {DType::kF16, DType::kBf16};
inline constexpr DTypes kEveryDType = [] {
  DTypes all;
  for (const DType dtype : kAllDTypes) all = all | DTypes{dtype};
  return all;
}();
std::string to_string(DTypes dtypes);  // "f32, f16, bf16"

namespace detail {
[[noreturn]] void throw_no_code(DType dtype);  // out of line: it is cold, and no template
}

// f.operator()<T>() with the C++ type of `dtype`, which is one of kSet: the one way from a dtype to
// a template argument. Instantiates f for kSet alone.
template <DTypes kSet, class F>
decltype(auto) with_type(DType dtype, F&& f) {
  // clang-format off
#define WS_CASE(enumerator, type, name, code, torch)                 \
  if constexpr (kSet.has(DType::enumerator)) {                       \
    if (dtype == DType::enumerator) return f.template operator()<type>(); \
  }
  // clang-format on
  WS_DTYPES(WS_CASE)
#undef WS_CASE
  detail::throw_no_code(dtype);
}

// A value of any dtype as a C++ number that holds it exactly.
template <class T>
auto widened(T value) {
  if constexpr (kIsNarrowFloat<T>) {
    return to_float(value);
  } else {
    return value;
  }
}

// The nearest value of a dtype; narrow floats through f32, as kernels that compute in f32 round.
// Integers saturate.
template <class T>
T nearest(double value) {
  if constexpr (kIsNarrowFloat<T>) {
    return from_float<T>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else if constexpr (std::is_integral_v<T>) {
    if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
      return std::numeric_limits<T>::max();
    }
    if (!(value > static_cast<double>(std::numeric_limits<T>::min()))) {
      return std::numeric_limits<T>::min();
    }
    return static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}
// The same as a number again: what a perfect kernel stores.
inline double round_to(DType dtype, double value) {
  return with_type<kEveryDType>(
      dtype, [&]<class T>() { return static_cast<double>(widened(nearest<T>(value))); });
}

}  // namespace ws
