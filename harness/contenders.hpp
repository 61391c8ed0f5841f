// Who takes part in a bench: rungs, peers of C++, callbacks and copies, each a function that
// enqueues one call on one of several sets of the same tensors.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/bench.hpp"
#include "harness/instance.hpp"

namespace ws::harness {

struct Contender {
  std::string name;
  Role role = Role::kRung;
  std::function<void(size_t set)> run;
  const Rung* rung = nullptr;  // of Role::kRung
  bool comparable = false;     // its outputs are the operation's
  bool may_decline = false;    // InvalidArgument of its first call is a skip
  // Of a peer that has several ways of computing the problem each, its own choice first, and which
  // of them `run` is; else none.
  std::vector<std::function<void(size_t set)>> variants{};
  size_t variant = 0;

  Verdict verdict = Verdict::kPassed;
  std::string reason{};
  double error = -1;   // after timing; negative: not compared
  double enqueue = 0;  // microseconds of host time of the last call
  double spent = 0;    // of timed runs, microseconds
  int64_t calls = 0;   // in windows
  std::vector<double> times{};
  std::unique_ptr<DeviceBuffer> workspace{};

  void skip(std::string why);
  void fail(std::string why);
  double median() const;  // of the times; there are some
};

// The sets: so many that a run does not find its inputs in the L2, and never more than fit. For a
// burst, which flushes the L2, it is enough that they exceed it twice, and no harm where small ones
// do not; sustained calls have nothing else, and what stays in a cache that evicts at random is
// little only where they exceed it several times.
class TensorSets {
 public:
  TensorSets(const Instance& instance, size_t l2_bytes, Mode mode = Mode::kBurst);

  size_t count() const { return devices_.size(); }
  double bytes() const;  // of all sets
  DeviceInstance& operator[](size_t set) { return devices_[set]; }
  // In-out tensors of a set as they were before a call.
  void restore(size_t set, Stream stream) { devices_[set].restore(stream); }

 private:
  std::vector<DeviceInstance> devices_;
};

// Buffers for copies of as many bytes as a call moves: half of them read, half written.
class Copies {
 public:
  // `bytes` of both together; the data are the instance's first tensor's over and over.
  Copies(TensorSets& sets, double bytes);

  size_t half() const { return half_; }
  void* target(size_t set) const { return targets_[set].data(); }
  const void* source(size_t set) const { return sources_[set].data(); }

 private:
  size_t half_;  // whole pieces of 16 bytes
  std::vector<DeviceBuffer> sources_;
  std::vector<DeviceBuffer> targets_;
};

// Those that do not take the problem are there, skipped, with the reason. The functions refer to
// `sets` and `options`.
std::vector<Contender> contenders_of(const Operation& operation, std::span<const Rung* const> rungs,
                                     TensorSets& sets, const BenchOptions& options);
// Our copy kernel and cudaMemcpyAsync. They refer to `copies`.
std::vector<Contender> copiers(const Copies& copies, Stream stream);

}  // namespace ws::harness
