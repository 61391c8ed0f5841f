// Idea: a thread a row looks k times for the best element that comes after the last one it found.
// Traffic: k reads of the row, lanes a row apart.
// Limits: contiguous tensors of floats, k of up to 1024; lanes that read a row apart share no
// sector.
#pragma once

#include "kernels/topk/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::topk {

#if WS_DEVICE_CODE
// An element and its place, as the bottom rungs compare them: the larger first, or the smaller; a
// NaN is the largest; of equals the first.
struct Placed {
  float value;
  int64_t place;  // -1: none

  __device__ __forceinline__ bool precedes(const Placed& other, bool largest) const {
    if (place < 0 || other.place < 0) return other.place < place;
    const bool nan = value != value;
    const bool other_nan = other.value != other.value;
    const bool above = nan ? !other_nan : value > other.value;
    const bool below = other_nan ? !nan : value < other.value;
    if (above != below) return above == largest;
    return place < other.place;
  }
};

template <class T>
struct ThreadPerRowKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    const T* x;
    T* values;
    int64_t* indices;
    int64_t rows;
    int64_t columns;
    int64_t k;
    bool largest;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= a.rows) return;
    const T* x = a.x + row * a.columns;
    Placed last{0, -1};
    for (int64_t j = 0; j < a.k; ++j) {
      Placed best{0, -1};
      for (int64_t i = 0; i < a.columns; ++i) {
        const Placed here{to_float(thread::load(x + i)), i};
        const bool is_left = j == 0 || last.precedes(here, a.largest);
        if (is_left && here.precedes(best, a.largest)) best = here;
      }
      thread::store(a.values + row * a.k + j, thread::load(x + best.place));
      thread::store(a.indices + row * a.k + j, best.place);
      last = best;
    }
  }
};

struct ThreadPerRow {
  static constexpr int64_t kMostOutputs = 1024;
  static bool supports(const Selection& call, Why& why) {
    return is_dense(call, why) && why.unless(call.k <= kMostOutputs, "searches a row up to ",
                                             kMostOutputs, " times, not ", call.k);
  }
  static void run(const Selection& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = ThreadPerRowKernel<T>;
      const auto& rows = call.rows;
      launch<Kernel>(
          {.blocks = divide_up(rows.rows, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {rows.as<const T>(kX), rows.as<T>(kValues), rows.as<int64_t>(kIndices), rows.rows,
           rows.columns, call.k, call.largest});
    });
  }
};

inline constexpr Rung kThreadPerRow = rung_of<ThreadPerRow, kFloats, TopK, Sort>(
    {.name = "thread_per_row", .idea = "a thread a row, k searches for the next best"});
#endif

}  // namespace ws::topk
