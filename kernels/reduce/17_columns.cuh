// Idea: a thread owns the 16 bytes of columns that it loads, and walks down; a block's other
// threads take other rows of the same columns. Tall matrices are cut into parts, which the last
// block of each stripe of columns merges.
// From strided: no division, 16 bytes a load, eight rows in flight.
// Traffic: every element once; partials of a few blocks an SM.
// Limits: columns side by side that start at multiples of 16 bytes.
// Long: parts, as in one_pass, and a stripe's totals through shared memory.
#pragma once

#include "catalogue/parts.hpp"
#include "catalogue/row.hpp"
#include "kernels/reduce/fold.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/thread/tile.hpp"

namespace ws::reduce {

// Threads of a block, rows of a thread in flight, blocks that an SM should have: all start at once
// and end at once, and each costs its merge.
template <int kThreads_, int kLoads_, int kBlocksOfSm_>
struct ColumnsPolicy {
  static constexpr int kThreads = kThreads_;
  static constexpr int kLoads = kLoads_;
  static constexpr int kBlocksOfSm = kBlocksOfSm_;
  static constexpr int kAcross = 32;  // threads side by side: a warp reads 512 bytes
};

struct ColumnsPlan {
  int across = 1;
  int64_t stripes = 1;  // of a matrix
  int64_t share = 0;    // rows of a part
  PartsPlan parts;

  template <class Policy, class Reducer>
  static ColumnsPlan of(const Reduction& call) {
    constexpr int kWidth = row::kWidest<typename Reducer::Element>;
    const Loop& inner = call.kept[static_cast<size_t>(call.kept_loops - 1)];
    const int64_t vectors = inner.extent / kWidth;
    ColumnsPlan plan;
    while (plan.across < Policy::kAcross && plan.across < vectors) plan.across *= 2;
    plan.stripes = divide_up(vectors, int64_t{plan.across});
    plan.parts.groups = plan.stripes * (call.outputs / inner.extent);
    const int64_t tile =
        int64_t{Policy::kThreads} / plan.across * loads_of<Reducer>(Policy::kLoads);
    const int64_t tiles = divide_up(call.count, tile);
    const int64_t blocks = int64_t{Policy::kBlocksOfSm} * device_facts().multiprocessors;
    const int64_t wanted = std::clamp<int64_t>(blocks / plan.parts.groups, 1, tiles);
    plan.share = divide_up(tiles, wanted) * tile;
    plan.parts.parts = static_cast<int>(divide_up(call.count, plan.share));
    plan.parts.partials = int64_t{plan.across} * kWidth;
    plan.parts.partial_bytes = sizeof(typename Reducer::Accumulator);
    return plan;
  }
};

template <class Policy, class Reducer>
struct ColumnsKernel {
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kWidth = row::kWidest<typename Reducer::Element>;
  static constexpr int kRows = loads_of<Reducer>(Policy::kLoads);
  using Element = typename Reducer::Element;
  using Accumulator = typename Reducer::Accumulator;
  using Totals = thread::Tile<Accumulator, kWidth>;
  struct Arguments {
    Reducer reducer;
    const Element* x;
    int64_t pitch;
    int64_t rows;
    int64_t vectors;  // of a row
    int64_t stripes;
    int64_t matrix;  // from matrix to matrix
    int64_t share;
    int across;
    Parts<Accumulator> parts;
    void* output;
    int64_t output_matrix;
    DType output_dtype;
  };
  struct SharedStorage {
    SharedArray<Accumulator, kThreads / 2 * kWidth> totals;
    SharedArray<uint32_t, 1> order;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    // Stripes first: blocks that run together read whole rows.
    const auto block = static_cast<uint32_t>(block_index());
    const auto stripes = static_cast<uint32_t>(a.stripes);
    const auto parts = static_cast<uint32_t>(a.parts.parts);
    const uint32_t stripe = block % stripes;
    const uint32_t part = block / stripes % parts;
    const uint32_t matrix = block / stripes / parts;
    const int column = thread_index() & (a.across - 1);
    const int row = thread_index() / a.across;
    const int rows = kThreads / a.across;
    const int64_t vector = int64_t{stripe} * a.across + column;
    const bool mine = vector < a.vectors;

    Totals totals;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) totals[e] = Reducer::none();
    if (mine) {
      const Element* x = a.x + matrix * a.matrix + vector * kWidth;
      const int64_t first = part * a.share;
      const int64_t last = first + a.share < a.rows ? first + a.share : a.rows;
      int64_t r = first + row;
      for (; r + (kRows - 1) * rows < last; r += kRows * rows) {
        Vec<Element, kWidth> loaded[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          loaded[i] = thread::load<kWidth>(x + (r + i * rows) * a.pitch);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) add(a.reducer, totals, loaded[i], r + i * rows);
      }
      if (r < last) {  // what is left of a tile, see fold_vectors()
        Vec<Element, kWidth> loaded[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const int64_t at = r + i * rows;
          loaded[i] = thread::load<kWidth>(x + (at < last ? at : last - 1) * a.pitch);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          Totals more = totals;
          add(a.reducer, more, loaded[i], r + i * rows);
          totals = r + i * rows < last ? more : totals;
        }
      }
    }
    merge_rows(shared, totals, a.across);

