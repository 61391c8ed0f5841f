// Idea: one-shot blocks in the order of addresses, 16 bytes a load and eight loads in flight a
// thread; a long row, or a whole tensor, is cut into 32 KiB or more a block, and the block that
// comes last merges what the others left: one launch, the same bits whichever block that is.
// From block_per_row: long rows fill the device; wide accesses.
// Traffic: every element once; a partial a block, at most 2048 of all rows.
// Limits: elements of a row side by side; short rows leave threads idle.
#pragma once

#include "catalogue/parts.hpp"
#include "catalogue/row.hpp"
#include "kernels/reduce/fold.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::reduce {

// Threads of a block, loads of a thread before it needs the first, parts of all rows together.
template <int kThreads_, int kLoads_, int64_t kMostParts_>
struct OnePassPolicy {
  static constexpr int kThreads = kThreads_;
  static constexpr int kLoads = kLoads_;
  static constexpr int64_t kMostParts = kMostParts_;
  static constexpr int64_t kTiles = 8;            // of threads * loads, for a block
  static constexpr int64_t kTilesOfOneBlock = 2;  // smaller rows are not cut
};

// A row's parts, of `share` vectors each.
struct OnePassPlan {
  int64_t share = 0;
  PartsPlan parts;

  template <class Policy, class Reducer>
  static OnePassPlan of(const Reduction& call) {
    constexpr int64_t kTile = int64_t{Policy::kThreads} * loads_of<Reducer>(Policy::kLoads);
    const int64_t vectors = call.count / row::kWidest<typename Reducer::Element>;
    const int64_t tiles = divide_up(vectors, kTile);
    // As many blocks as there is room for come first, then more tiles a block: a ticket and its
    // fences cost a block 2 us in which its place reads nothing.
    const int64_t places = int64_t{4} * device_facts().multiprocessors;
    const int64_t all = tiles * call.outputs;
    const int64_t blocks =
        std::max(std::min(all, places), std::min(all / Policy::kTiles, Policy::kMostParts));
    int64_t wanted = std::clamp<int64_t>(blocks / call.outputs, 1, std::max<int64_t>(tiles, 1));
    if (tiles <= Policy::kTilesOfOneBlock) wanted = 1;
    OnePassPlan plan;
    plan.share = divide_up(tiles, wanted) * kTile;
    plan.parts.groups = call.outputs;
    plan.parts.parts = wanted == 1 ? 1 : static_cast<int>(divide_up(vectors, plan.share));
    plan.parts.partial_bytes = sizeof(typename Reducer::Accumulator);
    return plan;
  }
};

template <class Policy, class Reducer>
struct OnePassKernel {
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kTile = loads_of<Reducer>(Policy::kLoads);
  static constexpr int kWidth = row::kWidest<typename Reducer::Element>;
  using Accumulator = typename Reducer::Accumulator;
  struct Arguments {
    Reducer reducer;
    RowStart<Reducer> x;
    int64_t pitch;  // from row to row
    int64_t columns;
    int64_t share;
    Parts<Accumulator> parts;
    void* output;
    int64_t output_stride;
    DType output_dtype;
  };
  struct SharedStorage {
    typename block::AllReduce<Accumulator, kThreads>::Storage totals;
    SharedArray<uint32_t, 1> order;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    block::AllReduce<Accumulator, kThreads> all_reduce(shared.totals);
    const auto block = static_cast<uint32_t>(block_index());
    const uint32_t row = block / static_cast<uint32_t>(a.parts.parts);
    const uint32_t part = block - row * static_cast<uint32_t>(a.parts.parts);
    RowStart<Reducer> start;
#pragma unroll
    for (int k = 0; k < Reducer::kInputs; ++k) start.at[k] = a.x.at[k] + row * a.pitch;
    const row::Cut<kWidth> cut(start.at[0], a.columns);

    const int64_t first = part * a.share;
    const int64_t last = first + a.share < cut.vectors ? first + a.share : cut.vectors;
    Accumulator total =
        fold_vectors<kTile>(a.reducer, start, cut, first, last, thread_index(), kThreads);
    if (part == 0 && cut.edges > 0) {
      total = Reducer::merge(total, fold_edges(a.reducer, start, cut, thread_index(), kThreads));
    }
    total = all_reduce(total, Reducer::merge);
    if (a.parts.parts > 1) {
      const int64_t base = static_cast<int64_t>(row) * a.parts.parts;
      if (thread_index() == 0) a.parts.leave(base + part, total);
      if (!a.parts.came_last(row, shared.order)) return;
      total = Reducer::none();
#pragma unroll 8
      for (int p = thread_index(); p < a.parts.parts; p += kThreads) {
        total = Reducer::merge(total, a.parts.take(base + p));
      }
      total = all_reduce(total, Reducer::merge);
    }
    if (thread_index() == 0) {
      store_as(a.output_dtype, a.output, row * a.output_stride, a.reducer.finish(total));
    }
  }
};

template <class Policy, DTypes kTaken = kEveryDType>
struct OnePass {
  static bool supports(const Reduction& call, Why& why) {
    return rows_supported(call, why) &&
           why.unless(call.outputs < int64_t{1} << 31, "takes fewer than 2^31 rows, not ",
                      call.outputs);
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_reducer<Elements::kAsTheyLie, kTaken>(
        call, [&]<class Reducer>(const Reducer& /*reducer*/) {
          workspace = OnePassPlan::of<Policy, Reducer>(call).parts.workspace();
        });
    return workspace;
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_reducer<Elements::kAsTheyLie, kTaken>(call, [&]<class Reducer>(const Reducer& reducer) {
      using Kernel = OnePassKernel<Policy, Reducer>;
      const OnePassPlan plan = OnePassPlan::of<Policy, Reducer>(call);
      typename Kernel::Arguments arguments{};
      arguments.reducer = reducer;
      for (int k = 0; k < Reducer::kInputs; ++k) {
        arguments.x.at[k] = call.template input<typename Reducer::Element>(k);
      }
      arguments.pitch = call.kept[0].strides[0];
      arguments.columns = call.count;
      arguments.share = plan.share;
      arguments.parts = {plan.parts, context.workspace};
      arguments.output = call.output;
      arguments.output_stride = call.kept[0].strides[1];
      arguments.output_dtype = call.output_dtype;
      launch<Kernel>({.blocks = plan.parts.groups * plan.parts.parts, .threads = Kernel::kThreads},
                     context.stream, arguments);
    });
  }
};

}  // namespace ws::reduce
