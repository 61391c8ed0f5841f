// What the C ABI and the tvm-ffi binding share: from DLPack tensors to a checked problem, and on.
#pragma once

#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "catalogue/catalogue.hpp"
#include "python/binding/c_api.h"

namespace ws::binding {

// Operations are numbered through all families; throws InvalidArgument outside.
const Operation& operation_at(int64_t id);
int32_t id_of(const Operation& operation);

// A ws_rung: the row in the family's table, and the dtypes that a seed name fixes (0: any).
ws_rung pack(int row, DTypes dtypes);

Tensor to_tensor(const DLTensor& tensor);
DLDataType to_dlpack(DType dtype);

// The device that this library runs on: the CPU in the emulated build.
bool is_ours(DLDevice device);

// Makes the device current until the end of the scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(DLDevice device);
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard();

 private:
  int previous_ = -1;  // where it has to be restored
};

// A problem of a call, its device current.
struct Call {
  // Tensors: inputs, then the outputs that the caller has. Checks devices; check() is the caller's.
  Call(const Operation& operation, std::span<const DLTensor* const> tensors,
       std::span<const double> attributes);

  // The rung that `code` stands for; throws InvalidArgument where it does not take the problem.
  const Rung& choose(ws_rung code) const;
  // "" where it does.
  Reason reason(ws_rung code) const;

  DLDevice device;
  DeviceGuard guard;
  Problem problem;
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
};

// The catalogue as ws_catalogue() has it.
const std::string& catalogue_json();
ws_address address_of(std::string_view name);
void synchronize(int device, void* stream);

}  // namespace ws::binding
