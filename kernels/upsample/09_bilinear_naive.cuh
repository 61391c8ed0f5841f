// Idea: a thread an element of the result: four pixels around a place, weighted by how near they
// are; or, of a gradient, the elements that a pixel is a part of, each by the same weight.
// From any_layout: weights. A pixel's elements are a range of rows and one of columns, and those of
// neighbours overlap: scattered, they would take atomic additions in any order.
// Traffic: each element once where neighbours lie side by side; the L1 has what they share.
// Limits: none.
#pragma once

#include "kernels/upsample/06_any_layout.cuh"

namespace ws::upsample {

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
    const auto sum = kIsForward ? between : gathered;
    thread::store(to, from_float<T>(sum(a, from, static_cast<int>(row), static_cast<int>(column))));
  }

 private:
  static __device__ __forceinline__ float at(const Arguments& a, const T* from, int row,
                                             int column) {
    const Strides& s = a.call.in_strides;
    return to_float(thread::load(from + row * s.row + column * s.column));
  }
  static __device__ __forceinline__ float between(const Arguments& a, const T* x, int i, int j) {
    const float row = a.rows.source(i);
    const float column = a.columns.source(j);
    const int upper = LinearAxis::before(row);
    const int left = LinearAxis::before(column);
    const int lower = a.rows.after(row);
    const int right = a.columns.after(column);
    const float w = row - static_cast<float>(upper);
    const float v = column - static_cast<float>(left);
    return (1 - w) * ((1 - v) * at(a, x, upper, left) + v * at(a, x, upper, right)) +
           w * ((1 - v) * at(a, x, lower, left) + v * at(a, x, lower, right));
  }
  static __device__ __forceinline__ float gathered(const Arguments& a, const T* grad, int row,
                                                   int column) {
    const int first = a.columns.first_with(column);
    const int last = a.columns.end_with(column);
    const int last_row = a.rows.end_with(row);
    float sum = 0;
    for (int k = a.rows.first_with(row); k < last_row; ++k) {
      float along = 0;
      for (int l = first; l < last; ++l) {
        along += LinearAxis::weight(a.columns.source(l), column) * at(a, grad, k, l);
      }
      sum += LinearAxis::weight(a.rows.source(k), row) * along;
    }
    return sum;
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
