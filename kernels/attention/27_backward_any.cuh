// Idea: no weight is ever in memory: each is computed again, from the logarithm that the forward
//   kept. Nothing is asked of a call.
// From backward_naive: a warp owns a query, and gathers dq; then a warp owns a key, and gathers dk
//   and dv of all queries that saw it, of each head that shares it. Each lane meets a key or a
//   query, 32 at a time, then each lane has columns. Sums have one order: no atomics.
// Traffic: a query reads all keys and values that it sees, a key q and dout of all that saw it.
// Limits: none of the operation's. Each pair's two products are computed twice.
#pragma once

#include "kernels/attention/score_gradient.hpp"
#include "kernels/attention/seen.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::attention {

// Long: a kernel for each side of a pair.
struct AnyBackward {
  BackwardCall call;
  AnyRows q, k, v, dout, out;
  float* deltas;  // [batch, heads, queries]

  // Columns of a row, four in a piece, of a lane.
  template <int kPieces>
  using Columns = float[kPieces][4];

  __device__ __forceinline__ Seen<int64_t> seen() const {
    return {call.keys - call.queries, call.keys, call.window.left, call.window.right};
  }
  __device__ __forceinline__ int64_t index_of(const QueryPlace& query) const {
    return (query.batch * call.heads + query.head) * call.queries + query.row;
  }
  __device__ __forceinline__ QueryPlace query_of(int64_t batch, int64_t head, int64_t row) const {
    return {batch, head, row, row + call.keys - call.queries};
  }

  template <class T>
  __device__ __forceinline__ static float dot(const AnyRows& left, const T* a, const AnyRows& right,
                                              const T* b, int columns) {
    float sum = 0;
    for (int d = 0; d < columns; d += 4) {
      const Vec<float, 4> of_a = left.four(a, d, columns);
      const Vec<float, 4> of_b = right.four(b, d, columns);
#pragma unroll
      for (int e = 0; e < 4; ++e) sum += of_a[e] * of_b[e];
    }
    return sum;
  }

  // Of a query and a key that it sees.
  template <class T>
  __device__ __forceinline__ ScoreGradient gradient(const QueryPlace& query, int64_t j,
                                                    float delta) const {
    const int64_t kv_head = query.head / call.group();
    const float product =
        dot(q, q.at<const T>(query.batch, query.head, query.row), k,
            k.at<const T>(query.batch, kv_head, j), static_cast<int>(call.head_dim));
    const float values =
        dot(dout, dout.at<const T>(query.batch, query.head, query.row), v,
            v.at<const T>(query.batch, kv_head, j), static_cast<int>(call.value_dim));
    const float lse = thread::load(call.lse.at<const float>(query.batch, query.head, query.row));
    return gradient_of<T>(call, query, j, product, values, lse, delta);
  }

  // Adds factor times a row to the lane's columns.
  template <class T, int kPieces>
  __device__ __forceinline__ static void add(Columns<kPieces>& to, float factor,
                                             const AnyRows& rows, const T* row, int columns) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int column = (p * kWarpSize + lane_index()) * 4;
      if (column >= columns) break;
      const Vec<float, 4> four = rows.four(row, column, columns);
#pragma unroll
      for (int e = 0; e < 4; ++e) to[p][e] += factor * four[e];
    }
  }
  template <class T, int kPieces>
  __device__ __forceinline__ static void write(const Columns<kPieces>& from, T* row, int64_t stride,
                                               int columns) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = (p * kWarpSize + lane_index()) * 4 + e;
        if (column < columns) thread::store(row + column * stride, from_float<T>(from[p][e]));
      }
    }
  }
};

// dq, dscores, and the deltas for the other kernel. kPieces: of rows of up to 128 columns each.
template <class T, int kPieces>
struct BackwardQueriesKernel {
  static constexpr int kThreads = 128;
  using Arguments = AnyBackward;
  struct SharedStorage {
    SharedArray<float, kThreads> products;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int lane = lane_index();
    const int64_t item = block_index() * (kThreads / kWarpSize) + warp_index();
    if (item >= call.batch * call.heads * call.queries) return;
    const QueryPlace query = a.query_of(item / call.queries / call.heads,
                                        item / call.queries % call.heads, item % call.queries);
    const int64_t kv_head = query.head / call.group();
    const float delta = delta_of<T>(call, a.dout, a.out, query.batch, query.head, query.row);
    if (lane == 0) thread::store(a.deltas + item, delta);

