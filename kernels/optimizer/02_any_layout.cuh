// Idea: whatever torch's users hold: parameters of 16 bits with moments of theirs or of f32, any
// strides, a gradient scaler.
// From naive: an element's place in each tensor follows from its row and column.
// Traffic: every byte once where neighbours lie side by side.
// Limits: none.
#pragma once

#include "kernels/optimizer/update.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::optimizer {

template <class T, class Moment>
struct AnyLayoutKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    RowLayout<kOperands> rows;
    int64_t elements;
    Settings settings;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    const Numbers numbers(a.settings);
    if (i >= a.elements || numbers.is_skipped()) return;
    const int64_t row = i / a.rows.columns;
    const int64_t column = i - row * a.rows.columns;
    const auto place = [&](int k) { return a.rows.offset(k, row) + column * a.rows.inner[k]; };
    update_element(Update(a.settings, numbers),
                   static_cast<T*>(a.rows.data[kParam]) + place(kParam),
                   static_cast<const T*>(a.rows.data[kGrad]) + place(kGrad),
                   static_cast<Moment*>(a.rows.data[kExpAvg]) + place(kExpAvg),
                   static_cast<Moment*>(a.rows.data[kExpAvgSq]) + place(kExpAvgSq));
  }
};

struct AnyLayout {
  static void run(const OneCall& call, const Context& context) {
    with_types(call, [&]<class T, class Moment>() {
      using Kernel = AnyLayoutKernel<T, Moment>;
      launch<Kernel>(
          {.blocks = divide_up(call.elements, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, {call.rows, call.elements, call.settings});
    });
  }
};

inline constexpr Rung kAnyLayout = rung_of<AnyLayout, AdamW>({
    .name = "any_layout",
    .from = "naive",
    .idea = "any strides, moments of f32 or of the parameters' dtype, a gradient scaler",
});

}  // namespace ws::optimizer
