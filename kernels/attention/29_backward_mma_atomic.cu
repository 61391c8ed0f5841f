// Idea: scores are made once: who owns keys has the gradients that dq is made of, too, and adds.
// From backward_mma: a tile's gradients of scores go to shared memory, where all warps find them as
//   the left operand with queries down, and multiply them by the block's keys; the sums are added
//   to dq in f32 in memory, 16 bytes of a lane at a time. A last kernel rounds dq. Five products.
// Traffic: each block that sees a query adds a row of f32 to it, which L2 does: for S keys S / 128
//   times 4 D bytes a query at D = 64, S / 64 at 128.
// Limits: those of backward_mma, and no packed sequences; additions have any order, so two runs
//   differ in last bits.
#include "kernels/attention/backward_mma_calls.hpp"

namespace ws::attention {
namespace {

// Counted, none compared: as of backward_mma, with the gradients of a tile beside its rows.
struct Shape64 {
  static constexpr BackwardMmaShape kOfKeys{
      .dim = 64, .warps = 4, .row_blocks = 2, .tile = 64, .step = 32, .blocks = 2};
};
struct Shape128 {
  static constexpr BackwardMmaShape kOfKeys{
      .dim = 128, .warps = 4, .row_blocks = 1, .tile = 64, .step = 64, .blocks = 2};
};

template <class T, class Shape>
using OfKeys = BackwardMmaKernel<T, true, Shape::kOfKeys, true>;

template <class F>
auto with_shape(const Call& call, F&& f) {
  const bool is_narrow =
      call.head_dim <= Shape64::kOfKeys.dim && call.value_dim <= Shape64::kOfKeys.dim;
  return is_narrow ? f.template operator()<Shape64>() : f.template operator()<Shape128>();
}

// Rounds what was added to dq, and leaves zeros: of each row of a head, those too that fill it up.
template <class T, int kDim>
struct BackwardMmaAtomicKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    float* sums;
    Heads dq;
    int64_t heads, rows, queries;
    int64_t count;  // of four columns
    int columns;
    float scale;
    bool aligned;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t at = block_index() * kThreads + thread_index();
    if (at >= a.count) return;
    const auto four = thread::load<4>(a.sums + at * 4);
    thread::store(a.sums + at * 4, Vec<float, 4>{});
    const int64_t line = at / (kDim / 4);
    const int64_t row = line % a.rows;
    if (row >= a.queries) return;
    const int column = static_cast<int>(at % (kDim / 4)) * 4;
    T* const to = a.dq.template at<T>(line / a.rows / a.heads, line / a.rows % a.heads, row);
    Vec<T, 4> rounded;
#pragma unroll
    for (int i = 0; i < 4; ++i) rounded[i] = from_float<T>(four[i] * a.scale);
    if (a.aligned && column + 4 <= a.columns) {
      thread::store(to + column, rounded);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column + i < a.columns) {
        thread::store(to + (column + i) * a.dq.column, rounded[i]);
      }
    }
  }
};

struct BackwardMmaAtomic {
  static bool supports(const BackwardCall& call, Why& why) {
    return takes_backward_mma(call, Shape128::kOfKeys.dim, why) &&
           with_shape(call,
                      [&]<class Shape>() { return has_shared_memory<OfKeys<half, Shape>>(why); });
  }

  static Workspace workspace(const BackwardCall& call) {
    const size_t sums = sums_of(call) * sizeof(float);
    return {.bytes = sums + QueryFacts::workspace(call).bytes, .zeroed = sums};
  }

  static void run(const BackwardCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      with_shape(call, [&]<class Shape>() { run<T, Shape>(call, context); });
    });
  }

 private:
  static size_t sums_of(const BackwardCall& call) {
    return with_shape(call, [&]<class Shape>() {
      return static_cast<size_t>(QueryFacts::count(call)) * Shape::kOfKeys.dim;
    });
  }

  template <class T, class Shape>
  static void run(const BackwardCall& call, const Context& context) {
    using Kernel = OfKeys<T, Shape>;
    using Give = BackwardMmaAtomicKernel<T, Kernel::kDim>;
    auto* const sums = static_cast<float*>(context.workspace);
    const QueryFacts facts = QueryFacts::in(call, sums + sums_of(call));
    launch_facts<T>(call, facts, context.stream);
    BackwardMmaArguments a =
        arguments_of_keys(call, facts, BackwardGrid::of_keys(call, Kernel::kOwn));
    a.dq_sums = sums;
    launch_backward_mma<Kernel>(a, context.stream);
    const auto fours = static_cast<int64_t>(sums_of(call) / 4);
    if (fours == 0) return;
    launch<Give>(
        {.blocks = divide_up(fours, Give::kThreads), .threads = Give::kThreads}, context.stream,
        {sums, call.dq, call.heads, facts.rows, call.queries, fours,
         static_cast<int>(call.head_dim), call.scale,
         is_aligned(call.dq, call.dtype, call.batch, call.heads, call.queries, call.head_dim)});
  }
};

}  // namespace

extern const Rung kBackwardMmaAtomic;
constinit const Rung kBackwardMmaAtomic = rung_of<BackwardMmaAtomic, kHalves, AttentionBackward>({
    .name = "backward_mma_atomic",
    .from = "backward_mma",
    .idea = "scores are made once: who owns keys adds its part of dq to memory",
    .deterministic = false,
    .may_spill = true,
});

}  // namespace ws::attention
