// Idea: the formula, pair by pair. A thread of the first kernel owns a query and a key, and leaves
//   their weight and its gradient in memory; one of the second owns an element of dq, or one of dk
//   and of dv, and walks a row or a column of what the first has left.
// Traffic: each pair reads four rows, and is read D times from either side: for 2048 queries, keys
//   and D = 64 that is 2 GB of rows and 3 GB of pairs where the tensors are 2 MB.
// Limits: those of naive, no dlse and no dscores; two matrices of Sq x Sk floats of workspace a
//   head: fewer than 2^31 pairs in all, 17 GB.
#pragma once

#include "kernels/attention/backward.hpp"
#include "kernels/attention/plain.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::attention {

template <class T>
struct PlainBackward : Plain<T> {
  const T* dout;    // [matrices, queries, dim]
  T *dq, *dk, *dv;  // as q, k and v
  float* weights;   // [matrices, queries, keys]
  float* scores;    // the same: the gradients of scores
};

template <class T>
struct BackwardPairsKernel {
  static constexpr int kThreads = 128;
  using Arguments = PlainBackward<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= a.matrices * a.queries * a.keys) return;
    const int64_t j = index % a.keys;
    const int64_t query = index / a.keys;  // of all matrices
    const int64_t key = query / a.queries * a.keys + j;
    float weight = 0;
    float gradient = 0;
    if (j < a.seen(query % a.queries)) {
      float product = 0;
      for (int64_t d = 0; d < a.dim; ++d) {
        const float of_value = to_float(thread::load(a.v + key * a.dim + d));
        const float of_out = to_float(thread::load(a.out + query * a.dim + d));
        product += to_float(thread::load(a.q + query * a.dim + d)) *
                   to_float(thread::load(a.k + key * a.dim + d));
        gradient += to_float(thread::load(a.dout + query * a.dim + d)) * (of_value - of_out);
      }
      weight = thread::exp(product * a.scale - thread::load(a.lse + query));
    }
    thread::store(a.weights + index, weight);
    thread::store(a.scores + index, weight * gradient);
  }
};

template <class T>
struct BackwardProductsKernel {
  static constexpr int kThreads = 128;
  using Arguments = PlainBackward<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    int64_t index = block_index() * kThreads + thread_index();
    const int64_t of_queries = a.matrices * a.queries * a.dim;
    if (index < of_queries) {
      const int64_t query = index / a.dim;
      const T* k = a.k + query / a.queries * a.keys * a.dim + index % a.dim;
      const float* scores = a.scores + query * a.keys;
      float sum = 0;
      for (int64_t j = 0; j < a.keys; ++j) {
        sum += thread::load(scores + j) * to_float(thread::load(k + j * a.dim));
      }
      thread::store(a.dq + index, from_float<T>(sum * a.scale));
      return;
    }
    index -= of_queries;
    if (index >= a.matrices * a.keys * a.dim) return;
    const int64_t key = index / a.dim;
    const int64_t matrix = key / a.keys;
    const int64_t column = matrix * a.queries * a.dim + index % a.dim;
    const int64_t pair = matrix * a.queries * a.keys + key % a.keys;
    float of_key = 0;
    float of_value = 0;
    for (int64_t i = 0; i < a.queries; ++i) {
      const float q = to_float(thread::load(a.q + column + i * a.dim));
      const float dout = to_float(thread::load(a.dout + column + i * a.dim));
      of_key += thread::load(a.scores + pair + i * a.keys) * q;
      of_value += thread::load(a.weights + pair + i * a.keys) * dout;
    }
    thread::store(a.dk + index, from_float<T>(of_key * a.scale));
    thread::store(a.dv + index, from_float<T>(of_value));
  }
};

struct BackwardNaive {
  static bool supports(const BackwardCall& call, Why& why) {
    return is_plain(call, why) && is_dense("dout", call, call.dout, call.queries, why) &&
           is_dense("dq", call, call.dq, call.queries, why) &&
           is_dense("dk", call, call.dk, call.keys, why) &&
           is_dense("dv", call, call.dv, call.keys, why) &&
           why.unless(pairs_of(call) < int64_t{1} << 31, "takes fewer than 2^31 pairs, not ",
                      pairs_of(call)) &&
           why.unless(call.dlse.data == nullptr, "takes no dlse") &&
           why.unless(call.dscores.data == nullptr, "gives no dscores");
  }

  static Workspace workspace(const BackwardCall& call) {
    return {.bytes = 2 * sizeof(float) * static_cast<size_t>(pairs_of(call))};
  }

  static void run(const BackwardCall& call, const Context& context) {
    auto* const weights = static_cast<float*>(context.workspace);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const PlainBackward<T> a{plain_of<T>(call),       call.dout.as<const T>(), call.dq.as<T>(),
                               call.dk.as<T>(),         call.dv.as<T>(),         weights,
                               weights + pairs_of(call)};
      launch_of<BackwardPairsKernel<T>>(a, pairs_of(call), context.stream);
      launch_of<BackwardProductsKernel<T>>(a, a.matrices * (a.queries + a.keys) * a.dim,
                                           context.stream);
    });
  }

 private:
  static int64_t pairs_of(const Call& call) {
    return call.batch * call.heads * call.queries * call.keys;
  }
  template <class Kernel>
  static void launch_of(const typename Kernel::Arguments& a, int64_t threads, Stream stream) {
    if (threads == 0) return;
    launch<Kernel>({.blocks = divide_up(threads, Kernel::kThreads), .threads = Kernel::kThreads},
                   stream, a);
  }
};

inline constexpr Rung kBackwardNaive = rung_of<BackwardNaive, AttentionBackward>({
    .name = "backward_naive",
    .idea = "weights and their gradients pair by pair in memory, then three products",
});

}  // namespace ws::attention
