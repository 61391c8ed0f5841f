// Idea: three kernels with a matrix in memory between them: scores = q k^T, a softmax of its rows,
//   out = weights v. What a framework makes of the formula where nobody fuses it.
// From naive: each step has as many threads as it has results, and tiles in shared memory; a number
//   that was read serves 64 rows.
// Traffic: scores are written, read three times and written by the softmax, and read: 24 Sq Sk
//   bytes of f32, where q, k, v and out of 16 bits are 2 (2 Sq + 2 Sk) D.
// Limits: dense tensors, H = Hk, D = Dv, scores as they are (no bias, ALiBi, sinks, softcap), seen
//   whole or causally; Sq x Sk floats of workspace.
#pragma once

#include "kernels/attention/plain.hpp"
#include "kernels/attention/shared_tile.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::attention {

template <class T>
struct ScoresInMemory : Plain<T> {
  float* scores;  // [matrices, queries, keys]
};

// A block computes 64 x 64 scores.
template <class T>
struct ScoresKernel {
  static constexpr int kThreads = kTileThreads;
  static constexpr int kSlice = 32;
  using Arguments = ScoresInMemory<T>;
  struct SharedStorage {
    SharedTile<kTileRows, kSlice> q, k;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto [matrix, query, key] = tile_place(a.queries, a.keys);
    if (key >= a.seen(query + kTileRows - 1)) return;  // no query of the tile sees a key of it

    float sums[4][4] = {};
    for (int64_t d = 0; d < a.dim; d += kSlice) {
      shared.q.fill(a.q + (matrix * a.queries + query) * a.dim + d, a.dim, a.queries - query,
                    a.dim - d);
      shared.k.fill(a.k + (matrix * a.keys + key) * a.dim + d, a.dim, a.keys - key, a.dim - d);
      ptx::barrier_sync();
      add_dots(sums, shared.q, shared.k);
      ptx::barrier_sync();
    }
#pragma unroll
    for (auto& row : sums) {
#pragma unroll
      for (float& score : row) score *= a.scale;
    }
    store_sums(a.scores + (matrix * a.queries + query) * a.keys + key, a.keys, a.queries - query,
               a.keys - key, sums, score_column);
  }
};

// A warp makes weights of a row of scores, 0 where the query does not see the key.
template <class T>
struct WeightsKernel {
  static constexpr int kThreads = 128;
  using Arguments = ScoresInMemory<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t index = block_index() * (kThreads / kWarpSize) + warp_index();
    if (index >= a.matrices * a.queries) return;
    const int64_t seen = a.seen(index % a.queries);
    float* row = a.scores + index * a.keys;

    float max = -INFINITY;
    for (int64_t j = lane_index(); j < seen; j += kWarpSize) {
      max = fmaxf(max, thread::load(row + j));
    }
    max = warp::all_reduce(max, [](float x, float y) { return fmaxf(x, y); });
    float sum = 0;
    for (int64_t j = lane_index(); j < seen; j += kWarpSize) {
      sum += thread::fast_exp(thread::load(row + j) - max);
    }
    sum = warp::all_reduce(sum, [](float x, float y) { return x + y; });
    for (int64_t j = lane_index(); j < a.keys; j += kWarpSize) {
      thread::store(row + j, j < seen ? thread::fast_exp(thread::load(row + j) - max) / sum : 0.0F);
    }
    if (lane_index() == 0) thread::store(a.lse + index, max + thread::log(sum));
  }
};

// A block computes 64 x 64 elements of out.
template <class T>
struct ValuesKernel {
  static constexpr int kThreads = kTileThreads;
  static constexpr int kSlice = 32;
  using Arguments = ScoresInMemory<T>;
  struct SharedStorage {
    SharedTile<kTileRows, kSlice> weights;
    SharedTile<kSlice, kTileRows> v;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto [matrix, query, d] = tile_place(a.queries, a.dim);
    const int64_t end = a.seen(query + kTileRows - 1);

    float sums[4][4] = {};
    for (int64_t key = 0; key < end && key < a.keys; key += kSlice) {
      shared.weights.fill(a.scores + (matrix * a.queries + query) * a.keys + key, a.keys,
                          a.queries - query, a.keys - key);
      shared.v.fill(a.v + (matrix * a.keys + key) * a.dim + d, a.dim, a.keys - key, a.dim - d);
      ptx::barrier_sync();
      add_product<kSlice, kTileRows>(sums, shared.weights, shared.v);
      ptx::barrier_sync();
    }
    store_sums(a.out + (matrix * a.queries + query) * a.dim + d, a.dim, a.queries - query,
               a.dim - d, sums, out_column);
  }
};

struct Materialized {
  static bool supports(const Attention::Call& call, Why& why) { return is_plain(call, why); }

  static Workspace workspace(const Attention::Call& call) {
    const int64_t scores = call.batch * call.heads * call.queries * call.keys;
    return {.bytes = static_cast<size_t>(scores) * sizeof(float)};
  }

  static void run(const Attention::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const ScoresInMemory<T> a{plain_of<T>(call), static_cast<float*>(context.workspace)};
      const int64_t tiles = a.matrices * divide_up(a.queries, kTileRows);
      const auto run = [&]<class Kernel>(Kernel, int64_t blocks) {
        if (blocks == 0) return;
        launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads}, context.stream, a);
      };
      run(ScoresKernel<T>{}, tiles * divide_up(a.keys, kTileRows));
      run(WeightsKernel<T>{}, divide_up(a.matrices * a.queries, 4));
      run(ValuesKernel<T>{}, tiles * divide_up(a.dim, kTileRows));
    });
  }
};

inline constexpr Rung kMaterialized = rung_of<Materialized, Attention>({
    .name = "materialized",
    .from = "naive",
    .idea = "three kernels, the scores a matrix in memory between them",
});

}  // namespace ws::attention
