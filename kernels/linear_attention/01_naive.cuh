// Idea: a thread owns a column of a head's state, which lies in memory, and follows the formula:
//   each step decays it, adds to it, and asks it.
// Traffic: each step reads and writes the whole state, D x M floats: 32 KB for 64 x 64 where q, k,
//   v and out of a step are 512 bytes. It stays in L1 and L2.
// Limits: as many threads as there are columns of states, and as many dependent steps as S.
#pragma once

#include "kernels/linear_attention/walk.hpp"

namespace ws::linear_attention {

#if WS_DEVICE_CODE
struct NaiveArguments : Walk {
  float* states;  // [matrices, dim, value_dim]
};

template <class T, class Out, bool kDelta>
struct NaiveKernel {
  static constexpr int kThreads = 64;
  using Arguments = NaiveArguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= a.matrices() * a.value_dim) return;
    const int64_t m = index % a.value_dim;
    const int64_t batch = index / a.value_dim / a.heads;
    const int64_t head = index / a.value_dim % a.heads;
    float* const state = a.states + index / a.value_dim * a.dim * a.value_dim + m;

    for (int64_t d = 0; d < a.dim; ++d) {
      const bool begins = a.initial.data != nullptr;
      thread::store(state + d * a.value_dim,
                    begins ? thread::load(a.initial.at(batch, head, d, m)) : 0.0F);
    }
    for (int64_t t = 0; t < a.steps; ++t) {
      const T* const q = a.q.at<const T>(batch, head, t);
      const T* const k = a.k.at<const T>(batch, head, t);
      const float decay = thread::exp2(log2_decay(a, batch, head, t));
      float v = to_float(thread::load(a.v.at<const T>(batch, head, t) + m * a.v.column));
      if constexpr (kDelta) {
        float said = 0;  // what the state says of this key already
        for (int64_t d = 0; d < a.dim; ++d) {
          said += to_float(thread::load(k + d * a.k.column)) *
                  (decay * thread::load(state + d * a.value_dim));
        }
        v = thread::load(a.beta.at(batch, head, t)) * (v - said);
      }
      float sum = 0;
      for (int64_t d = 0; d < a.dim; ++d) {
        const float key = a.scale_in * to_float(thread::load(k + d * a.k.column));
        const float now = decay * thread::load(state + d * a.value_dim) + key * v;
        thread::store(state + d * a.value_dim, now);
        sum += to_float(thread::load(q + d * a.q.column)) * now;
      }
      thread::store(a.out.at<Out>(batch, head, t) + m * a.out.column,
                    from_float<Out>(a.scale_out * sum));
    }
    if (a.final.data == nullptr) return;
    const float decay = last_decay(a, batch, head);
    for (int64_t d = 0; d < a.dim; ++d) {
      thread::store(a.final.at(batch, head, d, m), decay * thread::load(state + d * a.value_dim));
    }
  }
};

struct Naive : BackwardBy<Naive> {
  using BackwardBy<Naive>::run, BackwardBy<Naive>::workspace;

  static size_t workspace_of_walk(const Walk& walk) {
    return static_cast<size_t>(walk.state_elements()) * sizeof(float);
  }
  static Workspace workspace(const Call& call) { return {.bytes = workspace_of_walk(call.walk)}; }

  template <class T, class Out, bool kDelta>
  static void walk_of(const Walk& walk, const Context& context) {
    using Kernel = NaiveKernel<T, Out, kDelta>;
    launch<Kernel>({.blocks = divide_up(walk.matrices() * walk.value_dim, Kernel::kThreads),
                    .threads = Kernel::kThreads},
                   context.stream, {walk, static_cast<float*>(context.workspace)});
  }
  static void walk(DType dtype, DType out, const Walk& walk, const Context& context) {
    with_types<kFloats>(dtype, out,
                        [&]<class T, class Out>() { walk_of<T, Out, false>(walk, context); });
  }
  static void run(const LinearAttention::Call& call, const Context& context) {
    if (call.walk.matrices() > 0) walk(call.dtype, call.dtype, call.walk, context);
  }
  static void run(const DeltaRule::Call& call, const Context& context) {
    if (call.walk.matrices() == 0) return;
    with_type<kFloats>(call.dtype, [&]<class T>() { walk_of<T, T, true>(call.walk, context); });
  }
};

inline constexpr Rung kNaive = rung_of<Naive, LinearAttention, LinearAttentionBackward, DeltaRule>(
    {.name = "naive", .idea = "a thread a column of the state, which lies in memory"});
#endif

}  // namespace ws::linear_attention
