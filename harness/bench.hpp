// bench: how fast rungs are, beside their peers and a copy of as many bytes, in one run.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/limits.hpp"
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

// What is timed. A burst: single calls, the L2 flushed before each, so that the GPU idles or copies
// most of the time and stays cool and fast. Sustained: calls back to back for as long as power and
// clocks take to settle, on sets of tensors in turns that together exceed the L2 several times.
enum class Mode { kBurst, kSustained };
std::string_view to_string(Mode mode);  // "burst", "sustained"

struct BenchOptions {
  Mode mode = Mode::kBurst;
  // Of a burst:
  int min_runs = 50;              // timed runs of each contender, or ...
  double min_milliseconds = 100;  // ... so much timed time, whichever comes first
  // Sustained: windows of each contender, and what each lasts at least.
  int windows = 3;
  double window_milliseconds = 1000;
  int warm_up = 3;
  uint64_t seed = 1;
  bool peers = true;
  bool only_best = false;  // of the rungs, the one that a call gets that names none
  Limits limits{};         // of memory
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
  // Of a peer that has several ways of computing the problem: which was the fastest, from 1 on, and
  // how many were tried. 0: it has one.
  int variant = 0;
  int variants = 0;
  int runs = 0;       // single calls, or windows of many
  int64_t calls = 0;  // in all windows
  double median = 0;  // microseconds a call
  double min = 0;
  double max = 0;
  double rate = 0;        // bytes/s or FLOP/s, of the median
  double of_ceiling = 0;  // fraction
  double error = -1;      // after timing; negative: not compared
  std::string from{};     // of a rung: the one it grew from; empty: the bottom of a ladder
  bool deterministic = true;

  std::string title() const;  // "cublasLt (3 of 8)": the name and the variant
};

struct BenchGroup {
  std::string family;
  std::string operation;
  std::string problem;
  DType dtype = DType::kF32;
  Mode mode = Mode::kBurst;
  size_t sets = 0;     // of tensors, which calls take in turns
  double rotated = 0;  // bytes of all sets
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

// Throws InvalidArgument in the emulated build, whose times are no GPU's.
void require_times();

// Times the rungs, the operation's peers, the callbacks and copies in turn: A B C A B C ... Each
// run is preceded by reading more than the L2 and takes the next of several sets of tensors; or, in
// Mode::kSustained, is a window of calls. Of a peer with several variants the fastest that is right
// takes part, by the same measure, found before. A rung whose output is wrong afterwards, or whose
// time is below the physical floor, has failed. Throws InvalidArgument in the emulated build.
BenchGroup bench(const Operation& operation, std::span<const Rung* const> rungs, const Case& chosen,
                 DType dtype, const BenchOptions& options);

Json to_json(const BenchGroup& group);

// A result file: device, the run (revision, date, options), and the groups. Measured numbers have
// four significant digits.
Json report(const BenchOptions& options, std::span<const BenchGroup> groups);
// Its text: a line for each measurement.
std::string report_text(const Json& report);

}  // namespace ws::harness
