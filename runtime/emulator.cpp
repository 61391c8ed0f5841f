// warpsmith/runtime.hpp on the emulator: memory is the host's, and a launch has ended when it
// returns.
#include "warpsmith/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "emulator/emulator.hpp"

namespace ws {

const DeviceFacts& device_facts() {
  static const DeviceFacts kFacts{.capability = 90,
                                  .multiprocessors = 4,
                                  .threads_per_multiprocessor = 2048,
                                  .shared_bytes = 227 * 1024};
  return kFacts;
}

namespace runtime {

int device_count(std::string*) noexcept { return 1; }
void require_device() {}
int current_device() { return 0; }
DeviceScope::DeviceScope(int device) { require(device == 0, "device ", device, " of 1"); }
DeviceScope::~DeviceScope() = default;

std::string device_name() { return "emulator"; }
std::string driver_version() { return "none"; }
std::string runtime_version() { return "none"; }

MemoryInfo memory_info() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return {.free = static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * page,
          .total = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page};
}

void* allocate(size_t bytes) {
  constexpr size_t kAlignment = 256;
  const size_t rounded = std::max(bytes + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) throw Error(concatenate("no memory for a buffer of ", bytes, " bytes"));
  return memory;
}
void* allocate_managed(size_t bytes) { return allocate(bytes); }
void free(void* memory) noexcept { std::free(memory); }

void* allocate_mapped(size_t bytes) {
  void* memory = allocate(bytes);
  std::memset(memory, 0, bytes);
  return memory;
}
void free_mapped(void* memory) noexcept { std::free(memory); }

void copy(void* target, const void* source, size_t bytes) {
  if (bytes > 0) std::memmove(target, source, bytes);
}
void fill(void* target, std::byte value, size_t bytes) {
  if (bytes > 0) std::memset(target, std::to_integer<int>(value), bytes);
}
void copy_async(void* target, const void* source, size_t bytes, Stream) {
  copy(target, source, bytes);
}

void synchronize(Stream) {}
void synchronize_device() {}
bool is_usable() noexcept { return true; }
bool is_capturing(Stream) { return false; }
uint64_t stream_id(Stream) { return 0; }

Event::Event() = default;
Event::~Event() = default;
void Event::record(Stream) {
  nanoseconds_ =
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double Event::microseconds_since(const Event& start) const {
  return 1e-3 * static_cast<double>(nanoseconds_ - start.nanoseconds_);
}

KernelUsage usage_of(const void*, int, size_t) { return {}; }

void reset_counts() { emulator::reset_counts(); }
std::vector<std::pair<std::string_view, uint64_t>> counts() {
  std::vector<std::pair<std::string_view, uint64_t>> named;
  const emulator::Counts values = emulator::counts();
  for (size_t i = 0; i < values.size(); ++i) {
    named.emplace_back(emulator::to_string(static_cast<emulator::Count>(i)), values[i]);
  }
  return named;
}

void set_thread_order(std::string_view order) {
  using emulator::Order;
  constexpr std::array kOrders = {std::pair{std::string_view("forward"), Order::kForward},
                                  std::pair{std::string_view("reverse"), Order::kReverse},
                                  std::pair{std::string_view("random"), Order::kRandom}};
  const auto* const at =
      std::ranges::find(kOrders, order, [](const auto& named) { return named.first; });
  require(at != kOrders.end(), "--order ", order, ": forward, reverse or random");
  emulator::options().order = at->second;
}

}  // namespace runtime
}  // namespace ws
