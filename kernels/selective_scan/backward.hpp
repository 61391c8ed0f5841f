// What the gradient's rungs share: sums over what they leave for channels and groups, in an order
// that is always the same.
#pragma once

#include "kernels/selective_scan/formula.hpp"

namespace ws::selective_scan {

// Of lines, f32 [parts, N + 2, batch * dim]: gradients of a, then of d and of delta_bias.
inline int64_t line_sums(const BackwardCall& call, int64_t parts) {
  return parts * (call.states + 2) * call.rows();
}
// Of groups, f32 [2, batch, groups, shares, N, L]: gradients of b, then of c.
inline int64_t group_sums(const BackwardCall& call, int64_t shares) {
  return 2 * call.batch * call.groups * shares * call.states * call.length;
}

#if WS_DEVICE_CODE

// A thread an element of da and dchannel.
struct SumLinesKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    BackwardCall call;
    const float* sums;
    int64_t parts;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t at = block_index() * kThreads + thread_index();
    const int64_t which = at / call.dim;
    const int64_t channel = at - which * call.dim;
    if (which >= call.states + 2) return;
    float sum = 0;
    for (int64_t part = 0; part < a.parts; ++part) {
      const float* from = a.sums + (part * (call.states + 2) + which) * call.rows() + channel;
#pragma unroll 4
      for (int64_t batch = 0; batch < call.batch; ++batch) {
        sum += thread::load(from + batch * call.dim);
      }
    }
    const bool is_a = which < call.states;
    const Operand& to = is_a ? call.da : call.dchannel;
    thread::store(to.at<float>(0, channel) + (is_a ? which : which - call.states) * to.state, sum);
  }
};

// A thread an element of db and the same of dc.
template <class T>
struct SumGroupsKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    BackwardCall call;
    const float* sums;
    int64_t shares;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t at = block_index() * kThreads + thread_index();
    const int64_t size = call.states * call.length;  // of a group
    const int64_t group_at = at / size;
    if (group_at >= call.batch * call.groups) return;
    const int64_t within = at - group_at * size;
    const float* from = a.sums + group_at * a.shares * size + within;
    const int64_t of_c = call.batch * call.groups * a.shares * size;
    float db = 0;
    float dc = 0;
#pragma unroll 4
    for (int64_t i = 0; i < a.shares; ++i) {
      db += thread::load(from + i * size);
      dc += thread::load(from + of_c + i * size);
    }
    const int64_t batch = group_at / call.groups;
    const int64_t group = group_at - batch * call.groups;
    const int64_t state = within / call.length;
    const int64_t step = within - state * call.length;
    thread::store(call.db.at<T>(batch, group) + state * call.db.state + step * call.db.step,
                  from_float<T>(db));
    thread::store(call.dc.at<T>(batch, group) + state * call.dc.state + step * call.dc.step,
                  from_float<T>(dc));
  }
};

template <class T>
void add_up(const BackwardCall& call, const float* of_lines, int64_t parts, const float* of_groups,
            int64_t shares, Stream stream) {
  if (call.dim > 0) {
    launch<SumLinesKernel>(
        {.blocks = divide_up((call.states + 2) * call.dim, int64_t{SumLinesKernel::kThreads}),
         .threads = SumLinesKernel::kThreads},
        stream, {call, of_lines, parts});
  }
  const int64_t elements = call.batch * call.groups * call.states * call.length;
  if (elements == 0) return;
  using Kernel = SumGroupsKernel<T>;
  launch<Kernel>(
      {.blocks = divide_up(elements, int64_t{Kernel::kThreads}), .threads = Kernel::kThreads},
      stream, {call, of_groups, shares});
}

// A state of a channel; 0 where there is none.
__device__ __forceinline__ float state_of(const Operand& states, int64_t batch, int64_t channel,
                                          int64_t n) {
  return states.exists ? thread::load(states.at<const float>(batch, channel) + n * states.state)
                       : 0.0F;
}

// A step's output, without and with its gate, where there is one: what comes back through it.
struct Gate {
  float dy;
  float of_gate;  // times y: the gradient of z

  __device__ __forceinline__ Gate(float g, bool exists, float z) : dy(g), of_gate(0) {
    if (!exists) return;
    const float open = thread::sigmoid(z);
    dy = g * z * open;
    of_gate = g * open * thread::fma(z, 1 - open, 1.0F);
  }
};

#endif

}  // namespace ws::selective_scan
