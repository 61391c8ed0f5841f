// A launch while it runs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "cuda_file/include/warpsmith_cuda/launch.hpp"
#include "emulator/emulator.hpp"

namespace ws::cuda_file {

struct Frame {
  const KernelCall& kernel;
  const LaunchExtents& extents;
  emulator::Place place;
  uint32_t number;  // of the launch

  // Static shared memory: handed out as threads come by its variables.
  struct Variable {
    const SharedVariable* variable;
    size_t offset;
    emulator::Place place;
  };
  static constexpr size_t kMostVariables = 1024;
  std::mutex mutex{};
  std::array<Variable, kMostVariables> variables{};  // in the order of their offsets
  std::atomic<size_t> variable_count = 0;
  std::atomic<size_t> static_bytes = 0;
  size_t static_limit = 0;
  std::atomic<uint64_t> blocks_begun = 0;

  std::span<const Variable> known_variables() const { return {variables.data(), variable_count}; }
  size_t dynamic_offset() const { return static_limit; }
};

// Of the launch that this host thread takes part in; null outside of kernels.
extern constinit thread_local Frame* frame;

// The launch that runs, whoever asks; null if none does.
Frame* running_frame();

uint3 thread_position(const Frame& of, int64_t index);
uint3 block_position(const Frame& of, int64_t index);

// The store that the running thread has made is complete: what it changed can be seen. Before
// anything of the emulator is called.
void settle();
inline emulator::Thread& enter(emulator::Place place) {
  settle();
  emulator::Thread& me = emulator::self();
  me.place = place;
  return me;
}
// What an ordinary access would be asked, for an atomic one.
void check_atomic(void* address, size_t bytes, const char* operation);
// ... and a copy from global to shared memory, of which the last bytes are not read.
void check_copy(const void* shared, const void* global, size_t bytes, size_t read_bytes,
                const char* operation);

}  // namespace ws::cuda_file
