// trace: one run of a rung in the emulator, event by event (warpsmith/trace.hpp).
#pragma once

#include <exception>
#include <iosfwd>

#include "harness/instance.hpp"
#include "harness/json.hpp"
#include "warpsmith/trace.hpp"

namespace ws::harness {

struct TracedRun {
  Trace trace;
  std::exception_ptr failure;  // what the run ended in: the trace leads there
};
// Runs the rung once; nothing is compared. Throws where it does not take the problem, and in a CUDA
// build.
TracedRun trace(const Rung& rung, Instance& instance, const TraceOptions& options);

// What ts counts: it stands in the file and in the command's output.
inline constexpr std::string_view kTraceClock =
    "the emulator's order, not time: ts counts events and warps' instructions";

// In the Chrome trace event format, an event a line. `about` joins its otherData.
void write_chrome_trace(std::ostream& out, const Trace& trace, const Json& about);

}  // namespace ws::harness
