// Idea: a thread owns a query and follows the formula in three loops: its scores, their softmax,
//   and what it gathers of the values.
// Traffic: a query reads all keys and all values, and its row of scores, Sk floats, four times: for
//   2048 keys of 64 that is 3 MB a query where the query itself is 128 bytes.
// Limits: dense tensors, H = Hk, D = Dv, scores as they are (no bias, ALiBi, sinks, softcap), seen
//   whole or causally; Sq x Sk floats of workspace.
#pragma once

#include "kernels/attention/plain.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::attention {

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 128;
  struct Arguments : Plain<T> {
    float* scores;  // [matrices, queries, keys]
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= a.matrices * a.queries) return;
    const int64_t seen = a.seen(index % a.queries);
    const T* q = a.q + index * a.dim;
    const T* k = a.k + index / a.queries * a.keys * a.dim;
    const T* v = a.v + index / a.queries * a.keys * a.dim;
    float* scores = a.scores + index * a.keys;

    float max = -INFINITY;
    for (int64_t j = 0; j < seen; ++j) {
      float score = 0;
      for (int64_t d = 0; d < a.dim; ++d) {
        score += to_float(thread::load(q + d)) * to_float(thread::load(k + j * a.dim + d));
      }
      score *= a.scale;
      thread::store(scores + j, score);
      max = fmaxf(max, score);
    }

    float sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      const float weight = thread::exp(thread::load(scores + j) - max);
      thread::store(scores + j, weight);
      sum += weight;
    }

    for (int64_t d = 0; d < a.dim; ++d) {
      float gathered = 0;
      for (int64_t j = 0; j < seen; ++j) {
        gathered += thread::load(scores + j) * to_float(thread::load(v + j * a.dim + d));
      }
      thread::store(a.out + index * a.dim + d, from_float<T>(seen > 0 ? gathered / sum : 0.0F));
    }
    thread::store(a.lse + index, max + thread::log(sum));
  }
};

struct Naive {
  static bool supports(const Attention::Call& call, Why& why) { return is_plain(call, why); }

  static Workspace workspace(const Attention::Call& call) {
    const int64_t scores = call.batch * call.heads * call.queries * call.keys;
    return {.bytes = static_cast<size_t>(scores) * sizeof(float)};
  }

  static void run(const Attention::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.batch * call.heads * call.queries, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, {plain_of<T>(call), static_cast<float*>(context.workspace)});
    });
  }
};

inline constexpr Rung kNaive = rung_of<Naive, Attention>({
    .name = "naive",
    .idea = "a thread a query: its scores, their softmax, what it gathers of the values",
});

}  // namespace ws::attention
