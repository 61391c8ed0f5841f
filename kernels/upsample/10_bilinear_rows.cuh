// Idea: a thread walks down a strip of 16 bytes of eight rows of the result. What lies between the
// pixels of a row of x, at its columns, stays in registers for all rows that want it.
// From bilinear_naive: a column's place is found once for eight rows, a row of x is mixed along
// once, not for each of the four rows that twice the size takes from it; whole vectors are written.
// Traffic: each element once, and a row or two more a strip from the L2; reads of 16 or 32 bits.
// Limits: contiguous planes, columns of the result in whole vectors, aligned to 16 bytes.
#pragma once

#include <algorithm>

#include "kernels/upsample/images.hpp"

namespace ws::upsample {

template <class T>
struct BilinearRowsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int kRows = 8;
  struct Arguments {
    const T* x;
    T* y;
    int64_t threads;
    thread::Divider vectors;  // of a row
    thread::Divider strips;   // of a plane; the last may be short
    LinearAxis rows;
    LinearAxis columns;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.threads) return;
    const uint32_t strip = a.vectors.quotient(static_cast<uint32_t>(i));
    const auto column = static_cast<int>(i - int64_t{strip} * a.vectors.divisor()) * kWidth;
    const int64_t plane = a.strips.quotient(strip);
    const auto row = static_cast<int>(strip - plane * a.strips.divisor()) * kRows;
    const Columns columns = columns_of(a.columns, column);

    const T* x = a.x + plane * a.rows.from * a.columns.from;
    const auto mix = [&](int source) {
      return mixed(columns, x + int64_t{source} * a.columns.from);
    };
    T* y = a.y + (plane * a.rows.to + row) * a.columns.to + column;
    const int end = std::min(row + kRows, a.rows.to);
    int upper_row = -1;
    int lower_row = -1;
    Vec<float, kWidth> upper{};
    Vec<float, kWidth> lower{};
#pragma unroll 1
    for (int k = row; k < end; ++k, y += a.columns.to) {
      const float source = a.rows.source(k);
      const int wanted = LinearAxis::before(source);
      if (wanted != upper_row) {
        upper = wanted == lower_row ? lower : mix(wanted);
        upper_row = wanted;
        lower_row = a.rows.after(source);
        lower = mix(lower_row);
      }
      const float weight = source - static_cast<float>(wanted);
      Vec<float, kWidth> between;
#pragma unroll
      for (int c = 0; c < kWidth; ++c) {
        between[c] = (1 - weight) * upper[c] + weight * lower[c];
      }
      thread::store(y, thread::convert<T>(between));
    }
  }

 private:
  // In bytes, which are added to an address as they are.
  struct Columns {
    uint32_t left[kWidth];
    uint32_t right[kWidth];
    float weight[kWidth];  // of the right one
  };
  static __device__ __forceinline__ Columns columns_of(const LinearAxis& axis, int column) {
    Columns found;
#pragma unroll
    for (int c = 0; c < kWidth; ++c) {
      const float source = axis.source(column + c);
      const int left = LinearAxis::before(source);
      found.left[c] = left * sizeof(T);
      found.right[c] = axis.after(source) * sizeof(T);
      found.weight[c] = source - static_cast<float>(left);
    }
    return found;
  }
  static __device__ __forceinline__ Vec<float, kWidth> mixed(const Columns& columns, const T* row) {
    const char* x = reinterpret_cast<const char*>(row);
    const auto at = [&](uint32_t bytes) {
      return to_float(thread::load(reinterpret_cast<const T*>(x + bytes)));
    };
    Vec<float, kWidth> along;
#pragma unroll
    for (int c = 0; c < kWidth; ++c) {
      along[c] =
          (1 - columns.weight[c]) * at(columns.left[c]) + columns.weight[c] * at(columns.right[c]);
    }
    return along;
  }
};

struct BilinearRows {
  static bool supports(const ForwardCall& call, Why& why) {
    const int64_t width = width_of(call);
    constexpr int64_t kRows = BilinearRowsKernel<float>::kRows;
    return is_dense(call, why) &&
           why.unless(call.columns.to % width == 0 && is_aligned(call.out),
                      "writes whole vectors of ", width, " columns, aligned to 16 bytes, not ",
                      call.columns.to) &&
           is_counted(call.planes() * divide_up(call.rows.to, kRows) * (call.columns.to / width),
                      why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BilinearRowsKernel<T>;
      const int64_t vectors = call.columns.to / Kernel::kWidth;
      const int64_t strips = divide_up(call.rows.to, int64_t{Kernel::kRows});
      const int64_t threads = call.planes() * strips * vectors;
      launch<Kernel>({.blocks = divide_up(threads, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream,
                     {static_cast<const T*>(call.in), static_cast<T*>(call.out), threads,
                      thread::Divider(vectors), thread::Divider(strips), LinearAxis(call.rows),
                      LinearAxis(call.columns)});
    });
  }
};

inline constexpr Rung kBilinearRows = rung_of<BilinearRows, UpsampleBilinear2d>({
    .name = "bilinear_rows",
    .from = "bilinear_naive",
    .idea = "16 bytes of eight rows a thread; a row of x is mixed along once",
});

}  // namespace ws::upsample
