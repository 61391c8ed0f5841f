// The kernel of most probes: a block makes steps between two looks at the clock, and then twice as
// many. What the looks, the barriers and the end of the last step cost is in both, so that the
// difference is steps alone.
//
// A step is a struct:
//   static constexpr int kThreads;         // of a block
//   static constexpr Arch kArch;           // optional, kSm80
//   static constexpr int kCluster;         // optional, 1: blocks of a cluster
//   static constexpr int kUnrolled;        // optional, 8: steps of a turn of the loop, which
//                                          // itself takes some clocks: more for steps of few
//                                          // clocks
//   struct Input { ... };                  // of the launch
//   struct Shared { ... };                 // its shared memory
//   __device__ Step(Shared&, const Input&);
//   __device__ void next();                // uses what the one before made
//   __device__ uint64_t state() const;     // a number that tells whether the steps were made
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "harness/memory.hpp"
#include "microbench/probe.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/special_register.hpp"
#include "warpsmith/runtime.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::microbench {

struct Nothing {};  // an Input or a Shared

struct Reading {
  int64_t clocks[3];  // of the first steps, of those that are timed, of twice as many
  uint64_t state;     // of thread 0 at the end
};

template <class Step>
consteval int cluster_of() {
  if constexpr (requires { Step::kCluster; }) {
    return Step::kCluster;
  } else {
    return 1;
  }
}

template <class Step>
consteval int unrolled_of() {
  constexpr int kFew = 8;  // as few as the emulator makes
  if constexpr (!runtime::kEmulated && requires { Step::kUnrolled; }) {
    return Step::kUnrolled;
  } else {
    return kFew;
  }
}

template <class Step>
struct StepsKernel {
  static constexpr int kThreads = Step::kThreads;
  static constexpr Arch kArch = detail::arch_of<Step>();
  static constexpr int kUnrolled = unrolled_of<Step>();
  struct Arguments {
    typename Step::Input input;
    int first;  // steps before those that are timed; both multiples of kUnrolled
    int steps;
    Reading* readings;  // of each block
  };
  using SharedStorage = typename Step::Shared;

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Reading* reading = a.readings + block_index();
    Step step(shared, a.input);
#pragma unroll 1
    for (int pass = 0; pass < 3; ++pass) {
      const int steps = pass == 0 ? a.first : pass * a.steps;
      ptx::barrier_sync();
      const int64_t start = ptx::clock64();
#pragma unroll 1
      for (int i = 0; i < steps; i += kUnrolled) {
#pragma unroll
        for (int j = 0; j < kUnrolled; ++j) step.next();
      }
      ptx::barrier_sync();
      const int64_t clocks = ptx::clock64() - start;
      if (thread_index() == 0) thread::store(reading->clocks + pass, clocks);
    }
    if constexpr (cluster_of<Step>() > 1) ptx::cluster_sync();  // others read this block's memory
    if (thread_index() == 0) thread::store(&reading->state, step.state());
  }
};

// How many: so many on a device, so few in the emulator.
struct Steps {
  int first = 64;
  int timed = 1024;

  Steps here() const {
    constexpr int kFew = 8;
    return runtime::kEmulated ? Steps{std::min(first, 2 * kFew), kFew} : *this;
  }
  int64_t all() const { return first + 3 * int64_t{timed}; }
};

// One block, or cluster, a multiprocessor of the machine; the emulator is shown two.
template <class Step>
int64_t blocks_of(const harness::Machine& machine) {
  constexpr int kCluster = cluster_of<Step>();
  return runtime::kEmulated ? 2 * kCluster : machine.multiprocessors / kCluster * kCluster;
}

// Clocks that a step took in the slowest of the blocks; none in the emulator. Throws where a block
// does not end in `state`.
template <class Step>
std::optional<double> clocks_of_step(const typename Step::Input& input, int64_t blocks,
                                     const Steps& asked, uint64_t state) {
  const Steps steps = asked.here();
  std::vector<Reading> readings(static_cast<size_t>(blocks));
  harness::DeviceBuffer buffer(readings.size() * sizeof(Reading));
  launch<StepsKernel<Step>>(
      {.blocks = blocks, .threads = Step::kThreads, .cluster = cluster_of<Step>()}, nullptr,
      {input, steps.first, steps.timed, reinterpret_cast<Reading*>(buffer.data())});
  runtime::synchronize();
  buffer.download(std::as_writable_bytes(std::span(readings)));
  double slowest = 0;
  for (size_t i = 0; i < readings.size(); i += cluster_of<Step>()) {  // the first of each cluster
    const Reading& reading = readings[i];
    if (reading.state != state) {
      throw Error(concatenate("after ", steps.all(), " steps block ", i, " has ", reading.state,
                              ", not ", state));
    }
    const auto clocks = static_cast<double>(reading.clocks[2] - reading.clocks[1]);
    slowest = std::max(slowest, clocks / steps.timed);
  }
  return runtime::kEmulated ? std::nullopt : std::optional(slowest);
}

}  // namespace ws::microbench
