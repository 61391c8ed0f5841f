// What the warps of a run's first blocks did, one event after the other: waits, copies and products
// in flight, phases of mbarriers. docs/trace.md says how to look at it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "warpsmith/error.hpp"

namespace ws {

struct TraceOptions {
  int64_t blocks = 0;        // of each launch, from the first one; 0: those of the first cluster
  int64_t events = 100'000;  // what comes after so many is left out
};

struct TraceEvent {
  enum class Kind {
    kRun,       // a warp goes on, from wait to wait
    kWait,      // a warp waits
    kTurn,      // ... need not, and only lets the others come to their waits
    kInstant,   // of a warp
    kPhase,     // of an mbarrier, from completion to completion
    kCopy,      // in flight
    kProducts,  // in flight
  };
  Kind kind = Kind::kRun;
  std::string name{};
  int process = 0;  // a block of a launch
  int track = 0;    // of the process: a warp, an mbarrier; in flight the warp that issued it
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string place{};  // file:line
  // Where there is something to tell:
  int64_t mbarrier = -1;        // shared byte
  int64_t mbarrier_block = -1;  // ... of which block of the launch
  int64_t phase = -1;           // ... and the phase that is waited for, or was completed
  int64_t pending = -1;         // groups that a wait leaves in flight
  int threads = 0;              // of the warp, that execute it
  int products = 0;             // wgmma instructions of a group
  uint64_t bytes = 0;           // of a copy
  bool is_open = false;         // had not ended when the trace did
};

struct TraceTrack {
  int process = 0;
  int track = 0;  // -1: the process itself
  std::string name;
};

struct Trace {
  std::vector<TraceTrack> tracks{};
  std::vector<TraceEvent> events{};
  std::string order{};        // "forward", "reverse", "random": in which threads ran
  uint64_t left_out = 0;      // events beyond the limit
  int64_t blocks = 0;         // in the trace, over all launches
  int64_t blocks_of_run = 0;  // over all launches
};

// Between the two, launches of this host thread are traced, and no other host thread helps with
// them. Not in a CUDA build.
#ifdef WS_EMULATED
void begin_trace(const TraceOptions& options);
Trace end_trace();
#else
[[noreturn]] inline void begin_trace(const TraceOptions&) {
  throw Error("traces are the emulator's: this is the CUDA build, whose tracer is nsys");
}
inline Trace end_trace() { return {}; }
#endif

// Ends a trace that an exception has cut short.
class TraceScope {
 public:
  explicit TraceScope(const TraceOptions& options) { begin_trace(options); }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  ~TraceScope() {
    if (!ended_) end_trace();
  }
  Trace end() {
    ended_ = true;
    return end_trace();
  }

 private:
  bool ended_ = false;
};

}  // namespace ws
