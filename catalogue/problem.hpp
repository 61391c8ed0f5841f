// A problem: one call of one operation, with its tensors, attributes and device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "warpsmith/error.hpp"
#include "warpsmith/types.hpp"

namespace ws {

enum class DType : uint8_t { kF32, kF16, kBf16, kE4m3, kE5m2, kI32, kI64, kBool };
inline constexpr std::array kAllDTypes = {DType::kF32,  DType::kF16, DType::kBf16, DType::kE4m3,
                                          DType::kE5m2, DType::kI32, DType::kI64,  DType::kBool};
// "f32", "f16", "bf16", "e4m3", "e5m2", "i32", "i64", "bool"
std::string_view to_string(DType dtype);
DType dtype_from(std::string_view name);  // throws InvalidArgument
constexpr size_t size_of(DType dtype) {
  constexpr std::array<size_t, kAllDTypes.size()> kBytes = {4, 2, 2, 1, 1, 4, 8, 1};
  return kBytes[static_cast<size_t>(dtype)];
}

// The C++ type of a dtype, both ways.
template <class T>
struct dtype_traits;
template <>
struct dtype_traits<float> {
  static constexpr DType kValue = DType::kF32;
};
template <>
struct dtype_traits<half> {
  static constexpr DType kValue = DType::kF16;
};
template <>
struct dtype_traits<bf16> {
  static constexpr DType kValue = DType::kBf16;
};
template <>
struct dtype_traits<e4m3> {
  static constexpr DType kValue = DType::kE4m3;
};
template <>
struct dtype_traits<e5m2> {
  static constexpr DType kValue = DType::kE5m2;
};
template <>
struct dtype_traits<int32_t> {
  static constexpr DType kValue = DType::kI32;
};
template <>
struct dtype_traits<int64_t> {
  static constexpr DType kValue = DType::kI64;
};
template <>
struct dtype_traits<bool> {
  static constexpr DType kValue = DType::kBool;
};
template <class T>
inline constexpr DType kDType = dtype_traits<T>::kValue;

// A set of dtypes, usable in constant expressions.
class DTypes {
 public:
  constexpr DTypes() = default;
  constexpr DTypes(std::initializer_list<DType> dtypes) {
    for (const DType d : dtypes) bits_ |= bit(d);
  }
  constexpr bool has(DType dtype) const { return (bits_ & bit(dtype)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  friend constexpr DTypes operator&(DTypes a, DTypes b) {
    DTypes both{};
    both.bits_ = a.bits_ & b.bits_;
    return both;
  }

 private:
  static constexpr uint32_t bit(DType d) { return 1u << static_cast<int>(d); }
  uint32_t bits_ = 0;
};
inline constexpr DTypes kFloats = {DType::kF32, DType::kF16, DType::kBf16};
inline constexpr DTypes kHalves = {DType::kF16, DType::kBf16};

inline constexpr int kMaxRank = 6;
inline constexpr int kMaxTensors = 8;
inline constexpr int kMaxAttributes = 8;

// A tensor as DLPack has it: a pointer, a dtype, extents and strides in elements. Does not own.
// A stride of 0 repeats an element (a broadcast dimension).
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> strides{};

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t elements() const;
  bool contiguous() const;       // row-major without gaps; dimensions of extent 1 have any stride
  std::string describe() const;  // "f16 [16384, 4096]", with strides where not contiguous

  // A row-major tensor without data.
  static Tensor dense(DType dtype, std::span<const int64_t> shape);
  static Tensor dense(DType dtype, std::initializer_list<int64_t> shape) {
    return dense(dtype, std::span<const int64_t>(shape.begin(), shape.size()));
  }
};

struct Operation;

// One call: inputs first, then outputs, in the order of Operation::parameters. Attribute values are
// doubles whatever their kind (a choice is its index), in the order of Operation::attributes.
struct Problem {
  const Operation* operation = nullptr;
  int tensor_count = 0;
  std::array<Tensor, kMaxTensors> tensors{};
  std::array<double, kMaxAttributes> attributes{};

  const Tensor& tensor(int i) const { return tensors[static_cast<size_t>(i)]; }
  Tensor& tensor(int i) { return tensors[static_cast<size_t>(i)]; }
  int input_count() const;
  std::span<const Tensor> inputs() const;
  std::span<const Tensor> outputs() const;
  double attribute(int i) const { return attributes[static_cast<size_t>(i)]; }
  std::string describe()
      const;  // "softmax f16 [16384, 4096]", "gemm f16 [4096, 4096] x ... layout=tn"
};

// An element of a tensor on the host, by its row-major logical index, as a double.
double element(const Tensor& tensor, int64_t index);

}  // namespace ws
