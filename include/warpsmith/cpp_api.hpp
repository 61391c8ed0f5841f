// Warpsmith from C++: tensors, options and errors over the C ABI (c_api.h), which the functions of
// warpsmith/operations.hpp are made of. Nothing here owns memory, a stream or a device.
//
// The namespace is `warpsmith`: in the kernels' own, `ws`, a family is a namespace (ws::softmax),
// and a program may both call the library and have kernels of it.
#pragma once

#include <dlpack/dlpack.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "warpsmith/c_api.h"

namespace warpsmith {

// ---- Errors -----------------------------------------------------------------------------------

// The device, a library or a kernel has failed; what() is the library's own text.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The caller's mistake: a shape, dtype, device, name or value.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

namespace detail {

inline void check(ws_status status) {
  if (status == WS_OK) return;
  if (status == WS_INVALID_ARGUMENT) throw InvalidArgument(ws_last_error());
  throw Error(ws_last_error());
}

}  // namespace detail

// ---- Values -----------------------------------------------------------------------------------

// Up to eight integers, or none (std::nullopt): extents, strides, dimensions. One stands for a list
// of one.
class Integers {
 public:
  static constexpr size_t kMost = 8;

  Integers(std::nullopt_t /*none*/) : count_(-1) {}
  Integers(std::integral auto one) : Integers({static_cast<int64_t>(one)}) {}
  Integers(std::initializer_list<int64_t> list) { assign(std::span(list.begin(), list.size())); }
  template <std::ranges::contiguous_range Range>
    requires std::same_as<std::ranges::range_value_t<Range>, int64_t>
  Integers(const Range& list) {
    assign(list);
  }

  bool exists() const { return count_ >= 0; }
  int32_t count() const { return count_; }
  const std::array<int64_t, kMost>& at() const { return at_; }

 private:
  void assign(std::span<const int64_t> list) {
    if (list.size() > kMost) {
      throw InvalidArgument(std::to_string(list.size()) + " dimensions; at most " +
                            std::to_string(kMost));
    }
    std::ranges::copy(list, at_.begin());
    count_ = static_cast<int32_t>(list.size());
  }

  std::array<int64_t, kMost> at_{};
  int32_t count_ = 0;
};

// An attribute without a default: to leave it out does not compile.
template <class T>
struct Required {
  T value;
  Required(T given) : value(given) {}
};

namespace detail {

template <size_t kLength>
struct Text {
  char letters[kLength];
  consteval Text(const char (&text)[kLength]) { std::ranges::copy(text, letters); }
  constexpr operator std::string_view() const { return {letters, kLength - 1}; }
};

}  // namespace detail

// One of these names, or none (std::nullopt) where the attribute may be. A literal that is no such
// name does not compile.
template <detail::Text... kNames>
class Choice {
 public:
  constexpr Choice(std::nullopt_t /*none*/) : index_(-1) {}
  consteval Choice(const char* name) : Choice(named(name)) {}

  // The same of a name that is known only when the program runs.
  static constexpr Choice named(std::string_view name) {
    const std::string_view names[] = {kNames...};
    const auto* const found = std::ranges::find(names, name);
    if (found != std::end(names)) return Choice(found - names);
    std::string text = "'" + std::string(name) + "' is none of";
    for (const std::string_view known : names) text.append(" ").append(known);
    throw InvalidArgument(text);
  }

  constexpr bool exists() const { return index_ >= 0; }
  constexpr int64_t index() const { return index_; }

 private:
  constexpr explicit Choice(int64_t index) : index_(index) {}

