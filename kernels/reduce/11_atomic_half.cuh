// Idea: the dot product of f16 vectors meets in one f16, by three kinds of atomics: a plain one, a
// packed one whose halves are two sums, and a packed one with a zero beside the only sum.
// From block_all_reduce: the total itself is f16. The plain atomic was a loop of compare-and-swap
// before sm_70, the packed one was an instruction: the third kind is how libraries got round that.
// Traffic: both vectors once, 2 bytes a thread and load; an atomic a block.
// Limits: f16 rounds at each atomic and the order is nobody's: needs allow_reduced_precision.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/operations.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::reduce {

enum class HalfAtomic { kPlain, kPacked, kFast };

template <HalfAtomic kAtomic>
struct AtomicHalfKernel {
  static constexpr int kThreads = 256;
  struct Total {
    alignas(4) half sums[2];
    uint32_t arrived;
  };
  struct Arguments {
    const half* a;
    const half* b;
    half* y;
    int64_t count;
    Total* total;  // zero before and after
  };
  struct Sums {
    float even;
    float odd;
  };
  struct SharedStorage {
    block::AllReduce<Sums, kThreads>::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    block::AllReduce<Sums, kThreads> all_reduce(shared.sums);
    Sums sums{};
    const int64_t threads = grid_blocks() * kThreads;
    for (int64_t i = block_index() * kThreads + thread_index(); i < a.count; i += threads) {
      const float product = to_float(thread::load(a.a + i)) * to_float(thread::load(a.b + i));
      (i % 2 == 0 ? sums.even : sums.odd) += product;
    }
    sums = all_reduce(
        sums, [](const Sums& l, const Sums& r) { return Sums{l.even + r.even, l.odd + r.odd}; });
    if (thread_index() != 0) return;
    const half sum(sums.even + sums.odd);
    if constexpr (kAtomic == HalfAtomic::kPlain) {
      ptx::red_global_add_noftz(a.total->sums, sum);
    } else if constexpr (kAtomic == HalfAtomic::kPacked) {
      ptx::red_global_add_noftz_x2(a.total->sums, {{half(sums.even), half(sums.odd)}});
    } else {
      ptx::red_global_add_noftz_x2(a.total->sums, {{sum, half(0.0F)}});
    }
    ptx::fence_acq_rel<ptx::Scope::kGpu>();
    if (ptx::atom_global_add(&a.total->arrived, 1U) + 1 != grid_blocks()) return;
    ptx::fence_acq_rel<ptx::Scope::kGpu>();
    const Vec<half, 2> total = thread::load<2>(a.total->sums);
    thread::store(a.y, half(to_float(total[0]) + to_float(total[1])));
    thread::store(a.total->sums, Vec<half, 2>{{half(0.0F), half(0.0F)}});
    thread::store(&a.total->arrived, 0U);
  }
};

template <HalfAtomic kAtomic>
struct AtomicHalf {
  using Kernel = AtomicHalfKernel<kAtomic>;
  static constexpr int64_t kMostBlocks = 1024;

  static bool supports(const Dot::Call& call, Why& why) {
    return why.unless(call.has_rows(), "takes elements side by side") &&
           why.unless(call.reduced_precision, "adds up in f16: needs allow_reduced_precision=true");
  }
  static Workspace workspace(const Dot::Call& /*call*/) {
    return {.bytes = sizeof(typename Kernel::Total), .zeroed = sizeof(typename Kernel::Total)};
  }
  static void run(const Dot::Call& call, const Context& context) {
    launch<Kernel>(
        {.blocks = std::min(divide_up(call.count, int64_t{8} * Kernel::kThreads), kMostBlocks),
         .threads = Kernel::kThreads},
        context.stream,
        {call.input<half>(0), call.input<half>(1), static_cast<half*>(call.output), call.count,
         static_cast<typename Kernel::Total*>(context.workspace)});
  }
};

inline constexpr Seed kAtomicHalfSeeds[] = {{.name = "atomic_add_half", .operation = "dot"}};
inline constexpr Rung kAtomicHalf = rung_of<AtomicHalf<HalfAtomic::kPlain>, kF16, Dot>(
    {.name = "atomic_half",
     .from = "block_all_reduce",
     .idea = "the total is one f16, by plain f16 atomics",
     .deterministic = false,
     .seeds = kAtomicHalfSeeds});
inline constexpr Seed kAtomicHalfPackedSeeds[] = {
    {.name = "atomic_add_half_pack2", .operation = "dot"}};
inline constexpr Rung kAtomicHalfPacked = rung_of<AtomicHalf<HalfAtomic::kPacked>, kF16, Dot>(
    {.name = "atomic_half_packed",
     .from = "atomic_half",
     .idea = "two f16 totals in one word, by packed atomics",
     .deterministic = false,
     .seeds = kAtomicHalfPackedSeeds,
     .file = "11_atomic_half.cuh"});
inline constexpr Seed kAtomicHalfFastSeeds[] = {
    {.name = "fast_atomic_add_half", .operation = "dot"}};
inline constexpr Rung kAtomicHalfFast = rung_of<AtomicHalf<HalfAtomic::kFast>, kF16, Dot>(
    {.name = "atomic_half_fast",
     .from = "atomic_half",
     .idea = "the f16 total as half of a word, by packed atomics that add zero to the other half",
     .deterministic = false,
     .seeds = kAtomicHalfFastSeeds,
     .file = "11_atomic_half.cuh"});

}  // namespace ws::reduce
