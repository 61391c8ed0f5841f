// Idea: a thread an element of the result: four pixels around a place, weighted by how near they
// are; or, of a gradient, the elements that a pixel is a part of, each by the same weight.
// From any_layout: weights. A pixel's elements are a range of rows and one of columns, and those of
// neighbours overlap: scattered, they would take atomic additions in any order.
// Traffic: each element once where neighbours lie side by side; the L1 has what they share.
// Limits: none.
#pragma once

#include "kernels/upsample/06_any_layout.cuh"

namespace ws::upsample {

// An element of the result from those of x, and one of dx from those of grad: at(row, column).
template <class At>
__device__ __forceinline__ float between(const LinearAxis& rows, const LinearAxis& columns, int i,
                                         int j, const At& at) {
  const float row = rows.source(i);
  const float column = columns.source(j);
  const int upper = LinearAxis::before(row);
  const int left = LinearAxis::before(column);
  const int lower = rows.after(row);
  const int right = columns.after(column);
  const float w = row - static_cast<float>(upper);
  const float v = column - static_cast<float>(left);
  return (1 - w) * ((1 - v) * at(upper, left) + v * at(upper, right)) +
         w * ((1 - v) * at(lower, left) + v * at(lower, right));
}
template <class At>
__device__ __forceinline__ float gathered(const LinearAxis& rows, const LinearAxis& columns, int i,
                                          int j, const At& at) {
  const int first = columns.first_with(j);
  const int last = columns.end_with(j);
  const int last_row = rows.end_with(i);
  float sum = 0;
  for (int k = rows.first_with(i); k < last_row; ++k) {
    float along = 0;
    for (int l = first; l < last; ++l) {
      along += LinearAxis::weight(columns.source(l), j) * at(k, l);
    }
    sum += LinearAxis::weight(rows.source(k), i) * along;
  }
  return sum;
}

template <class T, bool kIsForward>
struct BilinearNaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Call call;
    LinearAxis rows;
    LinearAxis columns;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t rows = kIsForward ? a.rows.to : a.rows.from;
    const int64_t columns = kIsForward ? a.columns.to : a.columns.from;
    const int64_t number = block_index() * kThreads + thread_index();
    if (number >= a.call.planes() * rows * columns) return;
    const auto [image, channel, row, column] = spot_of(number, a.call, rows, columns);
    const T* from =
        static_cast<const T*>(a.call.in) + offset(a.call.in_strides, image, channel, 0, 0);
    T* to = static_cast<T*>(a.call.out) + offset(a.call.out_strides, image, channel, row, column);
    const auto at = [&](int k, int l) {
      const Strides& s = a.call.in_strides;
      return to_float(thread::load(from + k * s.row + l * s.column));
    };
    const auto i = static_cast<int>(row);
    const auto j = static_cast<int>(column);
    thread::store(to, from_float<T>(kIsForward ? between(a.rows, a.columns, i, j, at)
                                               : gathered(a.rows, a.columns, i, j, at)));
  }
};

struct BilinearNaive {
  template <class OperationCall>
  static void run(const OperationCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      constexpr bool kIsForward = OperationCall::kIsForward;
      using Kernel = BilinearNaiveKernel<T, kIsForward>;
      const int64_t pixels =
          kIsForward ? call.rows.to * call.columns.to : call.rows.from * call.columns.from;
      launch<Kernel>({.blocks = divide_up(call.planes() * pixels, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, {call, LinearAxis(call.rows), LinearAxis(call.columns)});
    });
  }
};

inline constexpr Rung kBilinearNaive =
    rung_of<BilinearNaive, UpsampleBilinear2d, UpsampleBilinear2dBackward>({
        .name = "bilinear_naive",
        .from = "any_layout",
        .idea = "any strides: four pixels by their weights, and what a pixel is a part of",
    });

}  // namespace ws::upsample
