// A problem: one call of one operation, with its tensors and attributes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include "catalogue/dtype.hpp"
#include "catalogue/value.hpp"

namespace ws {

inline constexpr int kMaxRank = 6;
inline constexpr int kMaxTensors = 16;
inline constexpr int kMaxAttributes = 16;
inline constexpr int kMaxExtents = 8;  // of a Case
inline constexpr int64_t kMostBytes = int64_t{1}
                                      << 47;  // of a tensor: what addresses can tell apart

// A tensor as DLPack has it: a pointer, a dtype, extents and strides in elements. Does not own.
// A stride of 0 repeats an element (a broadcast dimension). Tensor{} is none at all: an optional
// one that a caller left out, or an output that has yet to be inferred.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = -1;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> strides{};

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  bool exists() const { return rank >= 0; }
  std::span<const int64_t> extents() const { return {shape.data(), static_cast<size_t>(rank)}; }
  int64_t extent(int d) const { return shape[static_cast<size_t>(d)]; }
  int64_t stride(int d) const { return strides[static_cast<size_t>(d)]; }
  int64_t elements() const;  // 0 where there is no tensor
  bool contiguous() const;   // row-major without gaps; dimensions of extent 1 have any stride
  bool same_shape(const Tensor& other) const;
  std::string describe() const;  // "f16 [16384, 4096]", with strides where not contiguous

  // A row-major tensor without data. Throws InvalidArgument where an extent is negative, or the
  // tensor is larger than any memory.
  static Tensor dense(DType dtype, std::span<const int64_t> shape);
  static Tensor dense(DType dtype, std::initializer_list<int64_t> shape) {
    return dense(dtype, std::span<const int64_t>(shape.begin(), shape.size()));
  }
  // Row-major, of the same shape.
  static Tensor like(const Tensor& other) { return like(other, other.dtype); }
  static Tensor like(const Tensor& other, DType dtype) { return dense(dtype, other.extents()); }
};
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);  // describe()

// Offset in elements of a tensor's element by its row-major logical index.
int64_t offset_of(const Tensor& tensor, int64_t index);
// An element of a tensor on the host, by its row-major logical index, as a double.
double element(const Tensor& tensor, int64_t index);

// `tensor` seen in the shape of `to`, with strides of 0 where it repeats, as NumPy broadcasts; a
// tensor that does not exist where it cannot be.
Tensor broadcast(const Tensor& tensor, const Tensor& to);
// The tensor's own elements: a broadcast dimension has one.
Tensor without_repeats(Tensor tensor);
// Bytes from a tensor's first element to the end of its last one, gaps between rows included.
size_t footprint(const Tensor& tensor);

struct Operation;

// One call: tensors in the order of Operation::parameters, attributes in that of
// Operation::attributes. Lookups by name throw ws::Error where the operation has no such name.
struct Problem {
  const Operation* operation = nullptr;
  std::array<Tensor, kMaxTensors> tensors{};
  std::array<Value, kMaxAttributes> attributes{};

  const Tensor& tensor(int i) const { return tensors[static_cast<size_t>(i)]; }
  Tensor& tensor(int i) { return tensors[static_cast<size_t>(i)]; }
  const Tensor& operator[](std::string_view parameter) const;
  Tensor& operator[](std::string_view parameter);
  // The same; one that does not exist where the operation has none of the name, which serves
  // operations that differ in a tensor.
  const Tensor& find(std::string_view parameter) const;
  DType dtype() const { return tensors[0].dtype; }  // the first tensor's: what rungs are chosen by

  const Value& attribute(std::string_view name) const;
  bool flag(std::string_view name) const { return attribute(name).as_bool(); }
  int64_t integer(std::string_view name) const { return attribute(name).as_int(); }
  double number(std::string_view name) const { return attribute(name).as_float(); }
  template <class Choice = int>
  Choice choice(std::string_view name) const {
    return static_cast<Choice>(attribute(name).as_choice());
  }
  // "softmax f16 [16384, 4096]", "gemm f16 [4096, 4096] x ... layout=tn"
  std::string describe() const;
};
// Lays tensor `inner` of a case where `outer` begins, by its strides: values that are what their
// keys begin with. Neither has data yet; both get one address, which is nobody's. Throws
// InvalidArgument where a dimension of it is longer.
void share_memory(Problem& problem, int outer, int inner);
// Of two tensors that are read and begin at one address the first that is no shorter, which holds
// tensor i; else i.
size_t holder_of(const Problem& problem, size_t i);
// The bytes of a problem's tensors, without repeats, those that one holds for another once: what a
// call that uses each of them moves at least.
double least_traffic(const Problem& problem);

}  // namespace ws
