// warpsmith/runtime.hpp on the emulator: memory is the host's, and a launch has ended when it
// returns.
#include "warpsmith/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "emulator/emulator.hpp"
#include "emulator/global_memory.hpp"
#include "warpsmith/arch.hpp"
#include "warpsmith/device_query.hpp"

namespace ws {

namespace {

// Few, so that small problems make kernels of many blocks wait for each other;
// WARPSMITH_MULTIPROCESSORS=132 lets rungs choose their launches as on an H200.
int multiprocessors() {
  constexpr int kUsual = 4;
  const char* text = std::getenv("WARPSMITH_MULTIPROCESSORS");
  const int64_t number = text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
  return number > 0 && number <= 1024 ? static_cast<int>(number) : kUsual;
}

}  // namespace

const DeviceFacts& device_facts() {
  static const DeviceFacts kFacts{.capability = 90,
                                  .multiprocessors = multiprocessors(),
                                  .threads_per_multiprocessor = Multiprocessor::kThreads,
                                  .shared_bytes = Multiprocessor::kSharedBytesOfBlock};
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

std::vector<DeviceQuantity> device_query() {
  return {
      {"threads an SM", Multiprocessor::kThreads},
      {"blocks an SM", Multiprocessor::kBlocks},
      {"lanes a warp", 32},
      {"registers an SM", Multiprocessor::kRegisters},
      {"shared memory a block", static_cast<int64_t>(Multiprocessor::kSharedBytesOfBlock), "bytes"},
      {"shared memory an SM", static_cast<int64_t>(Multiprocessor::kSharedBytes), "bytes"}};
}

MemoryInfo memory_info() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return {.free = static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * page,
          .total = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page};
}

namespace {

void* allocate(size_t bytes, bool shared_by_all) {
  constexpr size_t kAlignment = 256;
  constexpr size_t kAround = emulator::kRoomAround;
  static_assert(kAround % kAlignment == 0);
  const size_t rounded = (bytes + 2 * kAround + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) throw Error(concatenate("no memory for a buffer of ", bytes, " bytes"));
  std::byte* const begin = static_cast<std::byte*>(memory) + kAround;
  emulator::register_memory(begin, bytes, shared_by_all);
  return begin;
}

}  // namespace

void* allocate(size_t bytes) { return allocate(bytes, false); }
void* allocate_managed(size_t bytes) { return allocate(bytes); }
void free(void* memory) noexcept {
  if (memory == nullptr) return;
  emulator::forget_memory(memory);
  std::free(static_cast<std::byte*>(memory) - emulator::kRoomAround);
}

void* allocate_mapped(size_t bytes) {
  void* memory = allocate(bytes, true);
  std::memset(memory, 0, bytes);
  return memory;
}
void free_mapped(void* memory) noexcept { free(memory); }

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

namespace {

emulator::Order checked_order(std::string_view name) {
  const std::optional<emulator::Order> order = emulator::order_named(name);
  if (!order) throw InvalidArgument(concatenate("--order ", name, ": forward, reverse or random"));
  return *order;
}

}  // namespace

void set_thread_order(std::string_view order) {
  emulator::options().order = checked_order(order);
  emulator::options().order_is_set = true;
}

std::vector<std::string_view> orders_to_check() {
  const emulator::Options& options = emulator::options();
  if (options.order_is_set) return {emulator::to_string(options.order)};
  std::vector<std::string_view> all;
  for (const emulator::Order order : emulator::kAllOrders) {
    all.emplace_back(emulator::to_string(order));
  }
  return all;
}

ThreadOrderScope::ThreadOrderScope(std::string_view order)
    : before_(static_cast<int>(emulator::options().order)) {
  emulator::options().order = checked_order(order);
}
ThreadOrderScope::~ThreadOrderScope() {
  emulator::options().order = static_cast<emulator::Order>(before_);
}

}  // namespace runtime
}  // namespace ws