  int64_t index_;
};

namespace detail {

inline ws_value absent() {
  ws_value value{};
  value.kind = WS_ABSENT;
  return value;
}

inline ws_value integer(ws_kind kind, int64_t number) {
  ws_value value{};
  value.kind = kind;
  value.integer = number;
  return value;
}

inline ws_value encode(bool given) { return integer(WS_BOOL, given ? 1 : 0); }
inline ws_value encode(int64_t given) { return integer(WS_INT, given); }
inline ws_value encode(double given) {
  ws_value value{};
  value.kind = WS_FLOAT;
  value.number = given;
  return value;
}
inline ws_value encode(const Integers& given) {
  if (!given.exists()) return absent();
  ws_value value{};
  value.kind = WS_DIMS;
  value.count = given.count();
  std::ranges::copy(given.at(), value.dims);
  return value;
}
template <Text... kNames>
ws_value encode(Choice<kNames...> given) {
  return given.exists() ? integer(WS_CHOICE, given.index()) : absent();
}
template <class T>
ws_value encode(const Required<T>& given) {
  return encode(given.value);
}
template <class T>
ws_value encode(const std::optional<T>& given) {
  return given ? encode(*given) : absent();
}

template <class T>
constexpr DLDataType dtype_of() {
  static_assert(std::is_arithmetic_v<T>,
                "of this type the dtype has to be said: Tensor(data, warpsmith::kF16, shape)");
  constexpr uint8_t kBool = 6;  // older headers of DLPack have no name for it
  constexpr uint8_t kInteger = std::is_signed_v<T> ? kDLInt : kDLUInt;
  constexpr uint8_t kNumber = std::is_floating_point_v<T> ? uint8_t{kDLFloat} : kInteger;
  return {std::is_same_v<T, bool> ? kBool : kNumber, 8 * sizeof(T), 1};
}

}  // namespace detail

// ---- Tensors ----------------------------------------------------------------------------------

// Where tensors lie that do not say it: the CPU for warpsmith::emulated, else the first GPU.
#ifdef WARPSMITH_CUDA
inline constexpr DLDevice kDevice = {kDLCUDA, 0};
#else
inline constexpr DLDevice kDevice = {kDLCPU, 0};
#endif

// Memory of the caller as an array; Tensor() is none at all: an optional one that is left out, or
// an output that a call is only asked about. Strides are in elements; without them it is row-major.
class Tensor {
 public:
  Tensor() = default;

  Tensor(const void* data, DLDataType dtype, const Integers& shape,
         const Integers& strides = std::nullopt, DLDevice device = kDevice)
      : tensor_{const_cast<void*>(data), device, shape.count(), dtype, nullptr, nullptr, 0},
        shape_(shape.at()),
        strides_(strides.at()),
        has_strides_(strides.exists()) {
    if (has_strides_ && strides.count() != shape.count()) {
      throw InvalidArgument("a tensor of " + std::to_string(shape.count()) + " dimensions and " +
                            std::to_string(strides.count()) + " strides");
    }
  }

  template <class T>
    requires(!std::is_void_v<T>)
  Tensor(T* data, const Integers& shape, const Integers& strides = std::nullopt,
         DLDevice device = kDevice)
      : Tensor(data, detail::dtype_of<std::remove_cv_t<T>>(), shape, strides, device) {}

  Tensor(const DLTensor& from)
      : Tensor(from.data, from.dtype, list(from.shape, from.ndim),
               from.strides == nullptr ? std::nullopt : list(from.strides, from.ndim),
               from.device) {
    tensor_.byte_offset = from.byte_offset;
  }

  bool exists() const { return tensor_.ndim >= 0; }

  // Points into this object.
  DLTensor dlpack() const {
    DLTensor tensor = tensor_;
    tensor.shape = const_cast<int64_t*>(shape_.data());  // DLPack has no const
    if (has_strides_) tensor.strides = const_cast<int64_t*>(strides_.data());
    return tensor;
  }

 private:
  static Integers list(const int64_t* numbers, int32_t count) {
    if (count < 0 || (count > 0 && numbers == nullptr)) {
      throw InvalidArgument("a tensor of " + std::to_string(count) + " dimensions" +
                            (count < 0 ? "" : " without a shape"));
    }
    return std::span(numbers, static_cast<size_t>(count));
  }

