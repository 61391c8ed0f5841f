// What is left of a gradient after its three walks: <q, dq> - <k, dk> of each step, and their sums
// from the last step on, which are dlog_decay.
#include "kernels/linear_attention/walk.hpp"
#include "warpsmith/block/scan.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::linear_attention {
namespace {

// Of the workspace's parts, each at a multiple of 256 bytes.
size_t take(size_t& offset, int64_t elements) {
  const size_t at = offset;
  offset = round_up(offset + static_cast<size_t>(elements) * sizeof(float), size_t{256});
  return at;
}

// Some bytes further on, also from nowhere: calls are asked about before they have memory.
std::byte* moved(void* from, int64_t bytes) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(from) +
                                      static_cast<uintptr_t>(bytes));
}

Rows f32_rows(const BackwardCall& call, void* data) {
  return {.data = data,
          .batch = call.heads * call.steps * call.dim,
          .head = call.steps * call.dim,
          .row = call.dim,
          .column = 1};
}

Rows reversed(Rows rows, int64_t steps, size_t element_bytes) {
  if (steps > 0) {
    rows.data = moved(rows.data, (steps - 1) * rows.row * static_cast<int64_t>(element_bytes));
  }
  rows.row = -rows.row;
  return rows;
}
Numbers reversed(Numbers numbers, int64_t steps) {
  if (numbers.data != nullptr) {
    numbers.data = reinterpret_cast<float*>(
        moved(numbers.data, steps * numbers.row * static_cast<int64_t>(sizeof(float))));
  }
  numbers.row = -numbers.row;
  return numbers;
}
States transposed(States states) {
  std::swap(states.row, states.column);
  return states;
}

#if WS_DEVICE_CODE
template <class F>
__device__ __forceinline__ float warp_sum(int64_t count, const F& term) {
  float sum = 0;
  for (int64_t i = lane_index(); i < count; i += kWarpSize) sum += term(i);
  return warp::all_reduce(sum, [](float a, float b) { return a + b; });
}

// A warp a step.
template <class T>
struct DotsKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    BackwardCall call;
    Rows dq, dk;  // of f32
    float* dots;  // [matrices, steps]
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t index = block_index() * (kThreads / kWarpSize) + warp_index();
    if (index >= call.matrices() * call.steps) return;
    const int64_t batch = index / call.steps / call.heads;
    const int64_t head = index / call.steps % call.heads;
    const int64_t t = index % call.steps;
    const auto dot = [&](const Rows& rows, const Rows& exact, const Rows& out) {
      const T* const row = rows.at<const T>(batch, head, t);
      const float* const gradient = exact.at<const float>(batch, head, t);
      T* const rounded = out.at<T>(batch, head, t);
      return warp_sum(call.dim, [&](int64_t d) {
        const float value = thread::load(gradient + d * exact.column);
        if constexpr (!std::is_same_v<T, float>) {
          thread::store(rounded + d * out.column, from_float<T>(value));
        }
        return to_float(thread::load(row + d * rows.column)) * value;
      });
    };
    const float sum = dot(call.q, a.dq, call.dq) - dot(call.k, a.dk, call.dk);
    if (lane_index() == 0) thread::store(a.dots + index, sum);
  }
};

// A block a head, from the last step to the first.
struct SumsKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    BackwardCall call;
    const float* dots;   // [matrices, steps]
    const float* final;  // [matrices, value_dim, dim]; null: dfinal_state is none
  };
  using Scan = block::ScanOfWarps<float, kThreads>;
  struct SharedStorage {
    typename Scan::Storage scan;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t batch = block_index() / call.heads;
    const int64_t head = block_index() % call.heads;
    const auto add = [](float x, float y) { return x + y; };
    Scan scan(shared.scan);
    float after = 0;
    if (a.final != nullptr) {
      const float* const final = a.final + block_index() * call.dim * call.value_dim;
      float sum = 0;
      for (int64_t i = thread_index(); i < call.dim * call.value_dim; i += kThreads) {
        sum += thread::load(final + i) *
               thread::load(call.dfinal.at(batch, head, i % call.dim, i / call.dim));
      }
      after = scan(warp::all_reduce(sum, add), 0.0F, add).total;
    }
    const float* const dots = a.dots + block_index() * call.steps;
    for (int64_t first = 0; first < call.steps; first += kThreads) {
      const int64_t t = call.steps - 1 - first - thread_index();
      const float scanned = warp::inclusive_scan(t >= 0 ? thread::load(dots + t) : 0.0F, add);
      const float whole = warp::shuffle(scanned, kWarpSize - 1, kFullMask);
      const auto warps = scan(whole, 0.0F, add);
      if (t >= 0) {
        thread::store(call.dlog_decay.at(batch, head, t), after + (warps.before + scanned));
      }
      after += warps.total;
    }
  }
};
#endif

}  // namespace

