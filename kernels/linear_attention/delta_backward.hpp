// What the gradients of the delta rule share: where they keep what their walks leave each other,
// and the sums of each step that come after the walks.
//
//   error[t]  = v[t] - before[t]^T k[t]         before[t] = e^log_decay[t] state[t - 1]
//   dadded[t] = dstate[t]^T k[t]                of beta[t] error[t], which the step adds
//   dv[t] = beta[t] dadded[t]                   dbeta[t] = <error[t], dadded[t]>
//   dq[t] = scale state[t] dout[t]              dk[t] = dstate[t] beta[t] error[t] - before[t]
//   dv[t]
#pragma once

#include "kernels/linear_attention/walk.hpp"

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

}  // namespace ws::linear_attention
