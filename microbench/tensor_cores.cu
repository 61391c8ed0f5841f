// Tensor cores: products of ones, whose sums count them.
#include <algorithm>
#include <array>
#include <limits>

#include "microbench/steps.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/operand_stage.hpp"

namespace ws::microbench {
namespace rate_of {

constexpr uint32_t kTwoOnes = 0x3F803F80;  // of bf16

// Warps with kChains accumulators each.
template <int kOfBlock, int kChains>
struct Mma {
  static constexpr int kThreads = kOfBlock;
  static constexpr int kDepth = 16;  // what a step adds to each sum
  static constexpr uint64_t kMostSum = std::numeric_limits<uint64_t>::max();
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr double kFlop = 2.0 * 16 * 8 * kDepth * kChains * kWarps;
  using Input = Nothing;
  using Shared = Nothing;
  // Each chain begins elsewhere: of equal ones the compiler may compute one.
  __device__ Mma(Shared&, const Input&) {
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) {
#pragma unroll
      for (float& sum : sums[chain]) sum = static_cast<float>(chain);
    }
  }
  __device__ void next() {
    constexpr uint32_t kA[4] = {kTwoOnes, kTwoOnes, kTwoOnes, kTwoOnes};
    constexpr uint32_t kB[2] = {kTwoOnes, kTwoOnes};
#pragma unroll
    for (float (&sum)[4] : sums) ptx::mma_m16n8k16<bf16>(sum, kA, kB, sum);
  }
  // What each chain has added, of all: nobody computes what nobody asks for.
  __device__ uint64_t state() const {
    constexpr int kBegun = kChains * (kChains - 1) / 2;
    float all = 0;
    for (const float (&sum)[4] : sums) all += sum[3];
    return (static_cast<uint64_t>(all) - kBegun) / kChains;
  }
  float sums[kChains][4];
};

// Two warpgroups, each with a product of 64 x 256 by a swizzle row of K in flight while the other's
// is waited for.
template <class T>
struct Wgmma {
  static constexpr int kThreads = 256;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kN = 256;
  static constexpr int kDepth = 128 / static_cast<int>(sizeof(T));
  // Products of 8 bits are added with so many bits that to 2^14 a one adds nothing (measured on an
  // H200; why scaled_gemm sums in two levels).
  static constexpr uint64_t kMostSum =
      sizeof(T) == 1 ? 1 << 14 : std::numeric_limits<uint64_t>::max();
  static constexpr double kFlop = 2.0 * 128 * kN * kDepth;
  using StageA = tile::OperandStage<T, ptx::Major::kK, 64, kDepth, 1>;
  using StageB = tile::OperandStage<T, ptx::Major::kK, kN, kDepth, 1>;
  using Input = Nothing;
  struct Shared {
    SharedArray<T, StageA::kElements, 1024> a;
    SharedArray<T, StageB::kElements, 1024> b;
  };
  __device__ Wgmma(Shared& shared, const Input&)
      : a(StageA::descriptor(shared.a.pointer())), b(StageB::descriptor(shared.b.pointer())) {
    for (int i = thread_index(); i < shared.a.size(); i += kThreads) shared.a[i] = T(1.0f);
    for (int i = thread_index(); i < shared.b.size(); i += kThreads) shared.b[i] = T(1.0f);
#pragma unroll
    for (float& sum : sums) sum = 0;
    ptx::fence_proxy_async();
  }
  __device__ void next() {
    ptx::wgmma_fence(sums);
#pragma unroll
    for (int k = 0; k < kDepth; k += StageA::kStep) {
      ptx::wgmma_32_bytes<kN, T, T, ptx::Major::kK, ptx::Major::kK>(sums, StageA::advance(a, 0, k),
                                                                    StageB::advance(b, 0, k), true);
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>(sums);
  }
  __device__ uint64_t state() const { return static_cast<uint64_t>(sums[kN / 2 - 1]); }
  uint64_t a, b;
  float sums[kN / 2];
};

}  // namespace rate_of

namespace {

// Of a clock of a multiprocessor, f16 with sums of f32: what makes up the peaks of the data sheets
// (A100 312 TFLOP/s of 108 at 1.41 GHz, H100 989 of 132 at 1.83 GHz).
std::optional<double> flop_of_clock(const harness::Machine& machine, double factor = 1) {
  switch (machine.capability) {
    case 80: return factor * 2048;
    case 90: return factor * 4096;
    default: return std::nullopt;
  }
}

template <class Step>
std::optional<double> clocks(int64_t blocks, int timed) {
  const Steps steps{.first = 8, .timed = timed};
  const auto products = static_cast<uint64_t>(Step::kDepth * steps.here().all());
  return clocks_of_step<Step>({}, blocks, steps, std::min(products, Step::kMostSum));
}

Measurement mma_latency(const harness::Machine&) { return {clocks<rate_of::Mma<32, 1>>(1, 1024)}; }

template <class Step>
Measurement rate(const harness::Machine& machine, std::optional<double> known) {
  const std::optional<double> of_step = clocks<Step>(blocks_of<Step>(machine), 128);
  return {of_step ? std::optional(Step::kFlop / *of_step) : std::nullopt, known};
}

Measurement mma_rate(const harness::Machine& machine) {
  return rate<rate_of::Mma<512, 4>>(machine, flop_of_clock(machine));
}
Measurement wgmma_rate(const harness::Machine& machine) {
  return rate<rate_of::Wgmma<bf16>>(machine, flop_of_clock(machine));
}
Measurement wgmma_fp8_rate(const harness::Machine& machine) {
  return rate<rate_of::Wgmma<e4m3>>(machine, flop_of_clock(machine, 2));
}

constexpr std::array kTensorCores = {
    Probe{"mma_latency", "an mma.sync m16n8k16 of bf16", "clocks", Arch::kSm80, mma_latency},
    Probe{"mma_rate", "mma.sync of bf16, sums of f32", "FLOP/clock/SM", Arch::kSm80, mma_rate},
    Probe{"wgmma_rate", "wgmma of bf16, sums of f32", "FLOP/clock/SM", Arch::kSm90a, wgmma_rate},
    Probe{"wgmma_fp8_rate", "wgmma of e4m3, sums of f32", "FLOP/clock/SM", Arch::kSm90a,
          wgmma_fp8_rate},
};

}  // namespace

std::span<const Probe> tensor_cores() { return kTensorCores; }

}  // namespace ws::microbench
