// Idea: a thread owns an element, and weighs its two parts by the formula.
// Traffic: two elements read, one written; the weights of a row are computed by every one of its
//   threads, each from 8 bytes.
// Limits: 2 bytes a thread of 16-bit elements do not fill the way to memory.
#pragma once

#include "kernels/attention/merge.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::attention {

template <class T>
struct MergeNaiveKernel {
  static constexpr int kThreads = 256;
  using Arguments = MergeAttnStates::Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= a.items() * a.dim) return;
    const int64_t d = index % a.dim;
    const int64_t row = index / a.dim % a.rows;
    const int64_t head = index / a.dim / a.rows % a.heads;
    const int64_t batch = index / a.dim / a.rows / a.heads;
    const auto at = [&](const Heads& heads) {
      return batch * heads.batch + head * heads.head + row * heads.row + d * heads.column;
    };
    const MergeWeights weights =
        MergeWeights::of(thread::load(a.lse_a.as<const float>() + at(a.lse_a)),
                         thread::load(a.lse_b.as<const float>() + at(a.lse_b)));
    const float of_a = to_float(thread::load(a.out_a.as<const T>() + at(a.out_a)));
    const float of_b = to_float(thread::load(a.out_b.as<const T>() + at(a.out_b)));
    thread::store(a.out.as<T>() + at(a.out), from_float<T>(weights.merge(of_a, of_b)));
    if (d == 0) thread::store(a.lse.as<float>() + at(a.lse), weights.lse);
  }
};

struct MergeNaive {
  static void run(const MergeAttnStates::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = MergeNaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.items() * call.dim, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};

inline constexpr Rung kMergeNaive = rung_of<MergeNaive, MergeAttnStates>({
    .name = "merge_naive",
    .idea = "a thread an element of two parts, weighed by their sums",
});

}  // namespace ws::attention
