// Errors that only a kernel can find: an index out of range, a scale that is none, numbers that are
// not in order. The kernel skips the element, so that nothing is written, and notes the first such
// value in a record of its device, in host memory that the device sees: no round trip, and nothing
// that a CUDA graph could not hold. The next call on that device raises it, or who asks
// (`ws_check`, `warpsmith.check()`); in the emulator the call itself.
//
//   struct Arguments { IndexCheck check; ... };   // IndexCheck("embedding/rows", "indices", limit)
//   if (!a.check(index, position)) return;        // in the kernel, before index is used
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/fence.hpp"

namespace ws {

// The first error since the record was last taken.
struct DeviceErrorRecord {
  enum class Kind : uint8_t { kIndex, kScale, kOrder };

  uint32_t claimed = 0;   // by the thread that writes the rest
  uint32_t complete = 0;  // the host may read it
  const char* rung = nullptr;
  const char* tensor = nullptr;
  int64_t position = 0;
  int64_t value = 0;  // of an index
  int64_t least = 0;
  int64_t limit = 0;
  Kind kind = Kind::kIndex;
  float number = 0;  // of a scale, and of what is out of order
  float before = 0;  // its neighbour
};

// The record of the current device, at the address where its kernels reach it.
DeviceErrorRecord* device_error_record();

// What a kernel has reported on the current device since the last call; then forgotten. Does not
// wait: a kernel that still runs reports to a later call.
std::optional<std::string> take_device_error();
// The same, thrown as ws::InvalidArgument.
void raise_device_error();

// What checks have in common: where they report to, and of what. The names are of static storage:
// the device keeps their addresses and never reads them.
class DeviceCheck {
 public:
  DeviceCheck() = default;
  DeviceCheck(const char* rung, const char* tensor)
      : record_(device_error_record()), rung_(rung), tensor_(tensor) {}

#if WS_DEVICE_CODE
 protected:
  // `write` says the rest, where nobody has been first.
  template <class Write>
  __device__ __forceinline__ void report(int64_t position, Write&& write) const {
    if (ptx::atom_global_cas(&record_->claimed, 0U, 1U) != 0) return;
    record_->rung = rung_;
    record_->tensor = tensor_;
    record_->position = position;
    write(*record_);
    ptx::fence_acq_rel<ptx::Scope::kSystem>();
    ptx::atom_global_exch(&record_->complete, 1U);
  }
#endif

 private:
  DeviceErrorRecord* record_ = nullptr;
  const char* rung_ = nullptr;
  const char* tensor_ = nullptr;
};

// Whether indices lie in [0, limit), or from a larger least one on. Made on the host, used by
// kernels.
class IndexCheck : DeviceCheck {
 public:
  IndexCheck() = default;
  IndexCheck(const char* rung, const char* tensor, int64_t limit)
      : DeviceCheck(rung, tensor), limit_(limit) {}

#if WS_DEVICE_CODE
  // False where it does not, which is reported; `position` is the index's place in its tensor.
  __device__ __forceinline__ bool operator()(int64_t index, int64_t position,
                                             int64_t least = 0) const {
    if (index >= least && index < limit_) return true;
    tell(index, position, least);
    return false;
  }

  // The same with another limit, which the device has read itself.
  __device__ __forceinline__ IndexCheck below(int64_t limit) const {
    IndexCheck check = *this;
    check.limit_ = limit;
    return check;
  }

 private:
  __device__ void tell(int64_t index, int64_t position, int64_t least) const {
    report(position, [&](DeviceErrorRecord& record) {
      record.kind = DeviceErrorRecord::Kind::kIndex;
      record.value = index;
      record.least = least;
      record.limit = limit_;
    });
  }
#endif

 private:
  int64_t limit_ = 0;
};

// Whether numbers are finite and above 0.
class ScaleCheck : DeviceCheck {
 public:
  using DeviceCheck::DeviceCheck;

#if WS_DEVICE_CODE
  __device__ __forceinline__ static bool is_right(float scale) {
    return scale > 0 && scale <= std::numeric_limits<float>::max();
  }
  // False where one is not, which is reported.
  __device__ __forceinline__ bool operator()(float scale, int64_t position) const {
    if (is_right(scale)) return true;
    tell(scale, position);
    return false;
  }

 private:
  __device__ void tell(float scale, int64_t position) const {
    report(position, [&](DeviceErrorRecord& record) {
      record.kind = DeviceErrorRecord::Kind::kScale;
      record.number = scale;
    });
  }
#endif
};

// Whether a number is not below the one before it; a NaN is out of order.
class OrderCheck : DeviceCheck {
 public:
  using DeviceCheck::DeviceCheck;

#if WS_DEVICE_CODE
  // False where it is, which is reported; `position` is the number's.
  __device__ __forceinline__ bool operator()(float before, float number, int64_t position) const {
    if (before <= number) return true;
    tell(before, number, position);
    return false;
  }

 private:
  __device__ void tell(float before, float number, int64_t position) const {
    report(position, [&](DeviceErrorRecord& record) {
      record.kind = DeviceErrorRecord::Kind::kOrder;
      record.number = number;
      record.before = before;
    });
  }
#endif
};

}  // namespace ws
