// Idea: softmax down columns (a `dim` that is not the last): neighbouring lanes take neighbouring
// columns, 16 bytes each, and threads below each other share a column's rows. As few share it as
// have room for it, so that a warp's load is as wide as may be.
// From warp_per_row: a load is 64 to 512 bytes side by side, not 32 elements each in a sector of
// its own; a total is merged from the registers of a few threads, not of a warp.
// Traffic: one read, one write, where registers and shared memory hold a column: 4096 elements, of
// gradients 2048; what is longer is read again, what was read last first.
// Limits: no mask; columns side by side. Where they do not start at a multiple of 16 bytes a load
// is an element, and 128 to 256 elements of a column are held, of gradients 64 to 128.
// Long: how columns are shared out stands with the kernel, the only one of them.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/softmax/columns_layout.hpp"
#include "kernels/softmax/on_chip.hpp"
#include "kernels/softmax/rows.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/forget.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::softmax {

#if WS_DEVICE_CODE

template <class T, class Op, int kWidth, int kThreads_ = 512, int kHeldVectors = 8, int kLoads = 8>
struct ColumnsKernel {
  static constexpr int kInputs = Op::kInputs;
  static constexpr int kThreads = kThreads_;
  static constexpr int kMinBlocks = 512 / kThreads;
  // Threads side by side, at least: 64 bytes.
  static constexpr int kLeastAcross = static_cast<int>(64 / (kWidth * sizeof(T)));
  using Total = typename Op::Total;
  // Copies to shared memory are of 16 bytes here.
  static constexpr int kHeld = kHeldVectors / kInputs;
  static constexpr int kPlaces = kWidth == 1 ? 0 : 24 / kInputs;
  static constexpr int kGroup = 8 / kInputs;  // of held vectors that are added at once
  static constexpr int kLoadsOfTurn = kLoads;
  using OnChipOf = OnChip<T, kWidth, kInputs, kThreads, kHeld, kPlaces, kLoads>;
  using Packed = typename OnChipOf::Packed;
  struct Arguments {
    const T* inputs[kInputs];
    T* output;
    int64_t pitch[kInputs + 1];   // from row to row
    int64_t matrix[kInputs + 1];  // from matrix to matrix
    int rows;
    int64_t vectors;  // of a row
    int64_t stripes;  // of a matrix
    int across;       // threads side by side, a power of two
    int places;       // of a thread in shared memory
  };
  struct SharedStorage {
    SharedArray<Total, kThreads * kWidth> totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t matrix = block_index() / a.stripes;
    const int column = thread_index() & (a.across - 1);
    const int64_t vector = (block_index() - matrix * a.stripes) * a.across + column;
    const int step = kThreads / a.across;
    const int first = thread_index() / a.across;
    const int end = divide_up(a.rows, step);
    // The thread's rows are first, first + step, ...: of the others of the stripe as many or one
    // less.
    const int mine = vector < a.vectors ? end - (first + (end - 1) * step < a.rows ? 0 : 1) : 0;
    const auto holds = [&](int i) { return i < mine; };
    // Found once: a row's place from the start is a dozen instructions.
    const T* from[kInputs];
    int64_t stride[kInputs + 1];
#pragma unroll
    for (int k = 0; k <= kInputs; ++k) stride[k] = a.pitch[k] * step;
    const auto start = [&](auto* data, int k) {
      return thread::forget(data + matrix * a.matrix[k] + first * a.pitch[k] + vector * kWidth);
    };
#pragma unroll
    for (int k = 0; k < kInputs; ++k) from[k] = start(a.inputs[k], k);
    const auto at = [&](int i, int k) { return from[k] + i * stride[k]; };

    OnChipOf x(dynamic_shared<T>(shared, OnChipOf::elements(a.places)), a.places, Op::kPadding,
               holds, at);
    Tile<Total, kWidth> totals;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) totals[e] = Op::none();
    x.template each<kGroup>(end, holds, at,
                            [&]<int N>(int /*i*/, const Packed* more) { add<N>(totals, more); });
    if (step > 1) merge(shared, totals, a.across, column);

