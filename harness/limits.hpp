// What a problem takes, before it runs, and whether that may be.
#pragma once

#include <string>
#include <string_view>

#include "catalogue/catalogue.hpp"

namespace ws::harness {

// More than this is refused with the estimate. A user may raise it.
struct Limits {
  double gigabytes = 0;  // of the host's memory and of the device's; 0: nine tenths of what is free
  double seconds = 3600;  // of all that is asked for at once
};

// Throws InvalidArgument for a problem whose tensors, `offset` elements behind a boundary, are more
// than the limit: it would end in an allocation that fails, or in swapping.
void check_memory(const Problem& problem, int offset, const Limits& limits);

// Of so many runs of the problem by a rung of middling speed, in seconds: right within a factor of
// ten, which is enough to tell a minute from a year, and to share out a line of progress.
double estimated_seconds(const Problem& problem, double runs);
// Throws InvalidArgument where all that `what` names would take longer than the limit.
void check_time(std::string_view what, double seconds, const Limits& limits);

// "40 s", "3.5 min", "2.1 h", "80 days"
std::string duration_text(double seconds);

}  // namespace ws::harness
