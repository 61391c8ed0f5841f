// Idea: 64 steps at once. Within a chunk it is attention without a softmax, 64 x 64 products that
//   are masked and decayed; what came before is one product with the state, which moves once a
//   chunk.
// From recurrent: S / 64 dependent steps instead of S, each of products of matrices: 8 numbers read
//   from shared memory serve 16 multiply-adds.
// Traffic: as before. Flops: 64 (D + M) a step beside the 4 D M of the recurrence, half of them for
//   pairs that are masked.
// Limits: dense columns; D up to 128, of gradients M too, 137 KB of shared memory there. An f32
//   product on the CUDA cores.
// Long: a chunk is four products, and what comes between them.
#include "kernels/attention/shared_tile.hpp"
#include "kernels/linear_attention/chunk.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"

namespace ws::linear_attention {
namespace {

template <class T, class Out, int kDim>
struct ChunkedKernel {
  static constexpr int kThreads = attention::kTileThreads;
  static constexpr int kColumns = 64;
  using Steps = attention::SharedTile<kChunk, kDim>;
  using Square = attention::SharedTile<kChunk, kColumns>;
  using State = attention::SharedTile<kDim, kColumns>;
  using Arguments = Walk;
  struct SharedStorage {
    Steps q;
    Steps k;
    Square v;
    Square pairs;
    State state;
    SharedArray<float, kChunk> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const BlockPlace at = block_place(a, block_index(), kColumns);
    for_each_state([&](int row, int column) {
      const bool begins =
          a.initial.data != nullptr && row < a.dim && at.column + column < a.value_dim;
      shared.state.memory[row * State::kPitch + column] =
          begins ? thread::load(a.initial.at(at.batch, at.head, row, at.column + column)) : 0.0F;
    });
    for (int64_t first = 0; first < a.steps; first += kChunk) {
      const int64_t steps = a.steps - first;
      shared.q.fill(a.q.at<const T>(at.batch, at.head, first), a.q.row, steps, a.dim);
      shared.k.fill(a.k.at<const T>(at.batch, at.head, first), a.k.row, steps, a.dim);
      shared.v.fill(a.v.at<const T>(at.batch, at.head, first) + at.column, a.v.row, steps,
                    a.value_dim - at.column);
      if (warp_index() == 0) {
        const auto sums = sums_of(chunk_decays(a, at.batch, at.head, first, a.steps));
        shared.sums.template store<2>(lane_index() * 2, sums);
      }
      ptx::barrier_sync();
      weigh_pairs(shared, a.scale_in * a.scale_out);
      float out[4][kColumns / 16] = {};
      attention::add_product<kDim, kColumns>(out, shared.q, shared.state);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float factor = a.scale_out * thread::exp2(shared.sums[attention::tile_row(i)]);
#pragma unroll
        for (float& element : out[i]) element *= factor;
      }
      ptx::barrier_sync();  // the pairs are there, and nobody asks this state any more
      attention::add_product<kChunk, kColumns>(out, shared.pairs, shared.v);
      attention::store_sums(a.out.at<Out>(at.batch, at.head, first) + at.column, a.out.row, steps,
                            a.value_dim - at.column, out, attention::out_column);
      move_state(shared, a.scale_in);
      ptx::barrier_sync();
    }
    if (a.final.data == nullptr) return;
    const float decay = last_decay(a, at.batch, at.head);
    for_each_state([&](int row, int column) {
      if (row < a.dim && at.column + column < a.value_dim) {
        const float value = shared.state.memory[row * State::kPitch + column];
        thread::store(a.final.at(at.batch, at.head, row, at.column + column), decay * value);
      }
    });
  }

