// Idea: 16 bytes an access, a vector of each tensor a thread, in small one-shot blocks.
// From naive: four loads of 16 bytes are under way before the first is needed, 64 KiB of 1024
// threads, and the step's two exponentials are computed once for four or eight elements. Seven
// streams want their addresses in order more than two do, hence blocks that end soon.
// Traffic: 28 bytes an element in f32, 14 in 16 bits, 22 with moments of f32.
// Limits: dense tensors of one order that start at a multiple of 16 bytes.
#pragma once

#include "kernels/optimizer/update.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::optimizer {

template <class T, class Moment>
struct VectorKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = sizeof(T) == 2 ? 3 : 4;  // eight elements take registers
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int64_t kTile = int64_t{kThreads} * kWidth;
  struct Arguments {
    T* param;
    const T* grad;
    Moment* exp_avg;
    Moment* exp_avg_sq;
    int64_t elements;
    Settings settings;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t first = block_index() * kTile + thread_index() * kWidth;
    if (first >= a.elements) return;
    const Numbers numbers(a.settings);
    Elements<kWidth, T, Moment> elements;
    const bool is_whole = first + kWidth <= a.elements;
    if (is_whole) {
      elements.load(a.param + first, a.grad + first, a.exp_avg + first, a.exp_avg_sq + first);
    }
    if (numbers.is_skipped()) return;
    const Update update(a.settings, numbers);
    if (is_whole) {
      return elements.store(update, a.param + first, a.exp_avg + first, a.exp_avg_sq + first);
    }
    for (int64_t i = first; i < a.elements; ++i) {  // a tail shorter than a vector
      update_element(update, a.param + i, a.grad + i, a.exp_avg + i, a.exp_avg_sq + i);
    }
  }
};

struct Vector {
  static bool supports(const OneCall& call, Why& why) {
    if (!why.unless(call.is_dense, "takes dense tensors of one order")) return false;
    for (const void* data : call.rows.data) {
      if (!why.unless(reinterpret_cast<uintptr_t>(data) % 16 == 0,
                      "needs pointers aligned to 16 bytes")) {
        return false;
      }
    }
    return true;
  }
  static void run(const OneCall& call, const Context& context) {
    with_types(call, [&]<class T, class Moment>() {
      using Kernel = VectorKernel<T, Moment>;
      launch<Kernel>(
          {.blocks = divide_up(call.elements, Kernel::kTile), .threads = Kernel::kThreads},
          context.stream,
          {call.rows.as<T>(kParam), call.rows.as<const T>(kGrad), call.rows.as<Moment>(kExpAvg),
           call.rows.as<Moment>(kExpAvgSq), call.elements, call.settings});
    });
  }
};

inline constexpr Rung kVector = rung_of<Vector, AdamW>({
    .name = "vector",
    .from = "naive",
    .idea = "16 bytes an access of each tensor, in small blocks in the order of addresses",
});

}  // namespace ws::optimizer
