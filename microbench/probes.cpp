#include "microbench/probe.hpp"
#include "warpsmith/error.hpp"

namespace ws::microbench {

Measurement measure(const Probe& probe, const harness::Machine& machine) {
  try {
    return probe.run(machine);
  } catch (Error& error) {
    ErrorContext context;
    context.rung = concatenate("microbench/", probe.name);
    error.add_context(context);
    throw;
  }
}

std::vector<Probe> probes() {
  std::vector<Probe> all;
  for (const auto part : {latencies(), rates(), tensor_cores(), memory(), launches()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace ws::microbench