 private:
  // This thread's part of the state: what it sets, moves and stores.
  template <class F>
  __device__ __forceinline__ static void for_each_state(F&& f) {
    for (int half = 0; half < kDim; half += 64) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          f(half + attention::tile_row(i), attention::out_column(c));
        }
      }
    }
  }

  __device__ __forceinline__ static void weigh_pairs(SharedStorage& shared, float scale) {
    float pairs[4][4] = {};
    attention::add_dots(pairs, shared.q, shared.k);
    float of_keys[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) of_keys[j] = shared.sums[attention::score_column(j)];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = attention::tile_row(i);
      const float sum = shared.sums[row];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = attention::score_column(j);
        shared.pairs.memory[row * Square::kPitch + column] =
            column <= row ? pairs[i][j] * scale * thread::exp2(sum - of_keys[j]) : 0.0F;
      }
    }
  }

  __device__ __forceinline__ static void move_state(SharedStorage& shared, float scale) {
    const float total = shared.sums[kChunk - 1];
    const float decay = thread::exp2(total);
#pragma unroll 1
    for (int half = 0; half < kDim; half += 64) {
      float sums[4][4] = {};
#pragma unroll 4
      for (int j = 0; j < kChunk; ++j) {
        const auto keys = shared.k.four(j, half + attention::tile_row(0));
        const auto values = shared.v.four(j, attention::out_column(0));
        const float weight = scale * thread::exp2(total - shared.sums[j]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float key = keys[i] * weight;
#pragma unroll
          for (int c = 0; c < 4; ++c) sums[i][c] += key * values[c];
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = (half + attention::tile_row(i)) * State::kPitch + attention::out_column(0);
        const auto before = shared.state.memory.template load<4>(at);
        Vec<float, 4> now;
#pragma unroll
        for (int c = 0; c < 4; ++c) now[c] = decay * before[c] + sums[i][c];
        shared.state.memory.template store<4>(at, now);
      }
    }
  }
};

struct Chunked : BackwardBy<Chunked> {
  using BackwardBy<Chunked>::run, BackwardBy<Chunked>::workspace;
  static constexpr int kMostDim = 128;

  static bool takes(const Walk& walk, Why& why) {
    const auto is_dense = [](const Rows& rows, int64_t columns) {
      return columns <= 1 || rows.column == 1;
    };
    const size_t bytes = walk.dim <= 64
                             ? sizeof(typename ChunkedKernel<float, float, 64>::SharedStorage)
                             : sizeof(typename ChunkedKernel<float, float, 128>::SharedStorage);
    return why.unless(walk.dim <= kMostDim, "holds states of up to ", kMostDim, " rows, not ",
                      walk.dim) &&
           why.unless(is_dense(walk.q, walk.dim) && is_dense(walk.k, walk.dim) &&
                          is_dense(walk.v, walk.value_dim) && is_dense(walk.out, walk.value_dim),
                      "needs dense columns") &&
           why.unless(static_cast<int>(bytes) <= device_facts().shared_bytes, "needs ", bytes,
                      " bytes of shared memory");
  }
  static bool supports(const LinearAttention::Call& call, Why& why) {
    return takes(call.walk, why);
  }
  static bool supports(const BackwardCall& call, Why& why) {
    const BackwardWalks walks(call, BackwardPlan(call, false), nullptr);
    return takes(walks.dq, why) && takes(walks.dk, why) && takes(walks.dv, why);
  }

  static size_t workspace_of_walk(const Walk& /*walk*/) { return 0; }
  static Workspace workspace(const LinearAttention::Call& /*call*/) { return {}; }

  static void walk(DType dtype, DType out, const Walk& walk, const Context& context) {
    with_types<kFloats>(dtype, out, [&]<class T, class Out>() {
      const auto run = [&]<int kDim>() {
        using Kernel = ChunkedKernel<T, Out, kDim>;
        launch<Kernel>({.blocks = walk.matrices() * divide_up(walk.value_dim, Kernel::kColumns),
                        .threads = Kernel::kThreads},
                       context.stream, walk);
      };
      if (walk.dim <= 64) return run.template operator()<64>();
      run.template operator()<kMostDim>();
    });
  }
  static void run(const LinearAttention::Call& call, const Context& context) {
    if (call.walk.matrices() > 0) walk(call.dtype, call.dtype, call.walk, context);
  }
};

}  // namespace

extern const Rung kChunked;
constinit const Rung kChunked = rung_of<Chunked, LinearAttention, LinearAttentionBackward>({
    .name = "chunked",
    .from = "recurrent",
    .idea = "64 steps at once: masked pairs within a chunk, one product with the state before it",
});

}  // namespace ws::linear_attention
