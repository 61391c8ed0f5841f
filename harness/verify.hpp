// verify: whether a rung computes its operation, on random inputs against the reference.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "harness/instance.hpp"

namespace ws::harness {

enum class Verdict { kPassed, kSkipped, kFailed };
std::string_view to_string(Verdict verdict);  // "passed", "skipped", "failed"

// What is wrong with a rung that failed. Of several defects the first in this order is told.
enum class Defect {
  kNone,
  kError,             // it threw: a fault of the emulator, an error of CUDA, a bad launch
  kOutOfBounds,       // it wrote outside a buffer, or between the rows of one
  kInputChanged,      // an input is not what it was
  kWorkspaceDirty,    // bytes of the workspace that it must leave zero are not
  kUnwritten,         // an output element was never written
  kNotFinite,         // NaN or infinity where the reference has a number, or the other way round
  kInaccurate,        // further from the reference than the tolerance
  kNondeterministic,  // two runs on one input differ, and the row does not say that they may
  kInPlace,           // another result where the output is the input's own memory
};
std::string_view to_string(Defect defect);  // "none", "error", "out of bounds", ...

// One element of a tensor that is written, beside the reference.
struct Element {
  int tensor = 0;     // parameter
  int64_t index = 0;  // row-major, logical
  double got = 0;
  double expected = 0;
};

struct Verification {
  std::string rung;     // "softmax/warp_per_row"
  std::string problem;  // Problem::describe(), with the case's pointer offset
  DType dtype = DType::kF32;
  Verdict verdict = Verdict::kPassed;
  Defect defect = Defect::kNone;
  std::string reason;  // of a skip or a failure, complete
  // Of the output that comes closest to what it is allowed:
  Tolerance tolerance;
  double error = 0;      // ||out - ref|| / ||ref||
  Element worst;         // by the tolerance's measure
  int64_t checked = 0;   // output elements compared
  int64_t elements = 0;  // of all that is written
  double seconds = 0;
  std::map<std::string, uint64_t> counts;  // of one run, in the emulator
};

// Runs the rung on the instance twice (in the emulator in each of `orders` of threads; if none are
// given in all, unless one has been set), and where the operation allows it once in place, and
// compares. Throws only for a bad instance.
Verification verify(const Rung& rung, Instance& instance,
                    std::vector<std::string_view> orders = {});

// Compares what the device holds in the outputs, which held the poison 0xFF before, with the
// reference; used after timing too, then also of a peer (rung is null). Fills verdict, defect,
// reason, tolerance, error, worst, checked of `result`.
void compare_outputs(const Rung* rung, DeviceInstance& device, Instance& instance,
                     Verification& result);

// Sets verdict, defect and reason, unless the result has failed already.
void fail(Verification& result, Defect defect, std::string reason);

}  // namespace ws::harness
