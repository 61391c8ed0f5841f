// What it costs to start a kernel.
#include <array>
#include <chrono>

#include "harness/kernels.hpp"
#include "harness/memory.hpp"
#include "microbench/probe.hpp"
#include "microbench/timed.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"

namespace ws::microbench {
namespace {

constexpr int kLaunches = 200;  // that a stream's queue takes without waiting

// Does next to nothing: counts itself.
struct CountKernel {
  static constexpr int kThreads = 32;
  struct Arguments {
    uint32_t* count;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    if (thread_index() == 0) ptx::red_global_add(a.count, 1);
  }
};

// A word on the device that launches count in.
class Counter {
 public:
  Counter() : word_(sizeof(uint32_t)) { word_.fill(std::byte{0}); }
  void launch_one() {
    launch<CountKernel>({.blocks = 1, .threads = CountKernel::kThreads}, nullptr,
                        {reinterpret_cast<uint32_t*>(word_.data())});
    ++launched_;
  }
  // Throws where the device has not counted as many as there were.
  void check() const {
    uint32_t count = 0;
    word_.download(std::as_writable_bytes(std::span(&count, 1)));
    if (count != launched_) throw Error(concatenate(count, " of ", launched_, " launches ran"));
  }

 private:
  harness::DeviceBuffer word_;
  uint32_t launched_ = 0;
};

// The median time on the host that a call takes.
template <class Call>
std::optional<double> host_microseconds(const Call& call) {
  std::array<double, kLaunches> times{};
  for (double& time : times) {
    const auto start = std::chrono::steady_clock::now();
    call();
    time =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }
  if (runtime::kEmulated) return std::nullopt;
  std::ranges::nth_element(times, times.begin() + kLaunches / 2);
  return times[kLaunches / 2];
}

Measurement call(const harness::Machine&) {
  Counter counter;
  counter.launch_one();
  runtime::synchronize();
  const auto time = host_microseconds([&] { counter.launch_one(); });
  counter.check();
  return {time};
}

Measurement round_trip(const harness::Machine&) {
  Counter counter;
  const auto time = host_microseconds([&] {
    counter.launch_one();
    runtime::synchronize();
  });
  counter.check();
  return {time};
}

// Kernels wait for each other in the stream; a kernel before them lets the host enqueue them all.
Measurement apart(const harness::Machine&) {
  Counter counter;
  const auto some = [&](int launches) {
    return microseconds([&, launches] {
      constexpr int64_t kClocks = 4'000'000;
      harness::launch_delay(runtime::kEmulated ? 1 : kClocks, nullptr);
      for (int i = 0; i < launches; ++i) counter.launch_one();
    });
  };
  constexpr int kFew = 50;
  const auto few = some(kFew);
  const auto many = some(kLaunches);
  counter.check();
  constexpr double kMore = kLaunches - kFew;
  return {few && many ? std::optional((*many - *few) / kMore) : std::nullopt};
}

constexpr std::array kProbes = {
    Probe{"launch_call", "a launch, of the host's time", "us", Arch::kSm80, call},
    Probe{"launch_round_trip", "a launch and the wait for its end", "us", Arch::kSm80, round_trip},
    Probe{"launch_apart", "a small kernel from the next in its stream", "us", Arch::kSm80, apart},
};

}  // namespace

std::span<const Probe> launches() { return kProbes; }

}  // namespace ws::microbench
