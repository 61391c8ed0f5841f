// Idea: every layout has the same mask: an element's number is its place in row-major order, and
// where it lies follows from the strides.
// From dropout_naive: a division for each dimension.
// Traffic: every byte once where neighbours lie side by side; up to a sector of 32 bytes an element
//   where they do not.
// Limits: none.
#pragma once

#include "kernels/fused/dropout.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::fused {

template <class T>
struct DropoutAnyLayoutKernel {
  static constexpr int kThreads = 256;
  using Arguments = DropoutCall;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.elements) return;
    const int64_t row = i / a.rows.columns;
    const int64_t column = i - row * a.rows.columns;
    const auto at = [&](int k) { return a.rows.offset(k, row) + column * a.rows.inner[k]; };
    const float factor = a.mask.factor_of(i);
    const float x = to_float(thread::load(static_cast<const T*>(a.rows.data[0]) + at(0)));
    thread::store(static_cast<T*>(a.rows.data[1]) + at(1), from_float<T>(x * factor));
  }
};

struct DropoutAnyLayout {
  static void run(const DropoutCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = DropoutAnyLayoutKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.elements, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, call);
    });
  }
};

inline constexpr Rung kDropoutAnyLayout = rung_of<DropoutAnyLayout, Dropout>({
    .name = "dropout_any_layout",
    .from = "dropout_naive",
    .idea = "any strides, any offset: the mask goes by the element's number",
});

}  // namespace ws::fused