    if (parts > 1) {
      const int64_t group = int64_t{matrix} * stripes + stripe;
      const int64_t base = group * parts;
      const auto at = [&](uint32_t p, int e) {
        return ((base + p) * kWidth + e) * a.across + column;
      };
      if (row == 0) {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) a.parts.leave(at(part, e), totals[e]);
      }
      if (!a.parts.came_last(group, shared.order)) return;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        totals[e] = Reducer::none();
        for (uint32_t p = static_cast<uint32_t>(row); p < parts; p += static_cast<uint32_t>(rows)) {
          totals[e] = Reducer::merge(totals[e], a.parts.take(at(p, e)));
        }
      }
      merge_rows(shared, totals, a.across);
    }
    if (row == 0 && mine) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        store_as(a.output_dtype, a.output, matrix * a.output_matrix + vector * kWidth + e,
                 a.reducer.finish(totals[e]));
      }
    }
  }

  __device__ __forceinline__ static void add(const Reducer& reducer, Totals& totals,
                                             const Vec<Element, kWidth>& x, int64_t row) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) totals[e] = reducer.add(totals[e], x[e], row);
  }
  // Of the threads that stand over the same columns, given to the first.
  __device__ __forceinline__ static void merge_rows(SharedStorage& shared, Totals& totals,
                                                    int across) {
    const int t = thread_index();
    for (int half = kThreads / 2; half >= across; half /= 2) {
      if (t >= half && t < 2 * half) {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) shared.totals[e * kThreads / 2 + t - half] = totals[e];
      }
      ptx::barrier_sync();
      if (t < half) {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          const Accumulator upper = shared.totals[e * kThreads / 2 + t];
          totals[e] = Reducer::merge(totals[e], upper);
        }
      }
      ptx::barrier_sync();
    }
  }
};

template <class Policy, DTypes kTaken = kEveryDType>
struct Columns {
  static bool supports(const Reduction& call, Why& why) {
    if (!why.unless(call.has_columns(), "takes columns that lie side by side")) return false;
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    const Loop& inner = call.kept[static_cast<size_t>(call.kept_loops - 1)];
    const int64_t matrix = call.kept_loops > 1 ? call.kept[0].strides[0] : 0;
    return why.unless(reinterpret_cast<uintptr_t>(call.inputs[0]) % 16 == 0 &&
                          inner.extent % width == 0 && call.reduced[0].strides[0] % width == 0 &&
                          matrix % width == 0,
                      "reads 16 bytes at a time: columns and strides have to be multiples of ",
                      width, " elements") &&
           why.unless(call.outputs < int64_t{1} << 31, "takes fewer than 2^31 columns, not ",
                      call.outputs);
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_reducer<Elements::kAsTheyLie, kTaken>(
        call, [&]<class Reducer>(const Reducer& /*reducer*/) {
          workspace = ColumnsPlan::of<Policy, Reducer>(call).parts.workspace();
        });
    return workspace;
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_reducer<Elements::kAsTheyLie, kTaken>(call, [&]<class Reducer>(const Reducer& reducer) {
      using Kernel = ColumnsKernel<Policy, Reducer>;
      const ColumnsPlan plan = ColumnsPlan::of<Policy, Reducer>(call);
      const Loop& inner = call.kept[static_cast<size_t>(call.kept_loops - 1)];
      typename Kernel::Arguments arguments{};
      arguments.reducer = reducer;
      arguments.x = call.template input<typename Reducer::Element>(0);
      arguments.pitch = call.reduced[0].strides[0];
      arguments.rows = call.count;
      arguments.vectors = inner.extent / Kernel::kWidth;
      arguments.stripes = plan.stripes;
      arguments.matrix = call.kept_loops > 1 ? call.kept[0].strides[0] : 0;
      arguments.share = plan.share;
      arguments.across = plan.across;
      arguments.parts = {plan.parts, context.workspace};
      arguments.output = call.output;
      arguments.output_matrix = call.kept_loops > 1 ? call.kept[0].strides[1] : 0;
      arguments.output_dtype = call.output_dtype;
      launch<Kernel>({.blocks = plan.parts.groups * plan.parts.parts, .threads = Kernel::kThreads},
                     context.stream, arguments);
    });
  }
};

}  // namespace ws::reduce
