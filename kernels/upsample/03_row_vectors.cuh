// Idea: 16 bytes of a row of the result a thread, whatever the sizes, and of the row below.
// From naive: writes are most of the traffic, and take four or eight times fewer instructions. What
// columns come from a thread finds once for both rows, which often are copies of one row and read
// once then; its pixels lie beside each other, and come from the L1.
// Traffic: each element once; reads of 16 or 32 bits.
// Limits: contiguous planes, columns of the result in whole vectors, aligned to 16 bytes.
#pragma once

#include "kernels/upsample/images.hpp"

namespace ws::upsample {

template <class T>
struct RowVectorsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWidth = 16 / sizeof(T);
  struct Arguments {
    const T* x;
    T* y;
    int64_t threads;
    thread::Divider vectors;  // of a row
    thread::Divider couples;  // of rows of a plane; the last may be one row
    int64_t height;
    int64_t from_rows;
    int64_t from_columns;
    ShortAxis rows;
    ShortAxis columns;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.threads) return;
    const uint32_t couple = a.vectors.quotient(static_cast<uint32_t>(i));
    const auto column = static_cast<int>(i - int64_t{couple} * a.vectors.divisor()) * kWidth;
    const uint32_t plane = a.couples.quotient(couple);
    const auto row = static_cast<int>(2 * (couple - plane * a.couples.divisor()));
    const bool has_lower = row + 1 < a.height;
    uint32_t columns[kWidth];  // in bytes, which are added to an address as they are
#pragma unroll
    for (int k = 0; k < kWidth; ++k) columns[k] = a.columns.source(column + k) * sizeof(T);
    const auto load = [&](int source) {
      const T* row_start = a.x + (plane * a.from_rows + source) * a.from_columns;
      const char* x = reinterpret_cast<const char*>(row_start);
      Vec<T, kWidth> found;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        found[k] = thread::load(reinterpret_cast<const T*>(x + columns[k]));
      }
      return found;
    };
    const int source = a.rows.source(row);
    const int lower_source = has_lower ? a.rows.source(row + 1) : source;
    const Vec<T, kWidth> upper = load(source);
    const Vec<T, kWidth> lower = lower_source == source ? upper : load(lower_source);
    const int64_t pitch = int64_t{kWidth} * a.vectors.divisor();
    T* y = a.y + (plane * a.height + row) * pitch + column;
    thread::store(y, upper);
    if (has_lower) thread::store(y + pitch, lower);
  }
};

struct RowVectors {
  static bool supports(const ForwardCall& call, Why& why) {
    const int64_t width = width_of(call);
    return is_dense(call, why) &&
           why.unless(call.columns.to % width == 0 && is_aligned(call.out),
                      "writes whole vectors of ", width, " columns, aligned to 16 bytes, not ",
                      call.columns.to) &&
           is_short(call, why) &&
           is_counted(call.planes() * divide_up(call.rows.to, 2) * (call.columns.to / width), why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = RowVectorsKernel<T>;
      const int64_t vectors = call.columns.to / Kernel::kWidth;
      const int64_t couples = divide_up(call.rows.to, 2);
      const int64_t threads = call.planes() * couples * vectors;
      launch<Kernel>(
          {.blocks = divide_up(threads, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {static_cast<const T*>(call.in), static_cast<T*>(call.out), threads,
           thread::Divider(vectors), thread::Divider(couples), call.rows.to, call.rows.from,
           call.columns.from, ShortAxis(call.rows), ShortAxis(call.columns)});
    });
  }
};

inline constexpr Rung kRowVectors = rung_of<RowVectors, UpsampleNearest2d>({
    .name = "row_vectors",
    .from = "naive",
    .idea = "16 bytes of two rows of the result a thread, whatever the sizes",
});

}  // namespace ws::upsample