    const SharedSpan<float> products{shared.products.pointer(warp_index() * kWarpSize), kWarpSize};
    const auto dim = static_cast<int>(call.head_dim);
    float* const dscores = call.dscores.data == nullptr
                               ? nullptr
                               : call.dscores.at<float>(query.batch, query.head, query.row);
    const auto tell = [&](int64_t j, float score) {
      if (dscores != nullptr) thread::store(dscores + j * call.dscores.column, score);
    };
    const int64_t first = a.seen().first(query.row);
    const int64_t end = a.seen().end(query.row);
    AnyBackward::Columns<kPieces> gathered = {};
    for (int64_t from = 0; from < call.keys; from += kWarpSize) {
      const int64_t j = from + lane;
      ScoreGradient gradient;
      if (j >= first && j < end) gradient = a.gradient<T>(query, j, delta);
      if (j < call.keys) tell(j, gradient.score);
      if (from + kWarpSize <= first || from >= end) continue;
      products[lane] = gradient.product;
      ptx::syncwarp();
      for (int64_t i = from; i < end && i < from + kWarpSize; ++i) {
        AnyBackward::add<T, kPieces>(gathered, products[i - from], a.k,
                                     a.k.at<const T>(query.batch, kv_head, i), dim);
      }
      ptx::syncwarp();
    }
    AnyBackward::write<T, kPieces>(gathered, call.dq.at<T>(query.batch, query.head, query.row),
                                   call.dq.column, dim);
  }
};

template <class T, int kPieces>
struct BackwardKeysKernel {
  static constexpr int kThreads = 128;
  using Arguments = AnyBackward;
  struct SharedStorage {
    SharedArray<float, kThreads> weights;
    SharedArray<float, kThreads> products;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t item = block_index() * (kThreads / kWarpSize) + warp_index();
    if (item >= call.batch * call.kv_heads * call.keys) return;
    const int64_t j = item % call.keys;
    const int64_t kv_head = item / call.keys % call.kv_heads;
    const int64_t batch = item / call.keys / call.kv_heads;
    const SharedSpan<float> weights{shared.weights.pointer(warp_index() * kWarpSize), kWarpSize};
    const SharedSpan<float> products{shared.products.pointer(warp_index() * kWarpSize), kWarpSize};
    const auto dim = static_cast<int>(call.head_dim);
    const auto value_dim = static_cast<int>(call.value_dim);
    // Queries that see the key: what they see moves on from one to the next.
    const int64_t over = j - (call.keys - call.queries);  // the query that stands over it
    const int64_t from =
        call.window.right < 0 || over < call.window.right ? 0 : over - call.window.right;
    const int64_t last = over + call.window.left + 1;
    const int64_t end = call.window.left < 0 || last > call.queries ? call.queries : last;
    AnyBackward::Columns<kPieces> of_key = {};
    AnyBackward::Columns<kPieces> of_value = {};
    for (int64_t head = kv_head * call.group(); head < (kv_head + 1) * call.group(); ++head) {
      for (int64_t first = from; first < end; first += kWarpSize) {
        const int64_t i = first + lane_index();
        ScoreGradient gradient;
        if (i < end) {
          const QueryPlace query = a.query_of(batch, head, i);
          gradient = a.gradient<T>(query, j, thread::load(a.deltas + a.index_of(query)));
        }
        weights[lane_index()] = gradient.weight;
        products[lane_index()] = gradient.product;
        ptx::syncwarp();
        for (int64_t row = first; row < end && row < first + kWarpSize; ++row) {
          AnyBackward::add<T, kPieces>(of_key, products[row - first], a.q,
                                       a.q.at<const T>(batch, head, row), dim);
          AnyBackward::add<T, kPieces>(of_value, weights[row - first], a.dout,
                                       a.dout.at<const T>(batch, head, row), value_dim);
        }
        ptx::syncwarp();
      }
    }
    AnyBackward::write<T, kPieces>(of_key, call.dk.at<T>(batch, kv_head, j), call.dk.column, dim);
    AnyBackward::write<T, kPieces>(of_value, call.dv.at<T>(batch, kv_head, j), call.dv.column,
                                   value_dim);
  }
};

struct BackwardAny {
  static Workspace workspace(const BackwardCall& call) {
    return {.bytes = sizeof(float) * static_cast<size_t>(call.batch * call.heads * call.queries)};
  }

  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const AnyBackward a{call,
                          AnyRows::of<T>(call.q),
                          AnyRows::of<T>(call.k),
                          AnyRows::of<T>(call.v),
                          AnyRows::of<T>(call.dout),
                          AnyRows::of<T>(call.out),
                          static_cast<float*>(context.workspace)};
      if (call.head_dim <= 128 && call.value_dim <= 128) {
        run<T, 1>(a, context.stream);
      } else {
        run<T, 8>(a, context.stream);
      }
    });
  }

 private:
  template <class T, int kPieces>
  static void run(const AnyBackward& a, Stream stream) {
    const BackwardCall& call = a.call;
    launch_of<BackwardQueriesKernel<T, kPieces>>(a, call.batch * call.heads * call.queries, stream);
    launch_of<BackwardKeysKernel<T, kPieces>>(a, call.batch * call.kv_heads * call.keys, stream);
  }
  template <class Kernel>
  static void launch_of(const AnyBackward& a, int64_t warps, Stream stream) {
    if (warps == 0) return;
    launch<Kernel>(
        {.blocks = divide_up(warps * kWarpSize, Kernel::kThreads), .threads = Kernel::kThreads},
        stream, a);
  }
};

inline constexpr Rung kBackwardAny = rung_of<BackwardAny, AttentionBackward>({
    .name = "backward_any",
    .from = "backward_naive",
    .idea = "weights again from lse: a warp a query for dq, then a warp a key for dk and dv",
});

}  // namespace ws::attention
