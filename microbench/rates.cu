// Rates of a multiprocessor: enough threads, each with a chain of its own, that something is full.
#include <array>

#include "microbench/steps.hpp"
#include "warpsmith/ptx/atomic_shared.hpp"
#include "warpsmith/ptx/math.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/shared.hpp"

namespace ws::microbench {
namespace rate_of {

constexpr int kAll = 1024;  // threads: more than latency needs

// ---- Arithmetic --------------------------------------------------------------------------------

struct Fma {
  static constexpr int kThreads = kAll;
  static constexpr int kChains = 8;
  static constexpr int kUnrolled = 32;
  struct Input {
    float factor, summand;
  };
  using Shared = Nothing;
  __device__ Fma(Shared&, const Input& input) : input(input) {}
  __device__ void next() {
#pragma unroll
    for (float& chain : x) chain = fmaf(chain, input.factor, input.summand);
  }
  __device__ uint64_t state() const {
    float sum = 0;
    for (const float chain : x) sum += chain;
    return static_cast<uint64_t>(sum);
  }
  const Input& input;
  float x[kChains] = {};
};

struct Exponential {
  static constexpr int kThreads = kAll;
  static constexpr int kChains = 4;
  using Input = Nothing;
  using Shared = Nothing;
  __device__ Exponential(Shared&, const Input&) {}
  __device__ void next() {
#pragma unroll
    for (float& chain : x) chain = ptx::ex2_approx_ftz_f32(-chain);
  }
  __device__ uint64_t state() const {  // in thousandths; each ends at 0.6412
    float sum = 0;
    for (const float chain : x) sum += chain;
    return static_cast<uint64_t>(sum * 1e3f);
  }
  float x[kChains] = {};
};

struct Shuffle {
  static constexpr int kThreads = kAll;
  using Input = Nothing;
  using Shared = Nothing;
  __device__ Shuffle(Shared&, const Input&) {}
  __device__ void next() { x = ptx::shfl_sync_idx(kFullMask, x, source); }
  __device__ uint64_t state() const { return x; }
  int source = (lane_index() + 1) % kWarpSize;
  uint32_t x = static_cast<uint32_t>(lane_index());
};

// ---- Memory of the multiprocessor --------------------------------------------------------------

// 16 bytes for each thread, one after the other, and again as many: a thread's vector names, in
// words that only together do, the vector that it reads next.
constexpr int kVectors = 2 * kAll;
using Words = Vec<uint32_t, 4>;

__device__ Words words_of(uint32_t next) { return {{next ^ 1, 2, 4, 1 ^ 2 ^ 4}}; }
__device__ uint32_t next_of(const Words& v) { return v[0] ^ v[1] ^ v[2] ^ v[3]; }

struct SharedVectors {
  __device__ void fill() {
    for (int i = thread_index(); i < kVectors; i += kAll) {
      words.template store<4>(4 * i, words_of(static_cast<uint32_t>((i + kAll) % kVectors)));
    }
  }
  SharedArray<uint32_t, 4 * kVectors> words;
};

struct SharedLoad {
  static constexpr int kThreads = kAll;
  using Input = Nothing;
  using Shared = SharedVectors;
  __device__ SharedLoad(Shared& shared, const Input&) : shared(shared) { shared.fill(); }
  __device__ void next() { at = next_of(shared.words.template load<4>(4 * at)); }
  __device__ uint64_t state() const { return at; }
  Shared& shared;
  uint32_t at = static_cast<uint32_t>(thread_index());
};

// A block reads the shared memory of the other one of its cluster.
struct ClusterLoad {
  static constexpr int kThreads = kAll;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kCluster = 2;
  using Input = Nothing;
  using Shared = SharedVectors;
  __device__ ClusterLoad(Shared& shared, const Input&) {
    shared.fill();
    other = ptx::map_shared_rank(shared.words.pointer(), 1 - cluster_rank());
    ptx::cluster_sync();
  }
  __device__ void next() { at = next_of(ptx::ld_shared_cluster<Words>(other + 16 * at)); }
  __device__ uint64_t state() const { return at; }
  uint32_t other;
  uint32_t at = static_cast<uint32_t>(thread_index());
};

// Each block has its vectors in its multiprocessor's L1.
struct L1Load {
  static constexpr int kThreads = kAll;
  struct Input {
    uint32_t* vectors;  // of all blocks
  };
  using Shared = Nothing;
  __device__ L1Load(Shared&, const Input& input)
      : vectors(input.vectors + block_index() * 4 * kVectors) {
    for (int i = thread_index(); i < kVectors; i += kThreads) {
      thread::store(vectors + 4 * i, words_of(static_cast<uint32_t>((i + kAll) % kVectors)));
    }
  }
  __device__ void next() { at = next_of(thread::load<4>(vectors + 4 * at)); }
  __device__ uint64_t state() const { return at; }
  uint32_t* vectors;
  uint32_t at = static_cast<uint32_t>(thread_index());
};

// kStride 1: a word for each thread; 0: one for all of them.
template <int kStride>
struct SharedAtomic {
  static constexpr int kThreads = kAll;
  using Input = Nothing;
  struct Shared {
    SharedArray<uint32_t, kAll> words;
  };
  __device__ SharedAtomic(Shared& shared, const Input&) : shared(shared) {
    shared.words[thread_index()] = 0;
  }
  __device__ void next() { ptx::red_shared_add(shared.words.pointer(kStride * thread_index()), 1); }
  __device__ uint64_t state() const { return shared.words[0]; }
  Shared& shared;
};

}  // namespace rate_of

namespace {

using rate_of::kAll;
using rate_of::kVectors;

// ---- Probes ------------------------------------------------------------------------------------

// What CUDA C++ Programming Guide, "Arithmetic Instructions", has for a clock of a multiprocessor.
std::optional<double> fma_of_clock(const harness::Machine& machine) {
  if (machine.capability > 90) return std::nullopt;  // newer than this table
  return machine.capability == 80 ? 64 : 128;
}
constexpr double kSpecialOfClock = 16;
constexpr double kShuffleOfClock = 32;
constexpr double kSharedOfClock = 128;  // bytes: 32 banks of 4

// So many of its unit in a clock, where a step has `of_step`.
template <class Step>
Measurement rate(const harness::Machine& machine, const typename Step::Input& input, double of_step,
                 std::optional<double> known, const Steps& steps, uint64_t state) {
  const std::optional<double> clocks =
      clocks_of_step<Step>(input, blocks_of<Step>(machine), steps, state);
  return {clocks ? std::optional(of_step / *clocks) : std::nullopt, known};
}

Measurement fma(const harness::Machine& machine) {
  const Steps steps;
  const auto state = static_cast<uint64_t>(rate_of::Fma::kChains * steps.here().all());
  return rate<rate_of::Fma>(machine, {1, 1}, kAll * rate_of::Fma::kChains, fma_of_clock(machine),
                            steps, state);
}

Measurement exponential(const harness::Machine& machine) {
  constexpr uint64_t kFourTimes = 2564;  // 0.6412
  return rate<rate_of::Exponential>(machine, {}, kAll * rate_of::Exponential::kChains,
                                    kSpecialOfClock, {}, kFourTimes);
}

Measurement shuffle(const harness::Machine& machine) {
  const Steps steps;
  const auto state = static_cast<uint64_t>(steps.here().all() % kWarpSize);
  return rate<rate_of::Shuffle>(machine, {}, kAll, kShuffleOfClock, steps, state);
}

uint64_t vector_after(const Steps& steps) {
  return static_cast<uint64_t>(steps.here().all() * kAll % kVectors);
}

template <class Step>
Measurement loads(const harness::Machine& machine, const typename Step::Input& input,
                  std::optional<double> known) {
  const Steps steps{.first = 8, .timed = 1032};
  return rate<Step>(machine, input, 16 * kAll, known, steps, vector_after(steps));
}

Measurement shared_load(const harness::Machine& machine) {
  return loads<rate_of::SharedLoad>(machine, {}, kSharedOfClock);
}
Measurement cluster_load(const harness::Machine& machine) {
  return loads<rate_of::ClusterLoad>(machine, {}, std::nullopt);
}
Measurement l1(const harness::Machine& machine) {
  const harness::DeviceBuffer vectors(static_cast<size_t>(blocks_of<rate_of::L1Load>(machine)) *
                                      kVectors * sizeof(rate_of::Words));
  return loads<rate_of::L1Load>(machine, {reinterpret_cast<uint32_t*>(vectors.data())},
                                std::nullopt);
}

template <int kStride>
Measurement shared_atomic(const harness::Machine& machine) {
  const Steps steps;
  const int64_t at_a_word = kStride == 0 ? kAll : 1;
  return rate<rate_of::SharedAtomic<kStride>>(
      machine, {}, kAll, std::nullopt, steps,
      static_cast<uint64_t>(at_a_word * steps.here().all()));
}

constexpr std::array kRates = {
    Probe{"fma_rate", "fused multiply-adds of f32", "/clock/SM", Arch::kSm80, fma},
    Probe{"ex2_rate", "2^x by the special function units", "/clock/SM", Arch::kSm80, exponential},
    Probe{"shuffle_rate", "words from other lanes", "/clock/SM", Arch::kSm80, shuffle},
    Probe{"shared_rate", "loads of 16 bytes from shared memory", "B/clock/SM", Arch::kSm80,
          shared_load},
    Probe{"cluster_rate", "... from the shared memory of another block", "B/clock/SM", Arch::kSm90,
          cluster_load},
    Probe{"l1_rate", "... from what the L1 has", "B/clock/SM", Arch::kSm80, l1},
    Probe{"shared_atomic_rate", "additions, a word of shared memory for each thread", "/clock/SM",
          Arch::kSm80, shared_atomic<1>},
    Probe{"shared_atomic_rate_one", "... one word for all threads", "/clock/SM", Arch::kSm80,
          shared_atomic<0>},
};

}  // namespace

std::span<const Probe> rates() { return kRates; }

}  // namespace ws::microbench
