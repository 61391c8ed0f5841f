#include "warpsmith/device_error.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <new>

#include "warpsmith/runtime.hpp"

namespace ws {
namespace {

constexpr size_t kMaxDevices = 64;

// By device; null until one is asked for. A record lives as long as the process: kernels may hold
// its address.
std::array<std::atomic<DeviceErrorRecord*>, kMaxDevices> records{};
size_t current() { return static_cast<size_t>(runtime::current_device()) % kMaxDevices; }

std::atomic<bool> any_record{false};
std::mutex mutex;  // of allocating, and of taking

std::string told(const DeviceErrorRecord& record) {
  const std::string place =
      concatenate(" at position ", record.position, " of '", record.tensor, "' is ");
  switch (record.kind) {
    case DeviceErrorRecord::Kind::kScale:
      return concatenate(record.rung, ": scale ", record.number, place, "not above 0 and finite");
    case DeviceErrorRecord::Kind::kOrder:
      return concatenate(record.rung, ": ", record.number, place, "out of order after ",
                         record.before);
    default:
      return concatenate(record.rung, ": index ", record.value, place, "outside [", record.least,
                         ", ", record.limit, ")");
  }
}

}  // namespace

DeviceErrorRecord* device_error_record() {
  std::atomic<DeviceErrorRecord*>& slot = records[current()];
  if (DeviceErrorRecord* known = slot.load()) return known;
  const std::lock_guard lock(mutex);
  if (slot.load() == nullptr) {
    slot = new (runtime::allocate_mapped(sizeof(DeviceErrorRecord))) DeviceErrorRecord;
    any_record = true;
  }
  return slot.load();
}

std::optional<std::string> take_device_error() {
  if (!any_record.load(std::memory_order_relaxed)) return std::nullopt;  // nearly every process
  DeviceErrorRecord* const record = records[current()].load();
  if (record == nullptr) return std::nullopt;
  const std::atomic_ref complete(record->complete);
  if (complete.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::lock_guard lock(mutex);
  if (complete.load(std::memory_order_acquire) == 0) return std::nullopt;  // another thread's now
  std::string text = told(*record);
  text += "; nothing was written for it";
  complete.store(0, std::memory_order_relaxed);
  std::atomic_ref(record->claimed).store(0, std::memory_order_release);
  return text;
}

void raise_device_error() {
  if (const std::optional<std::string> text = take_device_error()) throw InvalidArgument(*text);
}

}  // namespace ws
