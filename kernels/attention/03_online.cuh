// Idea: maximum, sum and what is gathered are kept together, key by key; when the maximum grows,
//   the others are scaled down (Milakov and Gimelshein's online softmax, with a row of values).
// From naive: one pass over the keys. No score is ever in memory, and there is no workspace.
// Traffic: a query reads all keys and all values once, its own row once a key.
// Limits: dense tensors, H = Hk, D = Dv up to 128, scores as they are (no bias, ALiBi, sinks,
//   softcap), seen whole or causally.
#pragma once

#include "kernels/attention/plain.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::attention {

template <class T, int kMostDim>
struct OnlineKernel {
  static constexpr int kThreads = 128;
  using Arguments = Plain<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= a.matrices * a.queries) return;
    const int64_t seen = a.seen(index % a.queries);
    const T* q = a.q + index * a.dim;
    const T* k = a.k + index / a.queries * a.keys * a.dim;
    const T* v = a.v + index / a.queries * a.keys * a.dim;

    // Of the keys so far: max of scores, sum of exp(score - max), the same sum of values.
    float max = -INFINITY;
    float sum = 0;
    float gathered[kMostDim] = {};
    for (int64_t j = 0; j < seen; ++j) {
      float score = 0;
      for (int64_t d = 0; d < a.dim; ++d) {
        score += to_float(thread::load(q + d)) * to_float(thread::load(k + j * a.dim + d));
      }
      score *= a.scale;
      const float highest = fmaxf(max, score);
      const float rescale = thread::exp(max - highest);  // of the first key: exp(-inf) = 0
      const float weight = thread::exp(score - highest);
      max = highest;
      sum = sum * rescale + weight;
      // All of the row's places are written out: registers have no index.
#pragma unroll
      for (int d = 0; d < kMostDim; ++d) {
        if (d < a.dim) {
          gathered[d] = gathered[d] * rescale + weight * to_float(thread::load(v + j * a.dim + d));
        }
      }
    }

#pragma unroll
    for (int d = 0; d < kMostDim; ++d) {
      if (d >= a.dim) break;
      thread::store(a.out + index * a.dim + d, from_float<T>(seen > 0 ? gathered[d] / sum : 0.0F));
    }
    thread::store(a.lse + index, max + thread::log(sum));
  }
};

struct Online {
  static constexpr int kMostDim = 128;

  static bool supports(const Attention::Call& call, Why& why) {
    return is_plain(call, why) && why.unless(call.head_dim <= kMostDim, "holds rows of up to ",
                                             kMostDim, " values, not ", call.head_dim);
  }

  template <class Kernel>
  static void run_kernel(const typename Kernel::Arguments& a, const Context& context) {
    launch<Kernel>({.blocks = divide_up(a.matrices * a.queries, Kernel::kThreads),
                    .threads = Kernel::kThreads},
                   context.stream, a);
  }
  static void run(const Attention::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Plain<T> a = plain_of<T>(call);
      if (a.dim <= 64) return run_kernel<OnlineKernel<T, 64>>(a, context);
      run_kernel<OnlineKernel<T, kMostDim>>(a, context);
    });
  }
};

inline constexpr Rung kOnline = rung_of<Online, Attention>({
    .name = "online",
    .from = "naive",
    .idea = "one pass: a maximum, a sum and a row that are scaled when the maximum grows",
});

}  // namespace ws::attention
