// What the gradients of the delta rule share: where they keep what their walks leave each other,
// and the sums of each step that come after the walks.
//
//   error[t]  = v[t] - before[t]^T k[t]         before[t] = e^log_decay[t] state[t - 1]
//   dadded[t] = dstate[t]^T k[t]                of beta[t] error[t], which the step adds
//   dv[t] = beta[t] dadded[t]                   dbeta[t] = <error[t], dadded[t]>
//   dq[t] = scale state[t] dout[t]              dk[t] = dstate[t] beta[t] error[t] - before[t]
//   dv[t]
#pragma once

#include "kernels/linear_attention/chunk.hpp"

namespace ws::linear_attention {

// Parts of a workspace, in f32. Rows that are not kept have no data.
struct DeltaBackwardParts {
  DeltaBackwardParts(const DeltaBackwardCall& call, void* workspace);

  Rows errors, dadded;  // [steps, value_dim]
  Rows before;          // [steps, dim]: what dk has of the states before its steps
  Rows dq;              // [steps, dim]: where the call's is of 16 bits and its dots are wanted
  float* final;         // [matrices, value_dim, dim]: where dfinal_state says something of decays
  float* dots;          // [matrices, steps]: where dlog_decay is wanted
  size_t bytes = 0;
};

// dbeta and dlog_decay, and dq rounded where it is f32 in the workspace. backward_dots.cu
void finish_delta_backward(const DeltaBackwardCall& call, const DeltaBackwardParts& parts,
                           Stream stream);

// What the rung on tensor cores has of its two walks, each of the delta rule. Parts of a workspace
// are of the call's dtype.
struct DeltaBackwardWalks {
  DeltaBackwardWalks(const DeltaBackwardCall& call, void* workspace);

  Walk errors;  // there, by keys
  Walk added;   // back, by keys: outputs are dadded
  Rows dadded;  // the same from the first step on
  Rows dv;      // what steps take off, back: from the last step
  // Before each chunk of either walk: [matrices, chunks, ceil(value_dim / 64), tile of a state].
  void* states;
  void* gradients;
  // Of states of more than 128 rows or columns, where dlog_decay is wanted: its parts,
  // [ceil(dim / 64), matrices, steps].
  float* decays = nullptr;
  // Of the last chunk, which is the first of `added`: chunks are the same steps in both walks.
  int last_steps;
  size_t own = 0;  // where what walks need for themselves begins

  // The walk whose keys the inverses of `added` are of.
  Walk keys_back() const {
    Walk keys = added;
    keys.k = added.q;
    return keys;
  }
};

// dq, dk, dbeta and dlog_decay of each chunk, from what the walks gave. delta_gradients.cu
void find_delta_gradients(const DeltaBackwardCall& call, const DeltaBackwardWalks& walks,
                          Stream stream);

}  // namespace ws::linear_attention
