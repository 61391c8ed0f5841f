// What the kernels of this family share of a walk: the decay of a step, and how a rung that can
// walk becomes a gradient: dq is a walk forwards, dk and dv are walks from the last step to the
// first, with the roles of q, k, v and dout exchanged.
//
//   dq[t] = scale * state[t] dout[t]:  "q" is dout, "k" is v, "v" is k; the state is transposed
//   dk[t] = dstate[t] v[t]:            "q" is v, "k" is dout, "v" is q
//   dv[t] = dstate[t]^T k[t]:          "q" is k, "k" is q, "v" is dout
#pragma once

#include <algorithm>
#include <utility>

#include "kernels/linear_attention/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::linear_attention {

// ---- On the device ----------------------------------------------------------------------------

#if WS_DEVICE_CODE
// Powers of two that a decay is cut off at: 2^-200 of an f32 is 0, and differences of sums of these
// are never those of infinities.
inline constexpr float kLeastDecay = -200;

// log2 of what log_decay[t] says. NaN stays NaN.
__device__ __forceinline__ float log2_decay(const Numbers& log_decay, int64_t batch, int64_t head,
                                            int64_t t WS_AND_PLACE) {
  if (log_decay.data == nullptr) return 0;
  const float log2 = thread::load(log_decay.at(batch, head, t) WS_PASS_AND_PLACE) * thread::kLog2E;
  return log2 < kLeastDecay ? kLeastDecay : log2;
}
// log2 of what the state is times before step t.
__device__ __forceinline__ float log2_decay(const Walk& walk, int64_t batch, int64_t head,
                                            int64_t t WS_AND_PLACE) {
  if (walk.shifted && t == 0) return 0;
  return log2_decay(walk.log_decay, batch, head, t WS_PASS_AND_PLACE);
}
// What the final state is times.
__device__ __forceinline__ float last_decay(const Walk& walk, int64_t batch,
                                            int64_t head WS_AND_PLACE) {
  if (!walk.shifted || walk.steps == 0) return 1;
  return thread::exp2(log2_decay(walk, batch, head, walk.steps WS_PASS_AND_PLACE));
}
#endif

// ---- Gradients --------------------------------------------------------------------------------

// Where a backward's parts lie in its workspace, bytes from its beginning. Of dlog_decay that is
// <q, dq> - <k, dk> of each step, from dq and dk in f32: from rounded ones it, a sum over all
// steps, would be a random walk of rounding errors. Either walks find these dots before they round,
// or dq and dk of 16 bits stand in the workspace in f32 first.
struct BackwardPlan {
  BackwardPlan(const BackwardCall& call, bool walks_find_dots);

  bool has_dots;     // dlog_decay is wanted
  bool finds_dots;   // the walks do
  bool is_exact;     // dq and dk are f32 first
  bool has_final;    // dfinal_state says something of decays
  int64_t rows = 0;  // heads times steps
  // Parts of a row's dot: those of q and dq, to be added, then those of k and dk, to be taken away.
  int64_t added = 0, taken = 0;
  size_t dq = 0, dk = 0, dots = 0, final = 0;
  size_t walk = 0;  // of the rung's own
};

// The three walks; dq and dk to f32 in the workspace, or with their dots, as the plan says.
struct BackwardWalks {
  BackwardWalks(const BackwardCall& call, const BackwardPlan& plan, void* workspace);
  Walk dq, dk, dv;
};

// dlog_decay, and dq and dk rounded where they are f32 in the workspace. backward_dots.cu
void finish_backward(const BackwardCall& call, const BackwardPlan& plan, const Context& context);

// The part of a workspace from `offset` on.
inline Context part_of(const Context& context, size_t offset) {
  return {.stream = context.stream,
          .workspace = static_cast<std::byte*>(context.workspace) + offset};
}

// Of a rung that computes a walk: walk(dtype, dtype of out, walk, context), which needs
// workspace_of_walk(walk) bytes. kFindsDots: it also finds Walk::dots, and its out is of dtype.
template <class Rung>
struct BackwardBy {
  static constexpr bool kFindsDots = false;

  static Workspace workspace(const BackwardCall& call) {
    Walk of_keys{.batch = call.batch, .heads = call.heads, .steps = call.steps};
    of_keys.dim = call.value_dim;
    of_keys.value_dim = call.dim;
    Walk of_values = of_keys;
    std::swap(of_values.dim, of_values.value_dim);
    return {.bytes =
                BackwardPlan(call, Rung::kFindsDots).walk +
                std::max(Rung::workspace_of_walk(of_keys), Rung::workspace_of_walk(of_values))};
  }
  static void run(const BackwardCall& call, const Context& context) {
    if (call.matrices() == 0) return;
    const BackwardPlan plan(call, Rung::kFindsDots);
    const BackwardWalks walks(call, plan, context.workspace);
    const Context own = part_of(context, plan.walk);
    const DType exact = plan.is_exact ? DType::kF32 : call.dtype;
    Rung::walk(call.dtype, exact, walks.dq, own);
    Rung::walk(call.dtype, exact, walks.dk, own);
    Rung::walk(call.dtype, call.dtype, walks.dv, own);
    finish_backward(call, plan, context);
  }

 private:
  friend Rung;
  BackwardBy() = default;
};

// f<T, Out>(): outputs of the inputs' dtype, or f32.
template <DTypes kTaken, class F>
void with_types(DType dtype, DType out, F&& f) {
  with_type<kTaken>(dtype, [&]<class T>() {
    if (out == dtype) return f.template operator()<T, T>();
    f.template operator()<T, float>();
  });
}

}  // namespace ws::linear_attention
