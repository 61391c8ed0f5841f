// What is left of a gradient after its walks: <q, dq> - <k, dk> of each step, where they have not
// found it, of the delta rule <q, dq> - <v, dv> and dbeta, and the dots' sums from the last step
// on, which are dlog_decay.
#include "kernels/linear_attention/delta_backward.hpp"
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

Rows dense_rows(const BackwardCall& call, int64_t columns, void* data) {
  return {.data = data,
          .batch = call.heads * call.steps * columns,
          .head = call.steps * columns,
          .row = columns,
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
// What kernels share that have a warp for each step of each head.
struct WarpAStep {
  static constexpr int kThreads = 256;
  static constexpr int kSteps = kThreads / kWarpSize;  // of a block
  struct SharedStorage {};
};
template <class Kernel>
void launch_steps(const typename Kernel::Arguments& a, Stream stream) {
  launch<Kernel>({.blocks = divide_up(a.call.matrices() * a.call.steps, Kernel::kSteps),
                  .threads = Kernel::kThreads},
                 stream, a);
}

// The step of this warp.
struct StepPlace {
  int64_t index, batch, head, t;
  bool exists;

  __device__ __forceinline__ explicit StepPlace(const BackwardCall& call)
      : index(block_index() * WarpAStep::kSteps + warp_index()),
        batch(index / call.steps / call.heads),
        head(index / call.steps % call.heads),
        t(index % call.steps),
        exists(index < call.matrices() * call.steps) {}
  template <class T>
  __device__ __forceinline__ T* of(const Rows& rows) const {
    return rows.at<T>(batch, head, t);
  }
};

// The dot of a step's row of T and one of f32; a warp has it in all lanes. `out`: where the second
// goes, rounded to T. A lane's numbers are all asked for before one is stored.
template <class T>
__device__ __forceinline__ float dot_of_rows(const StepPlace& at, int64_t columns, const Rows& rows,
                                             const Rows& exact, const Rows* out = nullptr) {
  constexpr int kLoads = 4;
  const T* const row = at.of<const T>(rows);
  const float* const gradient = at.of<const float>(exact);
  float sum = 0;
  for (int64_t first = lane_index(); first < columns; first += kLoads * kWarpSize) {
    float values[kLoads] = {};
    float factors[kLoads] = {};
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t d = first + i * kWarpSize;
      if (d >= columns) continue;
      values[i] = thread::load(gradient + d * exact.column);
      factors[i] = to_float(thread::load(row + d * rows.column));
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t d = first + i * kWarpSize;
      if constexpr (!std::is_same_v<T, float>) {
        if (out != nullptr && d < columns) {
          thread::store(at.of<T>(*out) + d * out->column, from_float<T>(values[i]));
        }
      }
      sum = thread::fma(factors[i], values[i], sum);
    }
  }
  return warp::all_reduce(sum, [](float a, float b) { return a + b; });
}

template <class T>
struct DotsKernel : WarpAStep {
  struct Arguments {
    BackwardCall call;
    Rows dq, dk;  // of f32
    float* dots;  // [matrices, steps]
  };

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const StepPlace at(call);
    if (!at.exists) return;
    const float sum = dot_of_rows<T>(at, call.dim, call.q, a.dq, &call.dq) -
                      dot_of_rows<T>(at, call.dim, call.k, a.dk, &call.dk);
    if (lane_index() == 0) thread::store(a.dots + at.index, sum);
  }
};

// Of the delta rule, too.
template <class T>
struct DeltaDotsKernel : WarpAStep {
  struct Arguments {
    DeltaBackwardCall call;
    DeltaBackwardParts parts;
  };

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const DeltaBackwardCall& call = a.call;
    const StepPlace at(call);
    if (!at.exists) return;
    const float dbeta = dot_of_rows<float>(at, call.value_dim, a.parts.errors, a.parts.dadded);
    if (lane_index() == 0) thread::store(call.dbeta.at(at.batch, at.head, at.t), dbeta);
    if (a.parts.dots == nullptr) return;
    const bool is_exact = a.parts.dq.data != nullptr;
    const float of_queries = dot_of_rows<T>(at, call.dim, call.q, is_exact ? a.parts.dq : call.dq,
                                            is_exact ? &call.dq : nullptr);
    const float of_values = dot_of_rows<T>(at, call.value_dim, call.v, a.parts.dadded);
    if (lane_index() != 0) return;
    const float beta = thread::load(call.beta.at(at.batch, at.head, at.t));
    thread::store(a.parts.dots + at.index, of_queries - beta * of_values);
  }
};

