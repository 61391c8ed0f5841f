// What instructions tell the trace (warpsmith/trace.hpp): one line in each. While no trace is on,
// that is the test of one flag.
//
// A traced warp that comes to a wait lets all others come to theirs before it looks whether it must
// wait: so warps take turns, as they do on a GPU, where else one of them would run until it must.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace ws::emulator {

struct Block;
struct LaunchShape;

extern constinit thread_local bool tracing;  // changes between launches only

namespace trace {

// In flight in groups: what a thread issues, commits and waits for.
enum class Flight : uint8_t { kSmallCopies, kProducts, kNone };

// What a thread waits for.
struct Waited {
  const char* operation;
  int64_t number = -1;  // of a named barrier
  Flight flight = Flight::kNone;
  int64_t pending = -1;          // groups
  const Block* block = nullptr;  // of an mbarrier
  uint32_t offset = 0;
  uint64_t phase = 0;
  bool takes_turn = true;
};

void begin_launch(const LaunchShape& shape);
void begin_thread();
void end_thread();
bool begin_wait(const Waited& waited);  // whether end_wait() shall be called
void end_wait();
void arrive(const Block* block, uint32_t offset, uint64_t phase, const char* operation);
void arrive(int barrier, const char* operation);
void init(const Block& block, uint32_t offset, uint32_t count);
void complete(const Block& block, uint32_t offset, uint64_t phase);
void issue(Flight flight, uint64_t bytes);
void commit(Flight flight);
uint64_t begin_copy(const char* operation, uint64_t bytes, const Block* block, uint32_t offset);
void end_copy(uint64_t copy);

template <class... Parameters>
[[gnu::noinline, gnu::cold]] void follow_copy(std::function<void(Parameters...)>& land,
                                              const char* operation, uint64_t bytes,
                                              const Block* block, uint32_t offset) {
  const uint64_t copy = begin_copy(operation, bytes, block, offset);
  land = [land = std::move(land), copy](Parameters... parameters) {
    land(parameters...);
    end_copy(copy);
  };
}

}  // namespace trace

inline void trace_launch(const LaunchShape& shape) {
  if (tracing) [[unlikely]]
    trace::begin_launch(shape);
}

// While it lives, a thread runs.
class TracedThread {
 public:
  TracedThread() {
    if (tracing) [[unlikely]]
      trace::begin_thread();
  }
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;
  ~TracedThread() {
    if (tracing) [[unlikely]]
      trace::end_thread();
  }
};

// While it lives, the running thread waits. Waits inside of it are parts of it.
class TracedWait {
 public:
  explicit TracedWait(const trace::Waited& waited) {
    if (tracing) [[unlikely]]
      is_open_ = trace::begin_wait(waited);
  }
  TracedWait(const TracedWait&) = delete;
  TracedWait& operator=(const TracedWait&) = delete;
  ~TracedWait() {
    if (is_open_) [[unlikely]]
      trace::end_wait();
  }

 private:
  bool is_open_ = false;
};

// mbarriers: an arrival, the beginning of phase 0, the completion of a phase.
inline void trace_arrival(const Block* block, uint32_t offset, uint64_t phase,
                          const char* operation) {
  if (tracing) [[unlikely]]
    trace::arrive(block, offset, phase, operation);
}
inline void trace_init(const Block& block, uint32_t offset, uint32_t count) {
  if (tracing) [[unlikely]]
    trace::init(block, offset, count);
}
inline void trace_phase(const Block& block, uint32_t offset, uint64_t phase) {
  if (tracing) [[unlikely]]
    trace::complete(block, offset, phase);
}
// An arrival at a named barrier that does not wait.
inline void trace_barrier_arrival(int barrier, const char* operation) {
  if (tracing) [[unlikely]]
    trace::arrive(barrier, operation);
}

// A thread's part in an instruction; of products a warp's.
inline void trace_issue(trace::Flight flight, uint64_t bytes = 0) {
  if (tracing) [[unlikely]]
    trace::issue(flight, bytes);
}
inline void trace_commit(trace::Flight flight) {
  if (tracing) [[unlikely]]
    trace::commit(flight);
}
// A copy that is in flight until `land` is called.
template <class... Parameters>
void trace_copy(std::function<void(Parameters...)>& land, const char* operation, uint64_t bytes,
                const Block* block = nullptr, uint32_t offset = 0) {
  if (tracing) [[unlikely]]
    trace::follow_copy(land, operation, bytes, block, offset);
}

}  // namespace ws::emulator