  DLTensor tensor_{nullptr, kDevice, -1, {}, nullptr, nullptr, 0};
  std::array<int64_t, Integers::kMost> shape_{};
  std::array<int64_t, Integers::kMost> strides_{};
  bool has_strides_ = false;
};

// ---- Calls ------------------------------------------------------------------------------------

// Scratch memory that a call needs. Its first `zeroed` bytes are zero before the call, and the call
// leaves them zero: who keeps the memory for calls in the order of one stream clears them once.
struct Workspace {
  size_t bytes = 0;
  size_t zeroed = 0;
};

// One call of an operation, from warpsmith::prepare: what can be asked of it, and run() more than
// once. The memory of its tensors is the caller's and has to be there still.
template <size_t kTensors, size_t kOutputs, size_t kAttributes>
class Call {
 public:
  Call(const char* operation, int32_t id, const std::array<Tensor, kTensors>& tensors,
       const std::array<ws_value, kAttributes>& attributes)
      : operation_(operation), id_(id), tensors_(tensors), attributes_(attributes) {}

  // The rung that computes it ("warp_per_row"), instead of the fastest that takes it.
  Call& with(std::string_view rung) {
    ws_address address{};
    detail::check(ws_resolve((std::string(operation_) + "/").append(rung).c_str(), &address));
    rung_ = address.rung;
    return *this;
  }

  // Why the rung does not take it; "" where it does.
  std::string why_not() const {
    const char* reason = nullptr;
    ask([&](const ws_call& call) { return ws_supports(&call, &reason); });
    return reason;
  }

  // Shape and dtype that each output has to have; ndim -1: the call has no such output.
  std::array<ws_output, kOutputs> outputs() const {
    std::array<ws_output, kOutputs> outputs{};
    ask([&](const ws_call& call) { return ws_infer(&call, outputs.data()); });
    return outputs;
  }

  Workspace workspace() const {
    Workspace need;
    ask([&](const ws_call& call) { return ws_workspace(&call, &need.bytes, &need.zeroed); });
    return need;
  }

  // Enqueues it on a stream (cudaStream_t; the emulator has none), with memory as workspace() says,
  // on the device, 256-byte aligned. Allocates nothing, waits for nothing.
  void run(void* stream = nullptr, void* memory = nullptr, size_t bytes = 0) const {
    ask([&](ws_call& call) {
      call.stream = stream;
      call.workspace = memory;
      call.workspace_bytes = bytes;
      return ws_run(&call);
    });
  }

 private:
  template <class Question>
  void ask(Question&& question) const {
    std::array<DLTensor, kTensors> tensors;
    std::array<const DLTensor*, kTensors> pointers;
    for (size_t i = 0; i < kTensors; ++i) {
      tensors[i] = tensors_[i].dlpack();
      pointers[i] = tensors_[i].exists() ? &tensors[i] : nullptr;
    }
    ws_call call{};
    call.operation = id_;
    call.rung = rung_;
    call.tensor_count = static_cast<int32_t>(kTensors);
    call.tensors = pointers.data();
    call.attribute_count = static_cast<int32_t>(kAttributes);
    call.attributes = attributes_.data();
    detail::check(question(call));
  }

  const char* operation_;
  int32_t id_;
  ws_rung rung_ = WS_BEST;
  std::array<Tensor, kTensors> tensors_;
  std::array<ws_value, kAttributes> attributes_;
};

namespace detail {

inline int32_t id_of(const char* operation) {
  ws_address address{};
  check(ws_resolve(operation, &address));
  return address.operation;
}

}  // namespace detail

// ---- The library ------------------------------------------------------------------------------

// All operations, rungs and dtypes, as `warpsmith list --json`.
inline std::string_view catalogue() {
  const char* json = nullptr;
  detail::check(ws_catalogue(&json));
  return json;
}

// Waits for all that is enqueued on a stream.
inline void synchronize(void* stream = nullptr, int32_t device = 0) {
  detail::check(ws_synchronize(device, stream));
}

// Waits for the device, and throws the first bad value (an index out of range) that a kernel has
// found there since somebody asked.
inline void check(int32_t device = 0) { detail::check(ws_check(device)); }

}  // namespace warpsmith
