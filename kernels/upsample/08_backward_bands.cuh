// Idea: a block takes a band of rows. Their copies are adjoining rows, which it adds up downwards,
// 16 bytes a thread; the sums lie in shared memory, where a thread finds those of its column.
// From backward_naive: where a column's copies begin is written down once a block, by asking each
// copy for its source, and then serves all rows of the band; no guess, no division a pixel.
// Traffic: each element once, in whole accesses, two rows of them in flight a thread.
// Limits: contiguous planes of up to 4096 columns, those of grad in whole vectors, aligned to 16
// bytes.
// Long: a table and two sums, one after the other in shared memory.
#pragma once

#include <algorithm>

#include "kernels/upsample/starts.hpp"
#include "warpsmith/ptx/barrier.hpp"

namespace ws::upsample {

template <class T>
struct BackwardBandsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 6;
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int kMostColumns = 4096;
  static constexpr int kMostRows = 64;
  struct Arguments {
    const T* grad;
    T* dx;
    int rows;          // of dx, in all planes
    int rows_a_block;  // up to kMostRows
    int from;          // columns of dx
    int to;            // of grad
    int side;          // rows of dx that threads lie along at once
    int side_from;     // their columns
    int side_to;
    Axis vertical;
    ShortAxis horizontal;
    thread::Divider height;   // rows of a plane of dx
    thread::Divider vectors;  // of a row of grad
    thread::Divider lanes;    // threads along a row of dx
  };
  struct SharedStorage {
    SharedArray<int, kMostRows + 1> row_starts;
    SharedArray<uint16_t, kMostColumns + 1> column_starts;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto first = static_cast<int>(block_index()) * a.rows_a_block;
    const int rows = std::min(a.rows_a_block, a.rows - first);
    const SharedSpan<float> sums = dynamic_shared<float>(shared, int64_t{a.rows_a_block} * a.to);
    find_row_starts(shared.row_starts.span(), a.vertical, a.height, first, rows);
    find_column_starts(shared.column_starts.span(), a.horizontal, a.from, a.to);
    ptx::barrier_sync();
    add_rows(shared, a, rows, sums);
    ptx::barrier_sync();
    add_columns(shared, a, a.dx + int64_t{first} * a.from, rows, sums);
  }

 private:
  static __device__ __forceinline__ void add_rows(SharedStorage& shared, const Arguments& a,
                                                  int rows, SharedSpan<float> sums) {
    const uint32_t vectors = rows * a.vectors.divisor();
    for (uint32_t i = thread_index(); i < vectors; i += kThreads) {
      const uint32_t row = a.vectors.quotient(i);
      const int end = shared.row_starts[row + 1];
      int k = shared.row_starts[row];
      const T* grad = a.grad + int64_t{k} * a.to + (i - row * a.vectors.divisor()) * kWidth;
      Vec<float, kWidth> sum{};
#pragma unroll 1
      for (; k < end; k += 2, grad += 2 * a.to) {
        const bool has_lower = k + 1 < end;
        const Vec<T, kWidth> upper = thread::load<kWidth>(grad);
        Vec<T, kWidth> lower;
        if (has_lower) lower = thread::load<kWidth>(grad + a.to);
        add(sum, upper);
        if (has_lower) add(sum, lower);
      }
      sums.template store<kWidth>(i * kWidth, sum);
    }
  }
  static __device__ __forceinline__ void add_columns(SharedStorage& shared, const Arguments& a,
                                                     T* dx, int rows, SharedSpan<float> sums) {
    const auto lanes = static_cast<int>(a.lanes.divisor());
    const auto row = static_cast<int>(a.lanes.quotient(thread_index()));
    if (row >= a.side) return;
    for (int column = thread_index() - row * lanes; column < a.from; column += lanes) {
      const int begin = shared.column_starts[column];
      const int count = shared.column_starts[column + 1] - begin;
      T* to = dx + row * a.from + column;
#pragma unroll 2
      for (int line = row * a.to; line < rows * a.to; line += a.side_to, to += a.side_from) {
        // Most have one copy or two, which need no loop.
        float sum = count > 0 ? sums[line + begin] : 0.0F;
        if (count > 1) sum += sums[line + begin + 1];
#pragma unroll 1
        for (int i = 2; i < count; ++i) sum += sums[line + begin + i];
        thread::store(to, from_float<T>(sum));
      }
    }
  }
  static __device__ __forceinline__ void add(Vec<float, kWidth>& sum, const Vec<T, kWidth>& grad) {
    const Vec<float, kWidth> added = thread::convert<float>(grad);
#pragma unroll
    for (int c = 0; c < kWidth; ++c) sum[c] += added[c];
  }
};

struct BackwardBands {
  static bool supports(const BackwardCall& call, Why& why) {
    return fits_bands(call, BackwardBandsKernel<float>::kMostColumns, why);
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardBandsKernel<T>;
      constexpr int64_t kSums = 4096;  // 16 KiB of f32 a block
      const int64_t rows = call.planes() * call.rows.from;
      const int64_t of_block =
          std::clamp<int64_t>(kSums / call.columns.to, 1, int64_t{Kernel::kMostRows});
      const int64_t lanes = std::min<int64_t>(call.columns.from, Kernel::kThreads);
      const int64_t side = Kernel::kThreads / lanes;
      const int64_t sums = of_block * call.columns.to;
      launch<Kernel>({.blocks = divide_up(rows, of_block),
                      .threads = Kernel::kThreads,
                      .dynamic_shared = static_cast<size_t>(sums) * sizeof(float)},
                     context.stream,
                     {.grad = static_cast<const T*>(call.in),
                      .dx = static_cast<T*>(call.out),
                      .rows = static_cast<int>(rows),
                      .rows_a_block = static_cast<int>(of_block),
                      .from = static_cast<int>(call.columns.from),
                      .to = static_cast<int>(call.columns.to),
                      .side = static_cast<int>(side),
                      .side_from = static_cast<int>(side * call.columns.from),
                      .side_to = static_cast<int>(side * call.columns.to),
                      .vertical = call.rows,
                      .horizontal = ShortAxis(call.columns),
                      .height = thread::Divider(call.rows.from),
                      .vectors = thread::Divider(call.columns.to / Kernel::kWidth),
                      .lanes = thread::Divider(lanes)});
    });
  }
};

inline constexpr Rung kBackwardBands = rung_of<BackwardBands, UpsampleNearest2dBackward>({
    .name = "backward_bands",
    .from = "backward_naive",
    .idea = "a band of rows a block: summed downwards in vectors, then along the row",
});

}  // namespace ws::upsample
