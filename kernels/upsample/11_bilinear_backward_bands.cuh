// Idea: a block takes a band of rows of dx: the rows of grad that these are a part of are added up
// downwards by their weights, 16 bytes a thread; the sums lie in shared memory, where a thread adds
// those of its column by theirs.
// From bilinear_naive: the sum of a window is one of its columns' sums: 4 + 4 products of twice the
// size, not 16; which columns, and their weights, a thread finds once for its rows of the band.
// Traffic: each element of grad twice at twice the size, once of it from the L1 or the L2.
// Limits: contiguous planes of up to 4096 columns, those of grad in whole vectors, aligned to 16
// bytes.
// Long: a table and two sums, one after the other in shared memory.
#pragma once

#include <algorithm>

#include "kernels/upsample/images.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::upsample {

template <class T>
struct BilinearBackwardBandsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int kMostColumns = 4096;
  static constexpr int kMostRows = 64;
  static constexpr int kInRegisters = 4;  // weights of a column, all of them at twice the size
  struct Arguments {
    const T* grad;
    T* dx;
    int rows;                 // of dx, in all planes
    int rows_a_block;         // up to kMostRows
    int side;                 // rows of dx that threads lie along at once
    thread::Divider vectors;  // of a row of grad
    thread::Divider height;   // rows of a plane of dx
    thread::Divider lanes;    // threads along a row of dx
    LinearAxis vertical;
    LinearAxis horizontal;
  };
  // A row of dx, and the rows of its plane of grad that it is a part of.
  struct Row {
    int number;
    int begin;
    int end;
    int64_t grad;  // where its plane begins
  };
  struct SharedStorage {
    SharedArray<Row, kMostRows> rows;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int first = static_cast<int>(block_index()) * a.rows_a_block;
    const int rows = std::min(a.rows_a_block, a.rows - first);
    const SharedSpan<float> sums =
        dynamic_shared<float>(shared, int64_t{a.rows_a_block} * a.horizontal.to);
    for (int i = thread_index(); i < rows; i += kThreads) shared.rows[i] = row_of(a, first + i);
    ptx::barrier_sync();
    add_rows(shared, a, rows, sums);
    ptx::barrier_sync();
    add_columns(a, a.dx + int64_t{first} * a.horizontal.from, rows, sums);
  }

 private:
  static __device__ __forceinline__ Row row_of(const Arguments& a, int i) {
    const uint32_t plane = a.height.quotient(i);
    const auto number = static_cast<int>(i - plane * a.height.divisor());
    return {number, a.vertical.first_with(number), a.vertical.end_with(number),
            int64_t{plane} * a.vertical.to * a.horizontal.to};
  }
  static __device__ __forceinline__ void add_rows(SharedStorage& shared, const Arguments& a,
                                                  int rows, SharedSpan<float> sums) {
    const uint32_t vectors = rows * a.vectors.divisor();
    for (uint32_t i = thread_index(); i < vectors; i += kThreads) {
      const uint32_t line = a.vectors.quotient(i);
      const Row row = shared.rows[line];
      const T* grad = a.grad + row.grad + int64_t{row.begin} * a.horizontal.to +
                      (i - line * a.vectors.divisor()) * kWidth;
      Vec<float, kWidth> sum{};
#pragma unroll 4
      for (int k = row.begin; k < row.end; ++k, grad += a.horizontal.to) {
        const Vec<float, kWidth> read = thread::convert<float>(thread::load<kWidth>(grad));
        const float weight = LinearAxis::weight(a.vertical.source(k), row.number);
#pragma unroll
        for (int c = 0; c < kWidth; ++c) sum[c] += weight * read[c];
      }
      sums.template store<kWidth>(i * kWidth, sum);
    }
  }
  static __device__ __forceinline__ void add_columns(const Arguments& a, T* dx, int rows,
                                                     SharedSpan<float> sums) {
    const auto lanes = static_cast<int>(a.lanes.divisor());
    const auto start = static_cast<int>(a.lanes.quotient(thread_index()));
    if (start >= a.side) return;
    for (int column = thread_index() - start * lanes; column < a.horizontal.from; column += lanes) {
      const int begin = a.horizontal.first_with(column);
      const int count = a.horizontal.end_with(column) - begin;
      const auto weight = [&](int i) {
        return LinearAxis::weight(a.horizontal.source(begin + i), column);
      };
      float weights[kInRegisters];
#pragma unroll
      for (int i = 0; i < kInRegisters; ++i) weights[i] = i < count ? weight(i) : 0;
      for (int row = start; row < rows; row += a.side) {
        const int line = row * a.horizontal.to + begin;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < kInRegisters; ++i) {
          if (i < count) sum += weights[i] * sums[line + i];
        }
#pragma unroll 1
        for (int i = kInRegisters; i < count; ++i) sum += weight(i) * sums[line + i];
        thread::store(dx + row * a.horizontal.from + column, from_float<T>(sum));
      }
    }
  }
};

struct BilinearBackwardBands {
  static bool supports(const BackwardCall& call, Why& why) {
    return fits_bands(call, BilinearBackwardBandsKernel<float>::kMostColumns, why);
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BilinearBackwardBandsKernel<T>;
      constexpr int64_t kSums = 4096;  // 16 KiB of f32 a block
      const int64_t rows = call.planes() * call.rows.from;
      const int64_t of_block =
          std::clamp<int64_t>(kSums / call.columns.to, 1, int64_t{Kernel::kMostRows});
      const int64_t lanes = std::min<int64_t>(call.columns.from, Kernel::kThreads);
      launch<Kernel>(
          {.blocks = divide_up(rows, of_block),
           .threads = Kernel::kThreads,
           .dynamic_shared = static_cast<size_t>(of_block * call.columns.to) * sizeof(float)},
          context.stream,
          {.grad = static_cast<const T*>(call.in),
           .dx = static_cast<T*>(call.out),
           .rows = static_cast<int>(rows),
           .rows_a_block = static_cast<int>(of_block),
           .side = static_cast<int>(Kernel::kThreads / lanes),
           .vectors = thread::Divider(call.columns.to / Kernel::kWidth),
           .height = thread::Divider(call.rows.from),
           .lanes = thread::Divider(lanes),
           .vertical = LinearAxis(call.rows),
           .horizontal = LinearAxis(call.columns)});
    });
  }
};

inline constexpr Rung kBilinearBackwardBands =
    rung_of<BilinearBackwardBands, UpsampleBilinear2dBackward>({
        .name = "bilinear_backward_bands",
        .from = "bilinear_naive",
        .idea = "a band of rows a block: summed downwards in vectors, then along the row",
    });

}  // namespace ws::upsample
