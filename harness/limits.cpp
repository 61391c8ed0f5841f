#include "harness/limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "harness/memory.hpp"
#include "warpsmith/error.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::harness {
namespace {

// The number behind a word of a file of the kernel's; 0 where there is none.
double number_in(const char* path, const std::string& word) {
  std::ifstream file(path);
  std::string other;
  while (!word.empty() && file >> other && other != word) continue;
  double number = 0;
  return file >> number ? number : 0;
}

struct Memory {
  double total = 0;
  double free = 0;
};

// What Linux says could be had without swapping, and a container's own limit.
Memory host_memory() {
  Memory memory{1024 * number_in("/proc/meminfo", "MemTotal:"),
                1024 * number_in("/proc/meminfo", "MemAvailable:")};
  const double most = number_in("/sys/fs/cgroup/memory.max", "");
  if (most > 0 && most < memory.total) {
    memory.total = most;
    memory.free = std::min(memory.free, most);
  }
  return memory;
}

Memory device_memory() {
  const runtime::MemoryInfo info = runtime::memory_info();
  return {static_cast<double>(info.total), static_cast<double>(info.free)};
}

void check(const Problem& problem, std::string_view where, double needed, const Memory& memory,
           const Limits& limits) {
  const double most = limits.gigabytes > 0 ? 1e9 * limits.gigabytes : 0.9 * memory.free;
  require(needed <= most,
          fmt::format("{} needs {:.3g} GB of the {}'s memory, which has {:.3g} GB, {:.3g} of them "
                      "free; the limit is {:.3g} GB, --memory sets another",
                      problem.describe(), needed * 1e-9, where, memory.total * 1e-9,
                      memory.free * 1e-9, most * 1e-9));
}

}  // namespace

void check_memory(const Problem& problem, int offset, const Limits& limits) {
  double host = 0;
  double device = 0;
  const std::span<const Parameter> parameters = problem.operation->parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!problem.tensors[i].exists() || holder_of(problem, i) != i) continue;
    const auto bytes = static_cast<double>(footprint(problem.tensors[i]));
    // On the host what is read, and outputs of two runs; on the device each, in-out ones twice.
    host += (parameters[i].is_read() ? bytes : 0) + (parameters[i].is_written() ? 2 * bytes : 0);
    device += bytes * (parameters[i].role == Parameter::Role::kInOut ? 2 : 1) +
              static_cast<double>(offset) * static_cast<double>(size_of(problem.tensors[i].dtype));
  }
  if (runtime::kEmulated) host += device;
  // A small problem runs wherever the program does.
  constexpr double kSmall = 1e8;
  if (host > kSmall) check(problem, "host", host, host_memory(), limits);
  if (!runtime::kEmulated && device > kSmall) {
    check(problem, "device", device, device_memory(), limits);
  }
}

double estimated_seconds(const Problem& problem, double runs) {
  // Of a core of the emulator: a gemm's rungs reach 15 to 2000 million operations a second, those
  // of softmax and add 10 to 60 MB (2 cores, 2026-11-23). Of an H200: what naive rungs do.
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  const double flops_rate = runtime::kEmulated ? 1e8 * cores : 2e12;
  const double bytes_rate = runtime::kEmulated ? 3e7 * cores : 1e11;
  const Cost cost = problem.operation->cost(problem);
  return runs * (cost.flops / flops_rate + cost.bytes / bytes_rate);
}

void check_time(std::string_view what, double seconds, const Limits& limits) {
  require(seconds <= limits.seconds, what, " takes about ", duration_text(seconds),
          " here; the limit is ", duration_text(limits.seconds),
          ", --time sets another, in seconds");
}

std::string duration_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 200000) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.3g} days", seconds / 86400);
}

}  // namespace ws::harness
