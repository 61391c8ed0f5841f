// Idea: the state never leaves the registers. A block owns 64 columns of a head's state, four lanes
//   a column, and 16 steps of q, k and v at a time come to it through shared memory.
// From naive: a step costs no memory but its own rows; a dot over D is a quarter of it in each of
//   four lanes, then two shuffles.
// Traffic: q and k once for every 64 columns of the state, v and out once.
// Limits: B * H * M / 64 blocks whatever S is, and S dependent steps: 2 D M multiply-adds a step on
//   the CUDA cores, one step after the other. D up to 128, of gradients M too.
// Long: two of the three operations walk by its kernel, the third by it with kDelta.
#include "kernels/linear_attention/walk.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::linear_attention {
namespace {

template <class T, class Out, int kDim, bool kDelta>
struct RecurrentKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 2;
  static constexpr int kColumns = 64;
  static constexpr int kSteps = 16;
  static constexpr int kParts = kThreads / kColumns;  // lanes of a column
  static constexpr int kFours = kDim / (4 * kParts);  // rows of the state of a lane, by four
  using Arguments = Walk;
  struct SharedStorage {
    SharedArray<float, kSteps * kDim> q;
    SharedArray<float, kSteps * kDim> k;
    SharedArray<float, kSteps * kColumns> v;
    SharedArray<float, kSteps> decay;
    SharedArray<float, kSteps> beta;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t blocks = divide_up(a.value_dim, kColumns);
    const int64_t batch = block_index() / blocks / a.heads;
    const int64_t head = block_index() / blocks % a.heads;
    const int64_t first_column = block_index() % blocks * kColumns;
    const int column = thread_index() / kParts;
    const int part = thread_index() % kParts;
    const int64_t m = first_column + column;
    const bool exists = m < a.value_dim;
    const auto row = [&](int i) { return i / 4 * 4 * kParts + part * 4 + i % 4; };

    float state[kFours * 4];
#pragma unroll
    for (int i = 0; i < kFours * 4; ++i) {
      const bool begins = a.initial.data != nullptr && exists && row(i) < a.dim;
      state[i] = begins ? thread::load(a.initial.at(batch, head, row(i), m)) : 0.0F;
    }
    for (int64_t first = 0; first < a.steps; first += kSteps) {
      fill<kDim>(shared.q, a.q, a.dim, a.steps - first, a.q.at<const T>(batch, head, first));
      fill<kDim>(shared.k, a.k, a.dim, a.steps - first, a.k.at<const T>(batch, head, first));
      fill<kColumns>(shared.v, a.v, a.value_dim - first_column, a.steps - first,
                     a.v.at<const T>(batch, head, first) + first_column * a.v.column);
      if (thread_index() < kSteps && first + thread_index() < a.steps) {
        const int64_t t = first + thread_index();
        shared.decay[thread_index()] = thread::exp2(log2_decay(a, batch, head, t));
        if constexpr (kDelta) {
          shared.beta[thread_index()] = thread::load(a.beta.at(batch, head, t));
        }
      }
      ptx::barrier_sync();
      const int steps = static_cast<int>(first + kSteps < a.steps ? kSteps : a.steps - first);
#pragma unroll 1
      for (int t = 0; t < steps; ++t) {
        const float out = step(shared, t, state, column, part, a.scale_in);
        if (part == 0 && exists) {
          thread::store(a.out.at<Out>(batch, head, first + t) + m * a.out.column,
                        from_float<Out>(a.scale_out * out));
        }
      }
      ptx::barrier_sync();  // all have read these steps
    }
    if (a.final.data == nullptr || !exists) return;
    const float decay = last_decay(a, batch, head);
#pragma unroll
    for (int i = 0; i < kFours * 4; ++i) {
      if (row(i) < a.dim) {
        thread::store(a.final.at(batch, head, row(i), m), decay * state[i]);
      }
    }
  }

 private:
  // kSteps rows of which `columns` columns and `rows` rows are there; zeros beyond.
  template <int kWidth>
  __device__ __forceinline__ static void fill(SharedArray<float, kSteps * kWidth>& to,
                                              const Rows& rows, int64_t columns, int64_t steps,
                                              const T* from) {
#pragma unroll
    for (int i = 0; i < kSteps * kWidth; i += kThreads) {
      const int t = (i + thread_index()) / kWidth;
      const int column = thread_index() % kWidth;
      const bool is_there = t < steps && column < columns;
      to[i + thread_index()] =
          is_there ? to_float(thread::load(from + t * rows.row + column * rows.column)) : 0.0F;
    }
  }

  __device__ __forceinline__ static float all_lanes(float value) {
    return warp::all_reduce<kParts>(value, [](float x, float y) { return x + y; });
  }

  // What the query of a step gets of this lane's column.
  __device__ __forceinline__ static float step(SharedStorage& shared, int t,
                                               float (&state)[kFours * 4], int column, int part,
                                               float scale_in) {
    const float decay = shared.decay[t];
    float v = shared.v[t * kColumns + column];
    Vec<float, 4> key[kFours];
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      key[i] = shared.k.template load<4>(t * kDim + i * 4 * kParts + part * 4);
    }
    if constexpr (kDelta) {
      float said = 0;
#pragma unroll
      for (int i = 0; i < kFours * 4; ++i) said += key[i / 4][i % 4] * state[i];
      v = shared.beta[t] * (v - decay * all_lanes(said));
    }
    v *= scale_in;
    float out = 0;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const auto query = shared.q.template load<4>(t * kDim + i * 4 * kParts + part * 4);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& now = state[i * 4 + e];
        now = decay * now + key[i][e] * v;
        out += query[e] * now;
      }
    }
    return all_lanes(out);
  }
};

struct Recurrent : BackwardBy<Recurrent> {
  using BackwardBy<Recurrent>::run, BackwardBy<Recurrent>::workspace;
  static constexpr int kMostDim = 128;

  static bool takes(int64_t dim, Why& why) {
    return why.unless(dim <= kMostDim, "holds states of up to ", kMostDim, " rows, not ", dim);
  }
  static bool supports(const LinearAttention::Call& call, Why& why) {
    return takes(call.walk.dim, why);
  }
  static bool supports(const BackwardCall& call, Why& why) {
    return takes(std::max(call.dim, call.value_dim), why);
  }

  static size_t workspace_of_walk(const Walk& /*walk*/) { return 0; }
  static Workspace workspace(const LinearAttention::Call& /*call*/) { return {}; }

  template <class T, class Out, bool kDelta>
  static void walk_of(const Walk& walk, const Context& context) {
    const auto run = [&]<int kDim>() {
      using Kernel = RecurrentKernel<T, Out, kDim, kDelta>;
      launch<Kernel>({.blocks = walk.matrices() * divide_up(walk.value_dim, Kernel::kColumns),
                      .threads = Kernel::kThreads},
                     context.stream, walk);
    };
    if (walk.dim <= 64) return run.template operator()<64>();
    run.template operator()<kMostDim>();
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

constexpr Seed kSeeds[] = {
    {.name = "causal_dot_product_forward", .operation = "linear_attention"},
    {.name = "causal_dot_product_backward", .operation = "linear_attention_backward"}};

}  // namespace

extern const Rung kRecurrent;
constinit const Rung kRecurrent =
    rung_of<Recurrent, LinearAttention, LinearAttentionBackward, DeltaRule>({
        .name = "recurrent",
        .from = "naive",
        .idea = "the state in registers, four lanes a column; 16 steps at a time in shared memory",
        .seeds = kSeeds,
    });

}  // namespace ws::linear_attention
