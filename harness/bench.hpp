// bench: how fast rungs are, beside their peers and a copy of as many bytes, in one run.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/machine.hpp"
#include "harness/verify.hpp"

namespace ws::harness {

// A peer from outside C++: enqueues one call on the stream. Python brings torch's that way. It
// reads the problem's tensors, and writes where it likes: nothing of it is compared. A first call
// that throws InvalidArgument declines the problem, which is a skip and no failure.
struct CallbackPeer {
  std::string name;
  std::function<void(const Problem&, Stream)> run;
};

struct BenchOptions {
  int min_runs = 50;              // timed runs of each contender, or ...
  double min_milliseconds = 100;  // ... so much timed time, whichever comes first
  int warm_up = 3;
  uint64_t seed = 1;
  bool peers = true;
  bool only_best = false;  // of the rungs, the one that a call gets that names none
  Stream stream = nullptr;
  std::vector<CallbackPeer> callbacks{};
  std::map<std::string, std::string> packages{};  // versions of what the callbacks call
};

enum class Role { kRung, kPeer, kCopy };

// One contender's figures.
struct Measurement {
  std::string name;  // "softmax/warp_per_row", "cudnn", "copy", "cudaMemcpyAsync"
  Role role = Role::kRung;
  Verdict verdict = Verdict::kPassed;
  std::string reason{};  // of a skip or a failure
  int runs = 0;
  double median = 0;  // microseconds
  double min = 0;
  double max = 0;
  double rate = 0;        // bytes/s or FLOP/s, of the median
  double of_ceiling = 0;  // fraction
  double error = -1;      // after timing; negative: not compared
  std::string from{};     // of a rung: the one it grew from; empty: the bottom of a ladder
  bool deterministic = true;
};

struct BenchGroup {
  std::string family;
  std::string operation;
  std::string problem;
  DType dtype = DType::kF32;
  std::vector<int64_t> extents;
  Cost cost;
  bool memory_bound = true;
  double ceiling = 0;        // bytes/s or FLOP/s
  std::string ceiling_name;  // which copy, or "data sheet"
  double floor = 0;          // microseconds
  std::vector<Measurement> measurements;

  const Measurement* fastest(Role role) const;  // of those that passed; null: none
  // How many times faster a rung is than the one it grew from; 0 where that has not passed here.
  double over_from(const Measurement& rung) const;
};

// Times the rungs, the operation's peers, the callbacks and copies in turn: A B C A B C ... Each
// run is preceded by reading more than the L2 and takes the next of several sets of tensors. A rung
// whose output is wrong afterwards, or whose time is below the physical floor, has failed. Throws
// InvalidArgument in the emulated build.
BenchGroup bench(const Operation& operation, std::span<const Rung* const> rungs, const Case& chosen,
                 DType dtype, const BenchOptions& options);

Json to_json(const BenchGroup& group);

// A result file: device, the run (revision, date, options), and the groups. Measured numbers have
// four significant digits.
Json report(const BenchOptions& options, std::span<const BenchGroup> groups);
// Its text: a line for each measurement.
std::string report_text(const Json& report);

}  // namespace ws::harness
