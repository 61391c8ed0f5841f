// Idea: the copy engine adds: a stretch of a source comes to shared memory by one bulk copy and
// goes to y by one bulk addition (cp.reduce.async.bulk), both issued by one thread.
// From vector_atomic: no element passes a register; two instructions for up to 8 KB.
// Traffic: x both ways; the source once, and a read and a write of what it is added to, in the L2
// or from memory.
// Limits: sm_90; rows of whole vectors of 16 bytes, alpha 1. A stretch of less than 8 KB leaves a
// stage partly empty: 256 bytes an instruction are too few in flight.
// Long: a row for each type, as 16 bits add up in themselves.
#pragma once

#include "kernels/index_add/elements.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/bulk_add.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
// A block is one thread and its ring; it takes every so many-th stretch.
template <class T>
struct BulkReduceKernel {
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kThreads = 1;
  static constexpr int kStages = 4;
  static constexpr int kStretch = 8192 / sizeof(T);
  static constexpr int kBlocksOfSm = 6;  // whose rings are 198 KB
  using Steps = LineSteps<T, kStretch>;
  struct Arguments {
    Indices index;
    Steps steps;
    int64_t count;
    int64_t length;  // of what they are steps of, in elements
  };
  struct SharedStorage {
    SharedArray<T, kStages * kStretch, 128> stages;
    ptx::Mbarrier full[kStages];
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    for (auto& barrier : shared.full) ptx::mbarrier_init(barrier, 1);
    ptx::fence_mbarrier_init();
    Position at;
    Position ahead;
    int64_t next = block_index();  // what is asked for next
    for (int stage = 0; stage + 1 < kStages; ++stage) ask(shared, a, ahead, next);
    int64_t row = block_index() < a.count ? a.index[find(a, block_index()).i] : 0;
    for (int64_t n = block_index(); n < a.count; n += grid_blocks()) {
      const auto here = find(a, n);
      const int64_t target = row;
      // The next one's index is on its way meanwhile.
      if (n + grid_blocks() < a.count) row = a.index[find(a, n + grid_blocks()).i];
      ptx::mbarrier_wait_parity(shared.full[at.stage], at.parity);
      if (a.index.is_right(target, here.i)) {
        ptx::bulk_add(a.steps.y_at(target, here), shared.stages.pointer(at.stage * kStretch),
                      bytes_of(a, here));
      }
      ptx::bulk_commit_group();
      // All but this addition have read their stages, the one of which is filled again.
      ptx::bulk_wait_group_read<1>();
      ask(shared, a, ahead, next);
      at.advance();
    }
    ptx::bulk_wait_group_read<0>();
  }

 private:
  using Position = tile::PipelinePosition<kStages>;

  using Place = typename Steps::Place;

  __device__ __forceinline__ static Place find(const Arguments& a, int64_t n) {
    return a.steps.find(static_cast<uint32_t>(n));
  }
  __device__ __forceinline__ static uint32_t bytes_of(const Arguments& a, const Place& at) {
    const int64_t left = a.length - at.first;
    return static_cast<uint32_t>((left < kStretch ? left : kStretch) * sizeof(T));
  }

  __device__ __forceinline__ static void ask(SharedStorage& shared, const Arguments& a,
                                             Position& ahead, int64_t& next) {
    if (next >= a.count) return;
    const auto at = find(a, next);
    const uint32_t bytes = bytes_of(a, at);
    ptx::Mbarrier& full = shared.full[ahead.stage];
    ptx::mbarrier_arrive_expect_tx(full, bytes);
    ptx::bulk_load(shared.stages.pointer(ahead.stage * kStretch), a.steps.source_at(at), bytes,
                   full);
    next += grid_blocks();
    ahead.advance();
  }
};

template <class T>
struct BulkReduce {
  static bool supports(const IndexAdd::Call& call, Why& why) {
    return why.unless(call.has_lines && call.lines.width(call.dtype) > 1,
                      "takes rows of whole vectors of 16 bytes") &&
           why.unless(call.alpha == 1, "adds the source itself, not ", call.alpha, " of it") &&
           call.lines.supported(call.dtype, why);
  }
  static void run(const IndexAdd::Call& call, const Context& context) {
    using Kernel = BulkReduceKernel<T>;
    if (!call.is_in_place()) give<T>(call, nullptr, context);
    if (call.lines.count == 0) return;
    const int64_t count = Kernel::Steps::count(call);
    const int64_t resident = int64_t{Kernel::kBlocksOfSm} * device_facts().multiprocessors;
    launch<Kernel>({.blocks = std::min(count, resident), .threads = Kernel::kThreads},
                   context.stream,
                   {line_indices_of(call, "index_add/bulk_reduce"), typename Kernel::Steps(call),
                    count, call.lines.inner});
  }
};

inline constexpr Rung kBulkReduce = rung_of<BulkReduce<float>, DTypes{DType::kF32}, IndexAdd>(
    {.name = "bulk_reduce",
     .from = "vector_atomic",
     .idea = "a stretch of a source brought and added by the copy engine",
     .arch = Arch::kSm90,
     .deterministic = false});
inline constexpr Rung kBulkReduceAccF16 = rung_of<BulkReduce<half>, DTypes{DType::kF16}, IndexAdd>(
    {.name = "bulk_reduce_acc_f16",
     .from = "bulk_reduce",
     .idea = "the same of f16, which adds up in f16",
     .arch = Arch::kSm90,
     .deterministic = false,
     .accumulate = DType::kF16,
     .file = "12_bulk_reduce.cuh"});
inline constexpr Rung kBulkReduceAccBf16 =
    rung_of<BulkReduce<bf16>, DTypes{DType::kBf16}, IndexAdd>(
        {.name = "bulk_reduce_acc_bf16",
         .from = "bulk_reduce_acc_f16",
         .idea = "the same of bf16, which adds up in bf16",
         .arch = Arch::kSm90,
         .deterministic = false,
         .accumulate = DType::kBf16,
         .file = "12_bulk_reduce.cuh"});
#endif

}  // namespace ws::index_add
