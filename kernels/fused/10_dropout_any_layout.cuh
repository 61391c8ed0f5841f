// Idea: every layout has the same mask: an element's number is its place in row-major order, and
// where it lies follows from the strides.
// From dropout_naive: four elements of one counter a thread, two counters of them, as dropout_four
//   has them, element by element: the first of an odd offset has fewer. Of dense tensors a number
//   is a place; of others a thread divides for its first element's row, and walks on.
// Traffic: every byte once where neighbours lie side by side; up to a sector of 32 bytes an element
//   where they do not.
// Limits: none.
#pragma once

#include "kernels/fused/dropout.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::fused {

template <class T, bool kDense>
struct DropoutAnyLayoutKernel {
  static constexpr int kThreads = 256;
  static constexpr int kCounters = 2;  // of a thread
  static constexpr int kOfEach = 4;
  using Arguments = DropoutCall;
  struct SharedStorage {};

  // Counters that the elements need.
  static int64_t counters(const DropoutCall& call) {
    if (call.elements == 0) return 0;  // also behind an odd offset
    const auto before = static_cast<int64_t>(call.mask.offset % kOfEach);
    return divide_up(call.elements + before, int64_t{kOfEach});
  }

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto before = static_cast<int64_t>(a.mask.offset % kOfEach);
    const auto* const from = static_cast<const T*>(a.rows.data[0]);
    auto* const to = static_cast<T*>(a.rows.data[1]);
    const int64_t first = block_index() * kThreads * kCounters + thread_index();
    Place places[kCounters][kOfEach];
    T x[kCounters][kOfEach];
#pragma unroll
    for (int c = 0; c < kCounters; ++c) {
      find(a, (first + c * kThreads) * kOfEach - before, places[c]);
#pragma unroll
      for (int i = 0; i < kOfEach; ++i) {
        x[c][i] = from_float<T>(0.0F);
        if (places[c][i].exists) x[c][i] = thread::load(from + places[c][i].from);
      }
    }
#pragma unroll
    for (int c = 0; c < kCounters; ++c) {
      const Vec<uint32_t, kOfEach> words =
          a.mask.random(a.mask.offset / kOfEach + static_cast<uint64_t>(first + c * kThreads));
#pragma unroll
      for (int i = 0; i < kOfEach; ++i) {
        if (!places[c][i].exists) continue;
        thread::store(to + places[c][i].to,
                      from_float<T>(to_float(x[c][i]) * a.mask.factor(words[i])));
      }
    }
  }

 private:
  struct Place {
    bool exists;
    int64_t from, to;
  };

  // Of four elements from `first` on, which may be before the tensor's own.
  __device__ __forceinline__ static void find(const Arguments& a, int64_t first,
                                              Place (&places)[kOfEach]) {
    int64_t row = 0;
    int64_t column = first < 0 ? 0 : first;
    int64_t rows[2] = {};  // where it begins in x and in y
    if constexpr (!kDense) {
      row = column / a.rows.columns;
      column -= row * a.rows.columns;
      for (int k = 0; k < 2; ++k) rows[k] = a.rows.offset(k, row);
    }
#pragma unroll
    for (int i = 0; i < kOfEach; ++i) {
      places[i].exists = first + i >= 0 && first + i < a.elements;
      if constexpr (kDense) {
        places[i].from = places[i].to = first + i;
        continue;
      }
      if (!places[i].exists) continue;
      if (column == a.rows.columns) {
        column = 0;
        ++row;
        for (int k = 0; k < 2; ++k) rows[k] = a.rows.offset(k, row);
      }
      places[i].from = rows[0] + column * a.rows.inner[0];
      places[i].to = rows[1] + column * a.rows.inner[1];
      ++column;
    }
  }
};

struct DropoutAnyLayout {
  static void run(const DropoutCall& call, const Context& context) {
    const auto run = [&]<class Kernel>(Kernel) {
      launch<Kernel>({.blocks = divide_up(Kernel::counters(call),
                                          int64_t{Kernel::kThreads} * Kernel::kCounters),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    };
    with_type<kFloats>(call.dtype, [&]<class T>() {
      if (call.is_dense) return run(DropoutAnyLayoutKernel<T, true>{});
      run(DropoutAnyLayoutKernel<T, false>{});
    });
  }
};

inline constexpr Rung kDropoutAnyLayout = rung_of<DropoutAnyLayout, Dropout>({
    .name = "dropout_any_layout",
    .from = "dropout_four",
    .idea = "any strides, any offset: the mask goes by the element's number",
});

}  // namespace ws::fused
