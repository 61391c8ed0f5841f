// The gradient's two passes over runs: sums of parts, and dx from their totals.
#pragma once

#include "kernels/batch_norm/parts.hpp"
#include "kernels/batch_norm/runs.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

// Sums of a part of a set; several neighbouring sets may have a mean in common.
template <class T>
struct PartSumsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 2;
  static constexpr int kWidth = Runs<T>::kWidth;
  using Packed = typename Runs<T>::Packed;
  using AllReduce = block::AllReduce<Sums, kThreads>;
  struct Arguments {
    Runs<T> runs;
    Plan plan;
    Values mean;
    int64_t per;    // means of a sample
    int64_t width;  // sets of a mean
    Sums* sums;     // [sets, parts]
  };
  struct SharedStorage {
    typename AllReduce::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    AllReduce all_reduce(shared.sums);
    const Runs<T>& runs = a.runs;
    const int64_t s = block_index() / a.plan.parts;
    const int64_t start = runs.start(s);
    const auto [first, last] = a.plan.range(block_index(), runs.windows);
    const float mean = load(a.mean, place_of_set(a.mean, s / a.width, a.per));
    Sums sums = Sums::none();
    for (int64_t w = first + thread_index(); w < last; w += kLoads * kThreads) {
      Window window[kLoads];
      Packed grad[kLoads];
      Packed x[kLoads];
      load_windows<kThreads>(runs, start, w, last, window, [&](int j) {
        grad[j] = runs.load(0, window[j]);
        x[j] = runs.load(1, window[j]);
      });
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (w + j * kThreads < last) add<kWidth>(sums, window[j], grad[j], x[j], mean);
      }
    }
    sums = all_reduce(sums, PlusSums{});
    if (thread_index() == 0) thread::store(a.sums + block_index(), Vec<Sums, 1>{{sums}});
  }
};

// dx of a part of a set.
template <int kThreads, int kLoads, class T>
__device__ __forceinline__ void apply_gradient(const Runs<T>& runs, int64_t start,
                                               const Range& range, const Gradient& gradient) {
  for (int64_t w = range.first + thread_index(); w < range.last; w += kLoads * kThreads) {
    Window window[kLoads];
    typename Runs<T>::Packed grad[kLoads];
    typename Runs<T>::Packed x[kLoads];
    load_windows<kThreads>(runs, start, w, range.last, window, [&](int j) {
      grad[j] = runs.load(0, window[j]);
      x[j] = runs.load(1, window[j]);
    });
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (w + j * kThreads < range.last) {
        store_gradient(runs, window[j], gradient, grad[j], x[j]);
      }
    }
  }
}

#endif

}  // namespace ws::batch_norm
