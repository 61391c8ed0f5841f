// Idea: a thread a channel walks its steps there, keeping the states of each step in memory, and
// back. What it adds to b and c of its group lies beside what the other channels add, and is added
// up by a second kernel: the same bits in each run, where atomics would come as they may.
// From naive: the gradient.
// Traffic: three f32 a state and step written and read once more, which is most of it.
// Limits: up to 16 states; as much memory for each state as f32s of u would take, twice.
// Long: there, back, and the gradients of states, written out.
#include "kernels/selective_scan/backward.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {
namespace {

template <class T>
struct BackwardNaiveKernel {
  static constexpr int kThreads = 64;
  static constexpr int kStates = 16;
  struct Arguments {
    BackwardCall call;
    float* of_groups;  // a share a channel; of c first the states
    float* of_lines;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= call.rows()) return;
    const int64_t batch = row / call.dim;
    const int64_t channel = row % call.dim;
    const int64_t group = channel / call.channels_of_group();
    const int64_t size = call.states * call.length;
    float* of_b = a.of_groups + row * size;
    float* of_c = of_b + call.rows() * size;
    const auto at = [&](const Operand& operand, int64_t t) {
      return to_float(thread::load(operand.at<const T>(batch, channel) + t * operand.step));
    };
    const auto of_group = [&](const Operand& operand, int n, int64_t t) {
      return to_float(
          thread::load(operand.at<const T>(batch, group) + n * operand.state + t * operand.step));
    };
    const float d = of_channel(call.d, channel, 0);
    const float bias = of_channel(call.delta_bias, channel, 0);
    const auto exponent = [&](int n) {
      return thread::load(call.a.at<const float>(0, channel) + n * call.a.state);
    };

    float x[kStates] = {};
#pragma unroll
    for (int n = 0; n < kStates; ++n) {
      if (n < call.states) x[n] = state_of(call.initial_state, batch, channel, n);
    }
    for (int64_t t = 0; t < call.length; ++t) {
      const float raw = at(call.delta, t) + bias;
      const float step = call.softplus ? softplus(raw) : raw;
      const float input = at(call.u, t);
#pragma unroll
      for (int n = 0; n < kStates; ++n) {
        if (n >= call.states) continue;
        x[n] = thread::exp(step * exponent(n)) * x[n] + step * of_group(call.b, n, t) * input;
        thread::store(of_c + n * call.length + t, x[n]);
      }
    }

    float later[kStates] = {};  // what the steps behind make of a state
#pragma unroll
    for (int n = 0; n < kStates; ++n) {
      if (n < call.states) later[n] = state_of(call.dlast_state, batch, channel, n);
    }
    float da[kStates] = {};
    float dd = 0;
    float dbias = 0;
    for (int64_t t = call.length - 1; t >= 0; --t) {
      const float raw = at(call.delta, t) + bias;
      const float step = call.softplus ? softplus(raw) : raw;
      const float input = at(call.u, t);
      const Gate gate(at(call.g, t), call.z.exists, call.z.exists ? at(call.z, t) : 0.0F);
      float y = d * input;
      float du = d * gate.dy;
      float of_step = 0;
#pragma unroll
      for (int n = 0; n < kStates; ++n) {
        if (n >= call.states) continue;
        const float b = of_group(call.b, n, t);
        const float c = of_group(call.c, n, t);
        const float now = thread::load(of_c + n * call.length + t);
        const float before = t > 0 ? thread::load(of_c + n * call.length + t - 1)
                                   : state_of(call.initial_state, batch, channel, n);
        const float decay = thread::exp(step * exponent(n));
        const float kept = decay * before;
        const float h = c * gate.dy + later[n];
        y += c * now;
        du += h * step * b;
        of_step += h * (exponent(n) * kept + b * input);
        da[n] += h * step * kept;
        later[n] = decay * h;
        thread::store(of_c + n * call.length + t, gate.dy * now);
        thread::store(of_b + n * call.length + t, h * step * input);
      }
      const float ddelta = call.softplus ? of_step * thread::sigmoid(raw) : of_step;
      dd += gate.dy * input;
      dbias += ddelta;
      put(call.du, batch, channel, t, du);
      put(call.ddelta, batch, channel, t, ddelta);
      if (call.z.exists) put(call.dz, batch, channel, t, gate.of_gate * y);
    }
#pragma unroll
    for (int n = 0; n < kStates; ++n) {
      if (n >= call.states) continue;
      thread::store(a.of_lines + n * call.rows() + row, da[n]);
      if (!call.dinitial_state.exists) continue;
      thread::store(call.dinitial_state.at<float>(batch, channel) + n * call.dinitial_state.state,
                    later[n]);
    }
    thread::store(a.of_lines + call.states * call.rows() + row, dd);
    thread::store(a.of_lines + (call.states + 1) * call.rows() + row, dbias);
  }

  __device__ __forceinline__ static void put(const Operand& to, int64_t batch, int64_t channel,
                                             int64_t t, float value) {
    thread::store(to.at<T>(batch, channel) + t * to.step, from_float<T>(value));
  }
};

struct BackwardNaive {
  static bool supports(const BackwardCall& call, Why& why) {
    return why.unless(call.states <= BackwardNaiveKernel<float>::kStates,
                      "holds up to 16 states in registers, not ", call.states);
  }
  static Workspace workspace(const BackwardCall& call) {
    const int64_t floats = group_sums(call, call.channels_of_group()) + line_sums(call, 1);
    return {.bytes = static_cast<size_t>(floats) * sizeof(float)};
  }
  static void run(const BackwardCall& call, const Context& context) {
    auto* of_groups = static_cast<float*>(context.workspace);
    float* of_lines = of_groups + group_sums(call, call.channels_of_group());
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardNaiveKernel<T>;
      if (call.rows() > 0) {
        launch<Kernel>({.blocks = divide_up(call.rows(), int64_t{Kernel::kThreads}),
                        .threads = Kernel::kThreads},
                       context.stream, {call, of_groups, of_lines});
      }
      add_up<T>(call, of_lines, 1, of_groups, call.channels_of_group(), context.stream);
    });
  }
};

}  // namespace

extern const Rung kBackwardNaive;
const Rung kBackwardNaive = rung_of<BackwardNaive, SelectiveScanBackward>(
    {.name = "backward_naive",
     .from = "naive",
     .idea = "a thread a channel walks its steps there and back"});

}  // namespace ws::selective_scan
#endif