// A block a head, from the last step to the first.
struct SumsKernel {
  static constexpr int kThreads = 1024;
  struct Arguments {
    BackwardCall call;
    const float* dots;  // [added + taken, matrices, steps]
    int64_t added, taken;
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
    const int64_t rows = call.matrices() * call.steps;
    const float* const dots = a.dots + block_index() * call.steps;
    const auto dot_of = [&](int64_t t) {
      float dot = 0;
      for (int64_t i = 0; i < a.added; ++i) dot += thread::load(dots + i * rows + t);
      for (int64_t i = 0; i < a.taken; ++i) dot -= thread::load(dots + (a.added + i) * rows + t);
      return dot;
    };
    for (int64_t first = 0; first < call.steps; first += kThreads) {
      const int64_t t = call.steps - 1 - first - thread_index();
      const float scanned = warp::inclusive_scan(t >= 0 ? dot_of(t) : 0.0F, add);
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

BackwardPlan::BackwardPlan(const BackwardCall& call, bool walks_find_dots)
    : has_dots(call.has_decay),
      finds_dots(has_dots && walks_find_dots),
      is_exact(has_dots && !finds_dots && size_of(call.dtype) < sizeof(float)),
      has_final(has_dots && call.has_dfinal),
      rows(call.matrices() * call.steps) {
  // Of walks whose states have a row for each value; blocks have 64 columns.
  const int64_t parts = 64 / columns_of_warp(call.value_dim);
  if (finds_dots) added = taken = parts * divide_up(call.dim, int64_t{64});
  if (has_dots && !finds_dots) added = 1;  // the difference
  if (is_exact) {
    dq = take(walk, rows * call.dim);
    dk = take(walk, rows * call.dim);
  }
  if (has_dots) dots = take(walk, (added + taken) * rows);
  if (has_final) final = take(walk, call.matrices() * call.dim * call.value_dim);
}

BackwardWalks::BackwardWalks(const BackwardCall& call, const BackwardPlan& plan, void* workspace) {
  const auto at = [&](size_t offset) { return moved(workspace, static_cast<int64_t>(offset)); };
  const size_t bytes = size_of(call.dtype);
  const size_t exact_bytes = plan.is_exact ? sizeof(float) : bytes;
  const Rows exact_dq = plan.is_exact ? dense_rows(call, call.dim, at(plan.dq)) : call.dq;
  const Rows exact_dk = plan.is_exact ? dense_rows(call, call.dim, at(plan.dk)) : call.dk;

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

  if (!plan.finds_dots) return;
  const Numbers dots{.data = reinterpret_cast<float*>(at(plan.dots)),
                     .batch = call.heads * call.steps,
                     .head = call.steps,
                     .row = 1};
  Numbers of_keys = dots;
  of_keys.data = reinterpret_cast<float*>(
      moved(dots.data, plan.added * plan.rows * static_cast<int64_t>(sizeof(float))));
  dq.dots_with = call.q;
  dq.dots = dots;
  dk.dots_with = backwards(call.k);
  dk.dots = reversed(of_keys, call.steps - 1);
  dq.dots_block = dk.dots_block = plan.rows;
}

DeltaBackwardParts::DeltaBackwardParts(const DeltaBackwardCall& call, void* workspace) {
  const int64_t rows = call.matrices() * call.steps;
  const auto part = [&](int64_t elements) {
    return moved(workspace, static_cast<int64_t>(take(bytes, elements)));
  };
  const auto kept = [&](int64_t columns) {
    return dense_rows(call, columns, part(rows * columns));
  };
  errors = kept(call.value_dim);
  dadded = kept(call.value_dim);
  before = kept(call.dim);
  if (call.has_decay && size_of(call.dtype) < sizeof(float)) dq = kept(call.dim);
  const auto numbers = [&](bool wanted, int64_t elements) {
    return wanted ? reinterpret_cast<float*>(part(elements)) : nullptr;
  };
  final = numbers(call.has_decay && call.has_dfinal, call.matrices() * call.dim * call.value_dim);
  dots = numbers(call.has_decay, rows);
}

DeltaBackwardWalks::DeltaBackwardWalks(const DeltaBackwardCall& call, void* workspace) {
  const size_t bytes = size_of(call.dtype);
  const auto part = [&](int64_t elements) {
    const int64_t floats = elements * static_cast<int64_t>(bytes) / 4;
    return moved(workspace, static_cast<int64_t>(take(own, floats)));
  };
  // Rows begin at multiples of 16 bytes.
  const auto rows = [&](int64_t columns) {
    const int64_t pitch = round_up(columns, int64_t{8});
    return dense_rows(call, pitch, part(call.matrices() * call.steps * pitch));
  };
  const auto backwards = [&](const Rows& of) { return reversed(of, call.steps, bytes); };
  const int64_t chunks = divide_up(call.steps, int64_t{kChunk});
  const int64_t kept = call.matrices() * chunks * divide_up(call.value_dim, int64_t{64}) *
                       rows_of_state(call.dim) * 64;
  states = part(kept);
  gradients = part(kept);
  if (call.has_decay && std::max(call.dim, call.value_dim) > 128) {
    decays = reinterpret_cast<float*>(moved(
        workspace, static_cast<int64_t>(take(
                       own, divide_up(call.dim, int64_t{64}) * call.matrices() * call.steps))));
  }
  last_steps = static_cast<int>(call.steps - (chunks - 1) * kChunk);
  dadded = rows(call.value_dim);
  dv = backwards(call.dv);

  Walk walk{.batch = call.batch, .heads = call.heads, .steps = call.steps};
  walk.dim = call.dim;
  walk.value_dim = call.value_dim;
  errors = added = walk;
  errors.q = errors.k = call.k;
  errors.v = call.v;
  errors.out = rows(call.value_dim);
  errors.log_decay = call.log_decay;
  errors.beta = call.beta;
  errors.initial = call.initial;
  added.q = backwards(call.k);
  added.k = backwards(call.q);
  added.v = backwards(call.dout);
  added.out = backwards(dadded);
  added.log_decay = reversed(call.log_decay, call.steps);
  added.beta = reversed(call.beta, call.steps - 1);
  added.initial = call.dfinal;
  added.final = call.dinitial;
  added.scale_in = call.scale;
  added.shifted = true;
}

#if WS_DEVICE_CODE
void finish_backward(const BackwardCall& call, const BackwardPlan& plan, const Context& context) {
  if (!plan.has_dots || plan.rows == 0) return;
  const auto at = [&](size_t offset) {
    return reinterpret_cast<float*>(static_cast<std::byte*>(context.workspace) + offset);
  };
  if (!plan.finds_dots) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      launch_steps<DotsKernel<T>>(
          {.call = call,
           .dq = plan.is_exact ? dense_rows(call, call.dim, at(plan.dq)) : call.dq,
           .dk = plan.is_exact ? dense_rows(call, call.dim, at(plan.dk)) : call.dk,
           .dots = at(plan.dots)},
          context.stream);
    });
  }
  launch<SumsKernel>(
      {.blocks = call.matrices(), .threads = SumsKernel::kThreads}, context.stream,
      {call, at(plan.dots), plan.added, plan.taken, plan.has_final ? at(plan.final) : nullptr});
}

void finish_delta_backward(const DeltaBackwardCall& call, const DeltaBackwardParts& parts,
                           Stream stream) {
  if (call.matrices() * call.steps == 0) return;
  with_type<kFloats>(call.dtype,
                     [&]<class T>() { launch_steps<DeltaDotsKernel<T>>({call, parts}, stream); });
  if (parts.dots == nullptr) return;
  launch<SumsKernel>({.blocks = call.matrices(), .threads = SumsKernel::kThreads}, stream,
                     {call, parts.dots, 1, 0, parts.final});
}
#endif

}  // namespace ws::linear_attention
