// How long what is enqueued takes.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "warpsmith/runtime.hpp"

namespace ws::microbench {

// The median of some runs between events of the stream, after one that is not counted; none in the
// emulator, which runs it once.
template <class Enqueue>
std::optional<double> microseconds(const Enqueue& enqueue) {
  enqueue();
  runtime::synchronize();
  if (runtime::kEmulated) return std::nullopt;
  std::array<double, 11> times{};
  for (double& time : times) {
    runtime::Event start;
    runtime::Event end;
    start.record(nullptr);
    enqueue();
    end.record(nullptr);
    runtime::synchronize();
    time = end.microseconds_since(start);
  }
  std::ranges::nth_element(times, times.begin() + times.size() / 2);
  return times[times.size() / 2];
}

}  // namespace ws::microbench
