// What `warpsmith microbench` measures: latencies and rates of a device's parts, one probe each.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "harness/machine.hpp"
#include "warpsmith/arch.hpp"

namespace ws::microbench {

struct Measurement {
  std::optional<double> value;    // none in the emulator, whose clock says nothing of a device
  std::optional<double> known{};  // what the device's data sheet or CUDA's guide has for it
};

struct Probe {
  std::string_view name;  // "shared_latency"
  std::string_view what;  // of whatever `unit` counts
  std::string_view unit;  // "clocks"
  Arch arch = Arch::kSm80;
  Measurement (*run)(const harness::Machine& machine) = nullptr;
};

// Runs the probe's kernels, compares what they computed with what they must (throws Error that
// names both), and measures them.
Measurement measure(const Probe& probe, const harness::Machine& machine);

std::span<const Probe> latencies();  // a unit of microbench/ each
std::span<const Probe> rates();
std::span<const Probe> tensor_cores();
std::span<const Probe> memory();
std::span<const Probe> launches();

// All of them, as they are told.
std::vector<Probe> probes();

}  // namespace ws::microbench
