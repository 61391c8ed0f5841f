// Global memory as kernels reach it: each access held against the memory that it may touch, against
// what other threads and blocks have done there (emulator/clock.hpp), and counted.
//
// A launch knows its memory from the call that it is part of (CallMemory): there every access must
// be within a tensor or the workspace. Outside of a call it is what runtime::allocate() has given:
// accesses near one must be within it; elsewhere nothing is known, and all that is readable goes.
#pragma once

#include <optional>

#include "emulator/emulator.hpp"

namespace ws::emulator {

// ---- What there is -----------------------------------------------------------------------------

// Memory of runtime::allocate(), with room before and behind that belongs to nobody.
// `shared_by_all`: kernels may touch it in every call, as a record of errors.
inline constexpr size_t kRoomAround = 4096;
void register_memory(const void* begin, size_t bytes, bool shared_by_all);
void forget_memory(const void* begin);

// What the launches of a process may know of global memory while one of them runs.
class GlobalMemory;
struct ForgetGlobalMemory {
  void operator()(GlobalMemory* memory) const;
};
using GlobalMemoryOfLaunch = std::unique_ptr<GlobalMemory, ForgetGlobalMemory>;
GlobalMemoryOfLaunch global_memory_of_launch(const Options& options);

// ---- Accesses ----------------------------------------------------------------------------------

// ld.global, .nc where nothing may write while the kernel runs; st.global.
void load_global_checked(void* registers, const void* global, size_t bytes, bool read_only);
// ld.global that does not race with atomics: what CUDA's own guide does before a compare-and-swap.
void load_global_beside_atomics(void* registers, const void* global, size_t bytes);
void store_global(void* global, const void* registers, size_t bytes);
// A store that the program makes itself: what to look at before it, and after it, of the bytes that
// were there `before` (null: not known). In between nothing of the emulator is called.
void begin_store_global(const void* global, size_t bytes);
void end_store_global(const void* global, const void* before, size_t bytes);

// Where this host thread may load without a further look: tensors of its launch that no kernel
// writes, as it came by them.
struct LoadWindow {
  uintptr_t begin = 0;
  uintptr_t bytes = 0;
};
extern constinit thread_local std::array<LoadWindow, 4> load_windows;

inline void load_global(void* registers, const void* global, size_t bytes, bool read_only) {
  const auto address = reinterpret_cast<uintptr_t>(global);
  for (const LoadWindow& window : load_windows) {
    // Below the window the difference wraps around.
    if (address - window.begin < window.bytes && (address & (bytes - 1)) == 0) {
      count(Count::kGlobalLoads);
      count(Count::kGlobalLoadBytes, bytes);
      __builtin_memcpy(registers, global, bytes);
      return;
    }
  }
  load_global_checked(registers, global, bytes, read_only);
}

// The place is a multiple of `alignment`.
void check_alignment(const void* global, size_t alignment, const char* operation);
// That, outside of shared memory, and memory that the launch may read, or write, to the last byte.
void check_global(const void* global, size_t bytes, size_t alignment, bool writes,
                  const char* operation);

// How an access is made, beside ordinary loads and stores.
enum class Manner : uint8_t {
  kWeak,
  kReadOnly,  // ld.global.nc
  kStrong,    // atomics, relaxed, acquire and release: they do not race with each other
  kAsync,     // copies, by the async proxy
  kMixed,     // ordinary loads that atomics may come between: old = *address; do atomicCAS ...
};
// What works for the running thread's block and reads for it.
struct Stream {
  uint32_t actor;
  uint32_t epoch;
};
// Fails unless the running thread comes after all that conflicts with its access; then remembers
// it, as the stream's if there is one.
void read_global(const void* global, size_t bytes, Manner manner, const char* operation,
                 const Stream* stream = nullptr);
void write_global(const void* global, const void* source, size_t bytes, Manner manner,
                  const char* operation);

// Who shares what a fence or a strong access passes on.
enum class Reach { kBlock, kDevice };

// Around the change of *address that is atomic, between which nothing comes (they hold a lock):
// before it, and after it, where it `changed` something and the caller learns the old value.
void begin_atomic(const void* address, size_t bytes, const char* operation);
void end_atomic(const void* address, bool changed, bool returns);
// *address += value by the copy engine: atomic, but nobody's access; whoever asked for it has been
// counted.
void add_global_f32(float* address, float value, const char* operation);
// What atomics pass on beside their values, also those in shared memory: what the thread has fenced
// goes to the address before the change, what others have left there is seen after it.
void leave_at(const void* address);
void look_at(const void* address);
// The thread comes after what it has looked at by strong accesses, as if a fence came here.
void acquire_observed();
// ld.relaxed, ld.acquire; st.relaxed, st.release.
void load_strong(void* registers, const void* global, size_t bytes, std::optional<Reach> acquire);
void store_strong(void* global, const void* registers, size_t bytes, std::optional<Reach> release);
void fence_acq_rel(Reach reach);
void fence_proxy_async_global();

}  // namespace ws::emulator
