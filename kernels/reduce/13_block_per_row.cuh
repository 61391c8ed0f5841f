// Idea: a block a row: warps shuffle, then one warp adds up what the others left in shared memory.
// From warp_per_row: 256 threads for a row, so that long rows keep more loads in flight.
// Traffic: every element once, one element a thread and load.
// Limits: f32, sum and amax; elements of a row side by side, up to 262144; short rows leave threads
// idle.
#pragma once

#include "kernels/reduce/12_warp_per_row.cuh"
#include "warpsmith/block/reduce.hpp"

namespace ws::reduce {

template <class Reducer>
struct BlockPerRowKernel {
  static constexpr int kThreads = 256;
  using Accumulator = typename Reducer::Accumulator;
  using Arguments = typename WarpPerRowKernel<Reducer>::Arguments;
  struct SharedStorage {
    typename block::AllReduce<Accumulator, kThreads>::Storage totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t row = block_index();
    Accumulator total = Reducer::none();
    for (int64_t i = thread_index(); i < a.columns; i += kThreads) {
      total = a.reducer.add(total, thread::load(a.x + row * a.pitch + i), i);
    }
    total = block::AllReduce<Accumulator, kThreads>(shared.totals)(total, Reducer::merge);
    if (thread_index() == 0) {
      store_as(a.y_dtype, a.y, row * a.y_stride, a.reducer.finish(total));
    }
  }
};

struct BlockPerRow : PerRow<kMostOfABlock> {
  template <class Call>
  static void run(const Call& call, const Context& context) {
    const auto with = [&]<class Reducer>(const Reducer& reducer) {
      using Kernel = BlockPerRowKernel<Reducer>;
      launch<Kernel>(
          {.blocks = call.outputs, .threads = Kernel::kThreads}, context.stream,
          {reducer, call.template input<typename Reducer::Element>(0), call.kept[0].strides[0],
           call.outputs, call.count, call.output, call.kept[0].strides[1], call.output_dtype});
    };
    if constexpr (std::is_same_v<Call, Sum::Call>) {
      with(SumOf<float>{});
    } else {
      with(LargestOf<float>{});
    }
  }
};

inline constexpr Seed kBlockPerRowSeeds[] = {{.name = "pytorch_block_reduce", .operation = "sum"}};
inline constexpr Rung kBlockPerRow = rung_of<BlockPerRow, kF32, Sum, Amax>(
    {.name = "block_per_row",
     .from = "warp_per_row",
     .idea = "a block a row: warps shuffle, shared memory joins them",
     .seeds = kBlockPerRowSeeds});

}  // namespace ws::reduce
