// Idea: a block owns 64 queries; keys and values pass through shared memory, 64 at a time, and the
//   scores of the two are in registers until they are weights (FlashAttention, on the CUDA cores).
// From online: a key is read once for 64 queries, and the recurrence runs once for 64 keys: a
//   tile's maximum first, then one scaling of the sum and of the output's row.
// Traffic: k and v once for every 64 queries; q, out and lse once. 8 numbers read from shared
//   memory serve 16 multiply-adds.
// Limits: dense tensors, H = Hk, D = Dv up to 128, scores as they are (no bias, ALiBi, sinks,
//   softcap), seen whole or causally.
#pragma once

#include "kernels/attention/plain.hpp"
#include "kernels/attention/shared_tile.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::attention {

template <class T, int kDim>
struct TiledKernel {
  static constexpr int kThreads = kTileThreads;
  static constexpr int kMinBlocks = 2;
  using Arguments = Plain<T>;
  struct SharedStorage {
    SharedTile<kTileRows, kDim> queries;
    SharedTile<kTileRows, kDim> keys;  // then the values
    SharedTile<kTileRows, kTileRows> weights;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t tiles = divide_up(a.queries, kTileRows);
    const int64_t matrix = block_index() / tiles;
    const int64_t query = block_index() % tiles * kTileRows;
    const T* k = a.k + matrix * a.keys * a.dim;
    const T* v = a.v + matrix * a.keys * a.dim;
    shared.queries.fill(a.q + (matrix * a.queries + query) * a.dim, a.dim, a.queries - query,
                        a.dim);

    // Of each of this thread's rows: the maximum, which 16 threads share; its own part of the sum.
    float max[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    float sum[4] = {};
    float gathered[4][kDim / 16] = {};
    const int64_t end = a.seen(query + kTileRows - 1);
    for (int64_t key = 0; key < end && key < a.keys; key += kTileRows) {
      shared.keys.fill(k + key * a.dim, a.dim, a.keys - key, a.dim);
      ptx::barrier_sync();
      float scores[4][4] = {};
      add_dots(scores, shared.queries, shared.keys);

#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t seen = a.seen(query + tile_row(i)) - key;
        float highest = max[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          scores[i][j] = score_column(j) < seen ? scores[i][j] * a.scale : -INFINITY;
          highest = fmaxf(highest, scores[i][j]);
        }
        highest = warp::all_reduce<16>(highest, [](float x, float y) { return fmaxf(x, y); });
        const float shift = thread::finite_or_zero(highest);  // a row may have seen nothing yet
        const float rescale = thread::fast_exp(max[i] - shift);
        max[i] = highest;
        sum[i] *= rescale;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float weight = thread::fast_exp(scores[i][j] - shift);
          shared.weights.memory[tile_row(i) * shared.weights.kPitch + score_column(j)] = weight;
          sum[i] += weight;
        }
#pragma unroll
        for (float& element : gathered[i]) element *= rescale;
      }
      ptx::barrier_sync();  // the keys are done with
      shared.keys.fill(v + key * a.dim, a.dim, a.keys - key, a.dim);
      ptx::barrier_sync();
      add_product<kTileRows, kDim>(gathered, shared.weights, shared.keys);
      ptx::barrier_sync();
    }

#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float total = warp::all_reduce<16>(sum[i], [](float x, float y) { return x + y; });
      const float scale = total == 0 ? 0.0F : 1 / total;
#pragma unroll
      for (float& element : gathered[i]) element *= scale;
      const int64_t row = query + tile_row(i);
      if (row < a.queries && score_column(0) == 0) {
        thread::store(a.lse + matrix * a.queries + row, max[i] + thread::log(total));
      }
    }
    store_sums(a.out + (matrix * a.queries + query) * a.dim, a.dim, a.queries - query, a.dim,
               gathered, out_column);
  }
};

struct Tiled {
  static constexpr int kMostDim = 128;

  static bool supports(const Attention::Call& call, Why& why) {
    return is_plain(call, why) && why.unless(call.head_dim <= kMostDim, "holds rows of up to ",
                                             kMostDim, " values, not ", call.head_dim);
  }

  template <class Kernel>
  static void run_kernel(const typename Kernel::Arguments& a, const Context& context) {
    launch<Kernel>(
        {.blocks = a.matrices * divide_up(a.queries, kTileRows), .threads = Kernel::kThreads},
        context.stream, a);
  }
  static void run(const Attention::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Plain<T> a = plain_of<T>(call);
      if (a.dim <= 64) return run_kernel<TiledKernel<T, 64>>(a, context);
      run_kernel<TiledKernel<T, kMostDim>>(a, context);
    });
  }
};

inline constexpr Rung kTiled = rung_of<Tiled, Attention>({
    .name = "tiled",
    .from = "online",
    .idea = "64 queries a block, keys and values through shared memory, the recurrence by tiles",
});

}  // namespace ws::attention
