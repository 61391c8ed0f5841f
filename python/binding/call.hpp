// What the C ABI and the tvm-ffi binding share: from DLPack tensors to a checked call, and on.
#pragma once

#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "catalogue/catalogue.hpp"
#include "warpsmith/c_api.h"
#include "warpsmith/runtime.hpp"

namespace ws::binding {

// A ws_rung: the family, the row in its table, and the dtypes that a seed name fixes (0: any).
ws_rung pack(int family, int row, DTypes dtypes);

// Throws InvalidArgument, also where a tensor's own pointers cannot be what they say.
Tensor to_tensor(const DLTensor& tensor);
DLDataType to_dlpack(DType dtype);

Value to_value(const ws_value& value);
ws_value to_c(const Value& value);

// The device that this library runs on: the CPU in the emulated build.
bool is_ours(DLDevice device);

// A checked call from outside; its device is current while it lives.
class Call {
 public:
  // Tensors in the order of the parameters, null where there is none; trailing ones may be left
  // out, and attributes too. Checks devices, then all that AnyCall checks.
  Call(const Operation& operation, std::span<const DLTensor* const> tensors,
       std::span<const Value> attributes);

  const AnyCall& checked() const { return call_; }
  const Problem& problem() const { return call_.problem(); }
  DLDevice device() const { return device_; }

  // The rung that `code` stands for; throws InvalidArgument where it does not take the call.
  const Rung& choose(ws_rung code) const;
  // "" where it does.
  Reason reason(ws_rung code) const;
  ws_rung code_of(const Rung& rung) const;

 private:
  const Rung& rung_at(ws_rung code) const;

  DLDevice device_;
  runtime::DeviceScope scope_;
  AnyCall call_;
};

// A problem's tensors as DLTensors, and all else of a ws_call that has them; valid while it lives
// and is not moved.
struct OutgoingCall {
  OutgoingCall(const Problem& problem, Stream stream);
  OutgoingCall(const OutgoingCall&) = delete;
  OutgoingCall& operator=(const OutgoingCall&) = delete;

  ws_call call{};

 private:
  std::array<DLTensor, kMaxTensors> tensors_{};
  std::array<const DLTensor*, kMaxTensors> pointers_{};
  std::array<ws_value, kMaxAttributes> attributes_{};
};

ws_address address_of(std::string_view name);
void synchronize(int device, void* stream);
// Waits for the device and throws what a kernel has reported there.
void check(int device);

}  // namespace ws::binding
