// The device under this build: CUDA's runtime (runtime/cuda.cpp) or the emulator
// (runtime/emulator.cpp). Catalogue, harness, program and Python ask here, so that nothing in them
// tells the two apart; where text or policy must differ, `if (runtime::kEmulated)` says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warpsmith/device_facts.hpp"
#include "warpsmith/stream.hpp"

namespace ws::runtime {

#ifdef WS_EMULATED
inline constexpr bool kEmulated = true;
inline constexpr std::string_view kName = "emulator";
#else
inline constexpr bool kEmulated = false;
inline constexpr std::string_view kName = "cuda";
#endif

// ---- Devices ----------------------------------------------------------------------------------
// All functions throw ws::Error with CUDA's words; those that never throw are noexcept. Memory,
// facts and capability are the current device's.

// How many there are; the emulator is one. Where there is none, `why` receives the reason.
int device_count(std::string* why = nullptr) noexcept;
// Throws InvalidArgument where device_count() is 0, and says what to do.
void require_device();
int current_device();

// Makes a device current while it lives; in the emulator there is one only.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope();

 private:
  int previous_ = -1;  // -1: it was current before
};

inline int capability() { return device_facts().capability; }
std::string device_name();      // "NVIDIA H200"; "emulator"
std::string driver_version();   // highest CUDA version that the driver runs: "13.0"; "none"
std::string runtime_version();  // CUDA version of this build; "none"

// ---- Memory -----------------------------------------------------------------------------------

struct MemoryInfo {
  size_t free = 0;  // bytes that could be allocated now
  size_t total = 0;
};
MemoryInfo memory_info();  // in the emulator the host's

// 256-byte aligned memory for kernels, not set to anything; in the emulator the host's. Allowed
// while a stream is being captured, and no part of the graph.
void* allocate(size_t bytes);
// The same, which the host may touch too whenever no kernel runs.
void* allocate_managed(size_t bytes);
void free(void* memory) noexcept;  // of either; null is allowed
// Host memory, zeroed, that kernels reach at the same address while they run: for records of
// errors.
void* allocate_mapped(size_t bytes);
void free_mapped(void* memory) noexcept;

// Between host and device, either way; these wait until the bytes are there.
void copy(void* target, const void* source, size_t bytes);
void fill(void* target, std::byte value, size_t bytes);
// In the order of the stream. See also set_zero() of launch.hpp.
void copy_async(void* target, const void* source, size_t bytes, Stream stream);

// ---- Streams ----------------------------------------------------------------------------------

// Whether what is enqueued now becomes part of a CUDA graph instead of running. Never in the
// emulator.
bool is_capturing(Stream stream);
// A number that no other stream of this process has or had, also where an address is used again.
uint64_t stream_id(Stream stream);

// ---- Time -------------------------------------------------------------------------------------

// Waits for the stream and throws what went wrong on it. In the emulator nothing is ever pending.
void synchronize(Stream stream = nullptr);
void synchronize_device();
// Makes the current thread's runtime forget errors, and says whether the device still works.
bool is_usable() noexcept;

// A point in a stream's time. In the emulator the host's clock.
class Event {
 public:
  Event();
  Event(Event&& other) noexcept
      : event_(std::exchange(other.event_, nullptr)), nanoseconds_(other.nanoseconds_) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();
  void record(Stream stream);
  double microseconds_since(const Event& start) const;  // after both have passed

 private:
  void* event_ = nullptr;
  int64_t nanoseconds_ = 0;
};

// ---- Kernels ----------------------------------------------------------------------------------

// Of one kernel (KernelFacts::entry of launch.hpp) launched so; -1: unknown, as in the emulator.
struct KernelUsage {
  int registers = -1;
  int local_bytes = -1;
  int blocks_per_multiprocessor = -1;
};
KernelUsage usage_of(const void* entry, int threads, size_t shared_bytes);

// What the emulator counted since the last reset, by name; on a GPU nothing.
void reset_counts();
std::vector<std::pair<std::string_view, uint64_t>> counts();
// "forward", "reverse" or "random": the order in which the emulator runs threads from now on.
// Throws InvalidArgument for other words, and on a GPU.
void set_thread_order(std::string_view order);
// In which orders a check runs a kernel, one after another: in the emulator all three, unless one
// has been set (or WARPSMITH_EMULATOR names one); on a GPU there is one, without a name.
std::vector<std::string_view> orders_to_check();
// Runs threads in one of these while it lives.
class ThreadOrderScope {
 public:
  explicit ThreadOrderScope(std::string_view order);
  ThreadOrderScope(const ThreadOrderScope&) = delete;
  ThreadOrderScope& operator=(const ThreadOrderScope&) = delete;
  ~ThreadOrderScope();

 private:
  int before_ = 0;
};

}  // namespace ws::runtime