    const auto finish =
        thread::tile_of<kWidth>([&](int e) { return typename Op::Finish(totals[e]); });
    T* const to = start(a.output, kInputs);
    x.template each_again<1>(end, holds, at, [&]<int N>(int i, const Packed* of) {
#pragma unroll
      for (int v = 0; v < N; ++v) {
        if (!holds(i + v)) continue;
        Vec<float, kWidth> out;
#pragma unroll
        for (int e = 0; e < kWidth; ++e)
          out[e] = finish[e](OnChipOf::template element<typename Op::Element>(of + v * kInputs, e));
        thread::store(to + (i + v) * stride[kInputs], thread::convert<T>(out));
      }
    });
  }

 private:
  // The totals with N rows more.
  template <int N>
  __device__ __forceinline__ static void add(Tile<Total, kWidth>& totals, const Packed* more) {
    if constexpr (std::is_same_v<Total, MaxSum>) {
      Packed vectors[N];
#pragma unroll
      for (int v = 0; v < N; ++v) vectors[v] = more[v];
      const Packed largest = row::largest_of_each(vectors);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        totals[e] = thread::add<N, typename Op::Exp>(totals[e], largest[e],
                                                     [&](int v) { return vectors[v][e]; });
      }
    } else {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        Tile<typename Op::Element, N> tile;
#pragma unroll
        for (int v = 0; v < N; ++v)
          tile[v] = OnChipOf::template element<typename Op::Element>(more + v * kInputs, e);
        totals[e] = Op::merge(totals[e], Op::begin(tile));
      }
    }
  }

  // Of the threads that stand over the same columns, given to each of them: by shuffles within a
  // warp, then of each warp, or of each row of threads that is no less than one, by a thread a
  // column.
  __device__ __forceinline__ static void merge(SharedStorage& shared, Tile<Total, kWidth>& totals,
                                               int across, int column) {
#pragma unroll 1
    for (int distance = across; distance < kWarpSize; distance *= 2) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        totals[e] = Op::merge(totals[e], warp::shuffle_xor(totals[e], distance));
      }
    }
    const int group = across < kWarpSize ? kWarpSize : across;
    const int columns = across * kWidth;
    if (thread_index() % group < across) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        shared.totals[thread_index() / group * columns + e * across + column] = totals[e];
      }
    }
    ptx::barrier_sync();
    for (int c = thread_index(); c < columns; c += kThreads) {
      Total total = shared.totals[c];
      for (int g = 1; g < kThreads / group; ++g) {
        const Total other = shared.totals[g * columns + c];
        total = Op::merge(total, other);
      }
      shared.totals[c] = total;
    }
    ptx::barrier_sync();
#pragma unroll
    for (int e = 0; e < kWidth; ++e) totals[e] = shared.totals[e * across + column];
  }
};

struct Columns {
  static constexpr int64_t kMostRows = 1 << 30;  // int, with those beyond the column's end

  static bool supports(const RowsCall& call, Why& why) {
    const ColumnsLayout layout = ColumnsLayout::of(call.rows);
    return why.unless(layout.valid,
                      "takes columns that lie side by side, of a matrix or several") &&
           why.unless(call.rows.columns <= kMostRows, "takes columns of up to ", kMostRows,
                      " elements, not ", call.rows.columns) &&
           why.unless(call.rows.rows <= kMostBlocks, "takes up to ", kMostBlocks, " columns, not ",
                      call.rows.rows);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    const ColumnsLayout layout = ColumnsLayout::of(call.rows);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      if (layout.aligned(call.rows, kWidest<T>)) {
        launch_on<T, kWidest<T>>(call, layout, context);
      } else {
        launch_on<T, 1>(call, layout, context);
      }
    });
  }

 private:
  template <class T, int kWidth, class Call>
  static void launch_on(const Call& call, const ColumnsLayout& layout, const Context& context) {
    using Kernel = ColumnsKernel<T, typename Call::RowOperation, kWidth>;
    typename Kernel::Arguments arguments{};
    for (size_t k = 0; k <= Kernel::kInputs; ++k) {
      if (k < Kernel::kInputs) {
        arguments.inputs[k] = call.rows.template as<const T>(static_cast<int>(k));
      }
      arguments.pitch[k] = call.rows.inner[k];
      arguments.matrix[k] = layout.matrix_strides[k];
    }
    arguments.output = call.rows.template as<T>(Kernel::kInputs);
    arguments.rows = static_cast<int>(call.rows.columns);
    arguments.vectors = layout.columns / kWidth;
    // As few threads below each other as hold a column, as far as there are columns for the rest.
    const int64_t holders = divide_up(arguments.rows, int64_t{Kernel::kHeld});
    const auto below = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(holders, 1)));
    const auto columns = std::bit_ceil(static_cast<uint64_t>(arguments.vectors));
    arguments.across = static_cast<int>(std::min<uint64_t>(
        columns, std::max<uint64_t>(Kernel::kThreads / std::min<uint64_t>(below, Kernel::kThreads),
                                    Kernel::kLeastAcross)));
    arguments.stripes = divide_up(arguments.vectors, int64_t{arguments.across});
    // Where registers do not hold a column: what a block has of an SM's shared memory.
    const int64_t end = divide_up(arguments.rows, Kernel::kThreads / arguments.across);
    if (end > Kernel::kHeld) {
      constexpr int64_t kOthers = 1024 + sizeof(typename Kernel::SharedStorage);
      arguments.places = places_for(
          Kernel::kPlaces * Kernel::kInputs, Kernel::kThreads, Kernel::kInputs,
          device_facts().shared_bytes / Kernel::kMinBlocks - kOthers, Kernel::kLoadsOfTurn);
    }
    launch<Kernel>(
        {.blocks = layout.matrices * arguments.stripes,
         .threads = Kernel::kThreads,
         .dynamic_shared =
             static_cast<size_t>(Kernel::OnChipOf::elements(arguments.places)) * sizeof(T)},
        context.stream, arguments);
  }
};
#endif

}  // namespace ws::softmax
