// How fast the emulator is: `emulator_benchmark` prints the table of docs/emulator.md.
#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "emulator/emulator.hpp"
#include "harness/instance.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/shuffle.hpp"

namespace ws::emulator {
namespace {

constexpr int kRuns = 9;

// Seconds of processor time, of all threads of the process.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of the fastest of some calls: what else the host does can only add to it.
double seconds(const std::function<void()>& call) {
  double fastest = 0;
  for (int i = 0; i < kRuns; ++i) {
    const double start = processor_seconds();
    call();
    const double time = processor_seconds() - start;
    fastest = i == 0 ? time : std::min(fastest, time);
  }
  return fastest;
}

uint64_t counted(Count what, const std::function<void()>& call) {
  reset_counts();
  call();
  return counts()[static_cast<size_t>(what)];
}

void rate(const char* what, Count unit, const char* unit_name, const std::function<void()>& call) {
  const double time = seconds(call);
  fmt::print("{:<52} {:>9.2f} million {}/s\n", what,
             static_cast<double>(counted(unit, call)) / time / 1e6, unit_name);
}

void rung(const char* address, const Case& chosen, DType dtype) {
  const Address found = resolve(address);
  const harness::Instance instance(*found.operation, chosen, dtype, 1);
  harness::DeviceInstance device(instance);
  const AnyCall& call = device.call();
  const Context context{.workspace = device.workspace(workspace_of(*found.rung, call))};
  const double time = seconds([&] { run(*found.rung, call, context); });
  fmt::print("{:<52} {:>9.1f} ms\n", concatenate(found.rung->name, ": ", call.problem().describe()),
             time * 1e3);
}

void run_all() {
  fmt::print("processor time, {} host threads, fastest of {} runs\n",
             std::thread::hardware_concurrency(), kRuns);
  rate("threads that never wait (blocks of 256)", Count::kThreads, "threads",
       [] { launch({4096, 256}, [](std::byte*) {}); });
  rate("shuffles, 8 blocks of 256 threads", Count::kSwitches, "switches", [] {
    launch({8, 256}, [](std::byte*) {
      uint32_t value = 1;
      for (int i = 0; i < 200; ++i) value = ptx::shfl_sync_bfly(kFullMask, value, 1 + i % 16);
    });
  });
  rate("the same", Count::kWarpInstructions, "warp instructions", [] {
    launch({8, 256}, [](std::byte*) {
      uint32_t value = 1;
      for (int i = 0; i < 200; ++i) value = ptx::shfl_sync_bfly(kFullMask, value, 1 + i % 16);
    });
  });
  rate("block barriers, 8 blocks of 1024 threads", Count::kSwitches, "switches", [] {
    launch({8, 1024}, [](std::byte*) {
      for (int i = 0; i < 100; ++i) ptx::barrier_sync();
    });
  });
  for (const char* address : {"softmax/warp_per_row", "softmax/block_per_row"}) {
    rung(address, {.extents = {1024, 1024}}, DType::kF32);
  }
  for (const char* address : {"gemm/naive", "gemm/mma_pipeline", "gemm/warp_specialized"}) {
    rung(address, {.extents = {256, 256, 256}}, DType::kF16);
  }
  rung("gemm/warp_specialized", {.extents = {512, 512, 512}}, DType::kF16);
}

}  // namespace
}  // namespace ws::emulator

int main() {
  try {
    ws::emulator::run_all();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
