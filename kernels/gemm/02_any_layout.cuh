// Idea: a matrix is a pointer and two strides. Transposes, padding and views are then the same
//   kernel: element (i, j) lies at i * row + j * column.
// From naive: the strides are arguments; the call has resolved `layout` into them.
// Traffic: naive's where neighbouring threads meet neighbouring elements of B; up to a sector of 32
//   bytes an element where they do not (layouts nt, tt).
// Limits: none.
#pragma once

#include "kernels/gemm/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::gemm {

// Element (i, j) of a matrix.
template <class T>
struct View {
  T* data;
  int64_t row;  // strides in elements
  int64_t column;

  View(const Matrix& m) : data(m.as<T>()), row(m.row), column(m.column) {}
  __device__ __forceinline__ T* at(int64_t i, int64_t j) const {
    return data + i * row + j * column;
  }
};

template <class T>
struct AnyLayoutKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    View<const T> a;
    View<const T> b;
    View<T> c;
    int64_t m, n, k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, b, c, m, n, k] = arguments;
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= m * n) return;
    const int64_t row = index / n;
    const int64_t column = index % n;
    float sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      sum += to_float(thread::load(a.at(row, i))) * to_float(thread::load(b.at(i, column)));
    }
    thread::store(c.at(row, column), from_float<T>(sum));
  }
};

struct AnyLayout {
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = AnyLayoutKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.m * call.n, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, {call.a, call.b, call.c, call.m, call.n, call.k});
    });
  }
};

inline constexpr Rung kAnyLayout = rung_of<AnyLayout, Gemm>({
    .name = "any_layout",
    .from = "naive",
    .idea = "a matrix is a pointer and two strides: any layout, padding, views",
});

}  // namespace ws::gemm
