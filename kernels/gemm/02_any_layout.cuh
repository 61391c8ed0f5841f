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

template <class T>
struct AnyLayoutKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    Call call;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const Call& call = arguments.call;
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= call.m * call.n) return;
    const int64_t row = index / call.n;
    const int64_t column = index % call.n;
    const T* a = call.a.as<const T>() + row * call.a.row;
    const T* b = call.b.as<const T>() + column * call.b.column;
    float sum = 0;
    for (int64_t k = 0; k < call.k; ++k) {
      sum += to_float(thread::load(a + k * call.a.column)) *
             to_float(thread::load(b + k * call.b.row));
    }
    T* c = call.c.as<T>() + row * call.c.row + column * call.c.column;
    thread::store(c, from_float<T>(sum));
  }
};

struct AnyLayout {
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = AnyLayoutKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.m * call.n, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, {call});
    });
  }
};

inline constexpr Rung kAnyLayout = rung_of<AnyLayout, Gemm>({
    .name = "any_layout",
    .from = "naive",
    .idea = "a matrix is a pointer and two strides: any layout, padding, views",
});

}  // namespace ws::gemm
