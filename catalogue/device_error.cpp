#include "warpsmith/device_error.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <new>

namespace ws {
namespace {

// By device; null until one is asked for. A record lives as long as the process: kernels may hold
// its address.
#ifdef WS_EMULATED
constexpr size_t kRecords = 1;
size_t device_in_use() { return 0; }
DeviceErrorRecord* allocate() { return new DeviceErrorRecord; }
#else
constexpr size_t kRecords = detail::kMaxDevices;
size_t device_in_use() { return detail::current_device(); }
DeviceErrorRecord* allocate() {
  // A stream of this thread may be capturing a graph, which forbids allocations that would be part
  // of it; this one is not.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  detail::check_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, sizeof(DeviceErrorRecord),
                                           cudaHostAllocMapped | cudaHostAllocPortable);
  cudaThreadExchangeStreamCaptureMode(&mode);
  detail::check_cuda(status, "cudaHostAlloc(error record)");
  return new (memory) DeviceErrorRecord;
}
#endif

std::array<std::atomic<DeviceErrorRecord*>, kRecords> records{};
std::atomic<bool> any_record{false};
std::mutex mutex;  // of allocating, and of taking

}  // namespace

DeviceErrorRecord* device_error_record() {
  std::atomic<DeviceErrorRecord*>& slot = records[device_in_use()];
  if (DeviceErrorRecord* known = slot.load()) return known;
  const std::lock_guard lock(mutex);
  if (slot.load() == nullptr) {
    slot = allocate();
    any_record = true;
  }
  return slot.load();
}

std::optional<std::string> take_device_error() {
  if (!any_record.load(std::memory_order_relaxed)) return std::nullopt;  // nearly every process
  DeviceErrorRecord* const record = records[device_in_use()].load();
  if (record == nullptr) return std::nullopt;
  const std::atomic_ref complete(record->complete);
  if (complete.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::lock_guard lock(mutex);
  if (complete.load(std::memory_order_acquire) == 0) return std::nullopt;  // another thread's now
  std::string text =
      concatenate(record->rung, ": index ", record->value, " at position ", record->position,
                  " of '", record->tensor, "' is outside [0, ", record->limit,
                  "); nothing was written for it");
  complete.store(0, std::memory_order_relaxed);
  std::atomic_ref(record->claimed).store(0, std::memory_order_release);
  return text;
}

void raise_device_error() {
  if (const std::optional<std::string> text = take_device_error()) throw InvalidArgument(*text);
}

}  // namespace ws