BackwardPlan::BackwardPlan(const BackwardCall& call)
    : has_dots(call.has_decay),
      is_exact(has_dots && size_of(call.dtype) < sizeof(float)),
      has_final(has_dots && call.has_dfinal) {
  const int64_t rows = call.matrices() * call.steps;
  if (is_exact) {
    dq = take(walk, rows * call.dim);
    dk = take(walk, rows * call.dim);
  }
  if (has_dots) dots = take(walk, rows);
  if (has_final) final = take(walk, call.matrices() * call.dim * call.value_dim);
}

BackwardWalks::BackwardWalks(const BackwardCall& call, const BackwardPlan& plan, void* workspace) {
  const auto at = [&](size_t offset) { return moved(workspace, static_cast<int64_t>(offset)); };
  const size_t bytes = size_of(call.dtype);
  const size_t exact_bytes = plan.is_exact ? sizeof(float) : bytes;
  const Rows exact_dq = plan.is_exact ? f32_rows(call, at(plan.dq)) : call.dq;
  const Rows exact_dk = plan.is_exact ? f32_rows(call, at(plan.dk)) : call.dk;

  Walk walk{.batch = call.batch, .heads = call.heads, .steps = call.steps};
  walk.log_decay = call.log_decay;
  dq = dk = dv = walk;
  dq.dim = dk.dim = call.value_dim;
  dq.value_dim = dk.value_dim = call.dim;
  dq.q = call.dout;
  dq.k = call.v;
  dq.v = call.k;
  dq.out = exact_dq;
  dq.initial = transposed(call.initial);
  dq.scale_out = call.scale;
  if (plan.has_final) {
    dq.final = {.data = reinterpret_cast<float*>(at(plan.final)),
                .batch = call.heads * call.dim * call.value_dim,
                .head = call.dim * call.value_dim,
                .row = call.dim};
  }

  const auto backwards = [&](const Rows& rows) { return reversed(rows, call.steps, bytes); };
  for (Walk* back : {&dk, &dv}) {
    back->log_decay = reversed(call.log_decay, call.steps);
    back->scale_in = call.scale;
    back->shifted = true;
  }
  dk.q = backwards(call.v);
  dk.k = backwards(call.dout);
  dk.v = backwards(call.q);
  dk.out = reversed(exact_dk, call.steps, exact_bytes);
  dk.initial = transposed(call.dfinal);
  dv.dim = call.dim;
  dv.value_dim = call.value_dim;
  dv.q = backwards(call.k);
  dv.k = backwards(call.q);
  dv.v = backwards(call.dout);
  dv.out = backwards(call.dv);
  dv.initial = call.dfinal;
  dv.final = call.dinitial;
}

#if WS_DEVICE_CODE
void finish_backward(const BackwardCall& call, const BackwardPlan& plan, const Context& context) {
  const int64_t rows = call.matrices() * call.steps;
  if (!plan.has_dots || rows == 0) return;
  const auto at = [&](size_t offset) {
    return reinterpret_cast<float*>(static_cast<std::byte*>(context.workspace) + offset);
  };
  with_type<kFloats>(call.dtype, [&]<class T>() {
    using Kernel = DotsKernel<T>;
    launch<Kernel>(
        {.blocks = divide_up(rows, Kernel::kThreads / kWarpSize), .threads = Kernel::kThreads},
        context.stream,
        {call, plan.is_exact ? f32_rows(call, at(plan.dq)) : call.dq,
         plan.is_exact ? f32_rows(call, at(plan.dk)) : call.dk, at(plan.dots)});
  });
  launch<SumsKernel>({.blocks = call.matrices(), .threads = SumsKernel::kThreads}, context.stream,
                     {call, at(plan.dots), plan.has_final ? at(plan.final) : nullptr});
}
#endif

}  // namespace ws::linear_attention
