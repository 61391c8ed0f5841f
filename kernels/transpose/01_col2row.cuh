// Idea: a thread an element of x, in x's order: columns become rows where they are written.
// Traffic: warps read lines of 128 bytes, and write each element into a sector of its own: 32 bytes
//   for each, unless the L2 keeps it until its neighbours come.
// Limits: one dense matrix.
#pragma once

#include "kernels/transpose/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::transpose {

template <class T>
struct MatrixArguments {
  const T* x;
  T* y;
  int64_t rows;  // of x
  int64_t columns;

  explicit MatrixArguments(const Permutation& call)
      : x(static_cast<const T*>(call.x)), y(static_cast<T*>(call.y)) {
    const Matrices m = matrices_of(call);
    rows = m.rows;
    columns = m.columns;
  }
};

#if WS_DEVICE_CODE
template <class T>
struct Col2rowKernel {
  static constexpr int kThreads = 256;
  using Arguments = MatrixArguments<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.rows * a.columns) return;
    const int64_t row = i / a.columns;
    const int64_t column = i % a.columns;
    thread::store(a.y + column * a.rows + row, thread::load(a.x + i));
  }
};

struct Col2row {
  static bool supports(const Permutation& call, Why& why) { return is_matrix(call, why); }
  static void run(const Permutation& call, const Context& context) {
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = Col2rowKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.elements(), Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, MatrixArguments<T>(call));
    });
  }
};

inline constexpr Seed kCol2rowSeeds[] = {{"{}_f32_col2row", {}, {DType::kF32}}};
inline constexpr Rung kCol2row =
    rung_of<Col2row, Transpose>({.name = "col2row",
                                 .idea = "a thread an element of x: whole lines read, bits written",
                                 .seeds = kCol2rowSeeds});
#endif

}  // namespace ws::transpose
