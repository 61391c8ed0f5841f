// Latencies: a chain of steps, each of which waits for the last one's result.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "catalogue/fill.hpp"
#include "harness/kernels.hpp"
#include "microbench/steps.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/atomic_shared.hpp"
#include "warpsmith/ptx/load_address.hpp"
#include "warpsmith/ptx/math.hpp"
#include "warpsmith/ptx/mbarrier.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/shared.hpp"

namespace ws::microbench {
namespace latency_of {

// ---- Registers ---------------------------------------------------------------------------------

struct Fma {
  static constexpr int kThreads = 32;
  static constexpr int kUnrolled = 32;
  struct Input {
    float factor, summand;
  };
  using Shared = Nothing;
  __device__ Fma(Shared&, const Input& input) : input(input) {}
  __device__ void next() { x = fmaf(x, input.factor, input.summand); }
  __device__ uint64_t state() const { return static_cast<uint64_t>(x); }
  const Input& input;
  float x = 0;
};

// x = 2^-x, which ends at 0.64119 wherever it begins.
struct Exponential {
  static constexpr int kThreads = 32;
  using Input = Nothing;
  using Shared = Nothing;
  __device__ Exponential(Shared&, const Input&) {}
  __device__ void next() { x = ptx::ex2_approx_ftz_f32(-x); }
  __device__ uint64_t state() const { return static_cast<uint64_t>(x * 1e4f); }
  float x = 0;
};

// Each lane takes what its neighbour has.
struct Shuffle {
  static constexpr int kThreads = 32;
  using Input = Nothing;
  using Shared = Nothing;
  __device__ Shuffle(Shared&, const Input&) {}
  __device__ void next() { x = ptx::shfl_sync_idx(kFullMask, x, source); }
  __device__ uint64_t state() const { return x; }
  int source = (lane_index() + 1) % kWarpSize;
  uint32_t x = static_cast<uint32_t>(lane_index());
};

// ---- Shared memory -----------------------------------------------------------------------------

constexpr int kWords = 1024;
constexpr int kStride = 97;  // words; coprime to kWords, so that all of them are visited

// Each word holds the address of the next.
struct SharedRing {
  // Addresses in the block, or in the cluster that it is the block `rank` of.
  __device__ void fill() {
    for (int i = thread_index(); i < kWords; i += kWarpSize) {
      next[i] = ptx::shared_address(next.pointer((i + kStride) % kWords));
    }
  }
  __device__ void fill(int rank) {
    for (int i = thread_index(); i < kWords; i += kWarpSize) {
      next[i] = ptx::map_shared_rank(next.pointer((i + kStride) % kWords), rank);
    }
  }
  SharedArray<uint32_t, kWords> next;
};

struct SharedLoad {
  static constexpr int kThreads = 32;
  using Input = Nothing;
  using Shared = SharedRing;
  __device__ SharedLoad(Shared& shared, const Input&)
      : first(ptx::shared_address(shared.next.pointer())), at(first) {
    shared.fill();
  }
  __device__ void next() { at = ptx::ld_shared_address(at); }
  __device__ uint64_t state() const { return (at - first) / sizeof(uint32_t); }
  uint32_t first, at;
};

// The first block of a cluster walks through the second one's shared memory.
struct ClusterLoad {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kCluster = 2;
  using Input = Nothing;
  using Shared = SharedRing;
  __device__ ClusterLoad(Shared& shared, const Input&)
      : first(ptx::map_shared_rank(shared.next.pointer(), 1 - cluster_rank())), at(first) {
    shared.fill(cluster_rank());
    ptx::cluster_sync();
  }
  __device__ void next() { at = ptx::ld_shared_cluster<uint32_t>(at); }
  __device__ uint64_t state() const { return (at - first) / sizeof(uint32_t); }
  uint32_t first, at;
};

// Adds to a word what it had two additions ago: Fibonacci's numbers.
struct SharedAtomic {
  static constexpr int kThreads = 1;
  using Input = Nothing;
  struct Shared {
    SharedArray<uint32_t, 1> word;
  };
  __device__ SharedAtomic(Shared& shared, const Input&) : shared(shared) { shared.word[0] = 1; }
  __device__ void next() { x = ptx::atom_shared_add(shared.word.pointer(), x); }
  __device__ uint64_t state() const { return x; }
  Shared& shared;
  uint32_t x = 0;
};

// ---- Barriers ----------------------------------------------------------------------------------

template <int kOfBlock>
struct Barrier {
  static constexpr int kThreads = kOfBlock;
  using Input = Nothing;
  using Shared = Nothing;
  __device__ Barrier(Shared&, const Input&) {}
  __device__ void next() {
    ptx::barrier_sync();
    ++count;
  }
  __device__ uint64_t state() const { return count; }
  uint32_t count = 0;
};

struct ClusterBarrier {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kCluster = 2;
  using Input = Nothing;
  using Shared = Nothing;
  __device__ ClusterBarrier(Shared&, const Input&) {}
  __device__ void next() {
    ptx::cluster_sync();
    ++count;
  }
  __device__ uint64_t state() const { return count; }
  uint32_t count = 0;
};

// A thread arrives where nobody else is expected, and waits for it.
struct Mbarrier {
  static constexpr int kThreads = 1;
  static constexpr Arch kArch = Arch::kSm90;
  using Input = Nothing;
  struct Shared {
    ptx::Mbarrier barrier;
  };
  __device__ Mbarrier(Shared& shared, const Input&) : shared(shared) {
    ptx::mbarrier_init(shared.barrier, 1);
  }
  __device__ void next() {
    ptx::mbarrier_arrive(shared.barrier);
    ptx::mbarrier_wait_parity(shared.barrier, phases++ % 2);
  }
  __device__ uint64_t state() const { return phases; }
  Shared& shared;
  uint32_t phases = 0;
};

// ---- Global memory -----------------------------------------------------------------------------

// Each node holds the address of the next.
struct GlobalLoad {
  static constexpr int kThreads = 32;
  struct Input {
    const std::byte* first;
    int64_t spacing;  // bytes from node to node
  };
  using Shared = Nothing;
  __device__ GlobalLoad(Shared&, const Input& input) : input(input), at(input.first) {}
  __device__ void next() { at = ptx::ld_global_address(at); }
  __device__ uint64_t state() const {
    return static_cast<uint64_t>((at - input.first) / input.spacing);
  }
  const Input& input;
  const std::byte* at;
};

struct GlobalAtomic {
  static constexpr int kThreads = 1;
  struct Input {
    uint32_t* word;
  };
  using Shared = Nothing;
  __device__ GlobalAtomic(Shared&, const Input& input) : input(input) {}
  __device__ void next() { x = ptx::atom_global_add(input.word, x); }
  __device__ uint64_t state() const { return x; }
  const Input& input;
  uint32_t x = 0;
};

}  // namespace latency_of

namespace {

uint32_t fibonacci(int64_t steps) {
  uint32_t last = 0;
  uint32_t next = 1;
  for (int64_t i = 0; i < steps; ++i) last = std::exchange(next, last + next);
  return last;
}

// Nodes in one ring that visits all of them in a random order (Sattolo's shuffle).
std::vector<size_t> ring_of(size_t nodes) {
  std::vector<size_t> next(nodes);
  std::iota(next.begin(), next.end(), size_t{0});
  for (size_t i = nodes - 1; i > 0; --i) std::swap(next[i], next[random_bits(1, i) % i]);
  return next;
}

// A walk over `nodes` that lie `spacing` bytes apart. What `steps.first` visits is in the caches
// when the clock starts; `flushed` leaves nothing else there.
Measurement walk(size_t nodes, size_t spacing, const Steps& asked, bool flushed) {
  if (runtime::kEmulated) nodes = std::min<size_t>(nodes, 64);
  const Steps steps = asked.here();
  harness::DeviceBuffer buffer(nodes * spacing);
  const std::vector<size_t> next = ring_of(nodes);
  std::vector<std::byte> bytes(nodes * spacing);
  for (size_t i = 0; i < nodes; ++i) {
    const auto address = reinterpret_cast<uint64_t>(buffer.data() + next[i] * spacing);
    std::memcpy(bytes.data() + i * spacing, &address, sizeof(address));
  }
  buffer.upload(bytes);
  if (flushed && !runtime::kEmulated) {
    const harness::DeviceBuffer others(4 * device_facts().l2_bytes);
    harness::launch_flush(others.data(), others.bytes(), nullptr);
    runtime::synchronize();
  }
  size_t end = 0;
  for (int64_t i = 0; i < steps.all(); ++i) end = next[end];
  return {clocks_of_step<latency_of::GlobalLoad>({buffer.data(), static_cast<int64_t>(spacing)}, 1,
                                                 asked, end)};
}

// ---- Probes ------------------------------------------------------------------------------------

// A step that begins the same wherever it runs.
template <class Step, uint64_t (*kState)(int64_t steps)>
Measurement latency(const harness::Machine&) {
  const Steps steps;
  return {clocks_of_step<Step>({}, cluster_of<Step>(), steps, kState(steps.here().all()))};
}

uint64_t count(int64_t steps) { return static_cast<uint64_t>(steps); }
uint64_t lane(int64_t steps) { return static_cast<uint64_t>(steps % kWarpSize); }
uint64_t word(int64_t steps) {
  return static_cast<uint64_t>(steps * latency_of::kStride % latency_of::kWords);
}
uint64_t fixed_point(int64_t) { return 6411; }
uint64_t sum(int64_t steps) { return fibonacci(steps); }

Measurement fma(const harness::Machine&) {
  const Steps steps;
  return {clocks_of_step<latency_of::Fma>({1, 1}, 1, steps, count(steps.here().all()))};
}

Measurement l1(const harness::Machine&) {
  constexpr size_t kNodes = 512;  // 16 KB
  return walk(kNodes, 32, {.first = kNodes}, false);
}

Measurement l2(const harness::Machine&) {
  constexpr size_t kNodes = 1 << 16;  // 8 MB, of which an L1 holds little
  return walk(kNodes, 128, {.first = kNodes}, false);
}

Measurement dram(const harness::Machine&) {
  constexpr Steps kSteps{.first = 2048, .timed = 2048};        // the first find the pages
  const size_t nodes = static_cast<size_t>(kSteps.all()) + 1;  // none is met again
  return walk(nodes, 32 * 1024 + 128, kSteps, true);
}

Measurement global_atomic(const harness::Machine&) {
  const Steps steps;
  const uint32_t one = 1;
  harness::DeviceBuffer word(sizeof(one));
  word.upload(std::as_bytes(std::span(&one, 1)));
  return {clocks_of_step<latency_of::GlobalAtomic>({reinterpret_cast<uint32_t*>(word.data())}, 1,
                                                   steps, fibonacci(steps.here().all()))};
}

constexpr std::array kLatencies = {
    Probe{"fma_latency", "a fused multiply-add of f32", "clocks", Arch::kSm80, fma},
    Probe{"ex2_latency", "2^x by the special function unit", "clocks", Arch::kSm80,
          latency<latency_of::Exponential, fixed_point>},
    Probe{"shuffle_latency", "a word from another lane", "clocks", Arch::kSm80,
          latency<latency_of::Shuffle, lane>},
    Probe{"shared_latency", "a load from shared memory", "clocks", Arch::kSm80,
          latency<latency_of::SharedLoad, word>},
    Probe{"cluster_latency", "a load from the shared memory of another block", "clocks",
          Arch::kSm90, latency<latency_of::ClusterLoad, word>},
    Probe{"l1_latency", "a load that the L1 has", "clocks", Arch::kSm80, l1},
    Probe{"l2_latency", "a load that the L2 has, both of its halves", "clocks", Arch::kSm80, l2},
    Probe{"dram_latency", "a load that no cache has", "clocks", Arch::kSm80, dram},
    Probe{"shared_atomic_latency", "an addition to a word of shared memory", "clocks", Arch::kSm80,
          latency<latency_of::SharedAtomic, sum>},
    Probe{"global_atomic_latency", "an addition to a word of global memory", "clocks", Arch::kSm80,
          global_atomic},
    Probe{"barrier_latency_128", "a barrier of 128 threads", "clocks", Arch::kSm80,
          latency<latency_of::Barrier<128>, count>},
    Probe{"barrier_latency_1024", "a barrier of 1024 threads", "clocks", Arch::kSm80,
          latency<latency_of::Barrier<1024>, count>},
    Probe{"mbarrier_latency", "an arrival at an mbarrier until it is seen", "clocks", Arch::kSm90,
          latency<latency_of::Mbarrier, count>},
    Probe{"cluster_barrier_latency", "a barrier of two blocks", "clocks", Arch::kSm90,
          latency<latency_of::ClusterBarrier, count>},
};

}  // namespace

std::span<const Probe> latencies() { return kLatencies; }

}  // namespace ws::microbench
