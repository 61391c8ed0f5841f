// Idea: no weight is ever in memory: each is computed again, from the logarithm that the forward
//   kept. Nothing is asked of a call.
// From backward_naive: a warp owns a query, and gathers dq; then a warp owns a key, and gathers dk
//   and dv of all queries that saw it, of each head that shares it. Each lane meets a key or a
//   query, 32 at a time, then each lane has columns. Sums have one order: no atomics.
//   Of packed sequences each warp looks its own up, by the row that it has.
// Traffic: a query reads all keys and values that it sees, a key q and dout of all that saw it.
// Limits: none of the operation's. Each pair's two products are computed twice.
#pragma once

#include "kernels/attention/score_gradient.hpp"
#include "kernels/attention/seen.hpp"
#include "kernels/attention/sequences.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::attention {

// Long: a kernel for each side of a pair. Of packed sequences rows are those of all, and there is
// one batch of them.
template <class AnyCall>
struct AnyBackward {
  AnyCall call;
  AnyRows q, k, v, dout, out;
  float* deltas;  // [batch, heads, queries]
  SequencesOf<AnyCall> sequences;

  // A row of the side that a warp owns, and the rows that it has to do with: none of nobody's.
  struct Owned {
    int64_t batch, head, row;
    Sequence sequence;
    bool is_somebodys = true;
  };

  // Columns of a row, four in a piece, of a lane.
  template <int kPieces>
  using Columns = float[kPieces][4];

  // The item-th query, or key, of one head after the other.
  template <bool kOfKeys>
  __device__ __forceinline__ Owned owned(int64_t item) const {
    const int64_t heads = kOfKeys ? call.kv_heads : call.heads;
    const int64_t rows = kOfKeys ? call.keys : call.queries;
    Owned owned{item / rows / heads, item / rows % heads, item % rows, {}};
    if constexpr (kIsPacked<AnyCall>) {
      const auto [batch, sequence] = sequences.template owner_of<kOfKeys>(owned.row);
      owned.sequence = sequence;
      owned.is_somebodys = batch >= 0;
      owned.batch = owned.is_somebodys ? batch : 0;
    } else {
      owned.sequence = {0, call.queries, 0, call.keys};
    }
    return owned;
  }
  __device__ __forceinline__ int64_t index_of(const QueryPlace& query) const {
    const int64_t batch = kIsPacked<AnyCall> ? 0 : query.batch;
    return (batch * call.heads + query.head) * call.queries + query.row;
  }
  __device__ __forceinline__ static QueryPlace query_of(const Owned& owned, int64_t head,
                                                        int64_t row) {
    const Sequence& sequence = owned.sequence;
    return {owned.batch, head, row,
            row - sequence.first_query + sequence.first_key + sequence.keys - sequence.queries};
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
        dot(q, q.template at<const T>(query.batch, query.head, query.row), k,
            k.template at<const T>(query.batch, kv_head, j), static_cast<int>(call.head_dim));
    const float values =
        dot(dout, dout.at<const T>(query.batch, query.head, query.row), v,
            v.at<const T>(query.batch, kv_head, j), static_cast<int>(call.value_dim));
    const float lse =
        thread::load(call.lse.template at<const float>(query.batch, query.head, query.row));
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
template <class T, int kPieces, class AnyCall>
struct BackwardQueriesKernel {
  static constexpr int kThreads = 128;
  using Arguments = AnyBackward<AnyCall>;
  struct SharedStorage {
    SharedArray<float, kThreads> products;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const AnyCall& call = a.call;
    const int lane = lane_index();
    if constexpr (kIsPacked<AnyCall>) {
      a.sequences.report_lengths(block_index() * kThreads + thread_index(),
                                 grid_blocks() * kThreads);
    }
    const int64_t item = block_index() * (kThreads / kWarpSize) + warp_index();
    if (item >= batches_of(call) * call.heads * call.queries) return;
    const auto owned = a.template owned<false>(item);
    const QueryPlace query = Arguments::query_of(owned, owned.head, owned.row);
    const int64_t kv_head = query.head / call.group();
    float delta = 0;
    if (owned.is_somebodys) {
      delta = delta_of<T>(call, a.dout, a.out, query.batch, query.head, query.row);
    }
    if (lane == 0) thread::store(a.deltas + item, delta);

    const SharedSpan<float> products{shared.products.pointer(warp_index() * kWarpSize), kWarpSize};
    const auto dim = static_cast<int>(call.head_dim);
    float* const dscores = call.dscores.data == nullptr ? nullptr
                                                        : call.dscores.template at<float>(
                                                              query.batch, query.head, query.row);
    const auto tell = [&](int64_t j, float score) {
      if (dscores != nullptr) thread::store(dscores + j * call.dscores.column, score);
    };
    const Sequence& sequence = owned.sequence;
    const Seen<int64_t> seen{sequence.keys - sequence.queries, sequence.keys, call.window.left,
                             call.window.right};
    const int64_t first = sequence.first_key + seen.first(query.row - sequence.first_query);
    const int64_t end = sequence.first_key + seen.end(query.row - sequence.first_query);
    const int64_t end_key = sequence.first_key + sequence.keys;
    typename Arguments::template Columns<kPieces> gathered = {};
    for (int64_t from = sequence.first_key; from < end_key; from += kWarpSize) {
      const int64_t j = from + lane;
      ScoreGradient gradient;
      if (j >= first && j < end) gradient = a.template gradient<T>(query, j, delta);
      if (j < end_key) tell(j, gradient.score);
      if (from + kWarpSize <= first || from >= end) continue;
      products[lane] = gradient.product;
      ptx::syncwarp();
      for (int64_t i = from; i < end && i < from + kWarpSize; ++i) {
        Arguments::template add<T, kPieces>(gathered, products[i - from], a.k,
                                            a.k.template at<const T>(query.batch, kv_head, i), dim);
      }
      ptx::syncwarp();
    }
    Arguments::template write<T, kPieces>(
        gathered, call.dq.template at<T>(query.batch, query.head, query.row), call.dq.column, dim);
  }
};

template <class T, int kPieces, class AnyCall>
struct BackwardKeysKernel {
  static constexpr int kThreads = 128;
  using Arguments = AnyBackward<AnyCall>;
  struct SharedStorage {
    SharedArray<float, kThreads> weights;
    SharedArray<float, kThreads> products;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const AnyCall& call = a.call;
    const int64_t item = block_index() * (kThreads / kWarpSize) + warp_index();
    if (item >= batches_of(call) * call.kv_heads * call.keys) return;
    const auto owned = a.template owned<true>(item);
    const auto [batch, kv_head, j, sequence, is_somebodys] = owned;
    const SharedSpan<float> weights{shared.weights.pointer(warp_index() * kWarpSize), kWarpSize};
    const SharedSpan<float> products{shared.products.pointer(warp_index() * kWarpSize), kWarpSize};
    const auto dim = static_cast<int>(call.head_dim);
    const auto value_dim = static_cast<int>(call.value_dim);
    // Queries that see the key: what they see moves on from one to the next.
    const int64_t queries = sequence.queries;
    const int64_t over = j - sequence.first_key - (sequence.keys - queries);  // stands over it
    const int64_t from =
        sequence.first_query +
        (call.window.right < 0 || over < call.window.right ? 0 : over - call.window.right);
    const int64_t last = over + call.window.left + 1;
    const int64_t end =
        sequence.first_query + (call.window.left < 0 || last > queries ? queries : last);
    typename Arguments::template Columns<kPieces> of_key = {};
    typename Arguments::template Columns<kPieces> of_value = {};
    for (int64_t head = kv_head * call.group(); head < (kv_head + 1) * call.group(); ++head) {
      for (int64_t first = from; first < end; first += kWarpSize) {
        const int64_t i = first + lane_index();
        ScoreGradient gradient;
        if (i < end) {
          const QueryPlace query = Arguments::query_of(owned, head, i);
          gradient = a.template gradient<T>(query, j, thread::load(a.deltas + a.index_of(query)));
        }
        weights[lane_index()] = gradient.weight;
        products[lane_index()] = gradient.product;
        ptx::syncwarp();
        for (int64_t row = first; row < end && row < first + kWarpSize; ++row) {
          Arguments::template add<T, kPieces>(of_key, products[row - first], a.q,
                                              a.q.template at<const T>(batch, head, row), dim);
          Arguments::template add<T, kPieces>(of_value, weights[row - first], a.dout,
                                              a.dout.template at<const T>(batch, head, row),
                                              value_dim);
        }
        ptx::syncwarp();
      }
    }
    Arguments::template write<T, kPieces>(of_key, call.dk.template at<T>(batch, kv_head, j),
                                          call.dk.column, dim);
    Arguments::template write<T, kPieces>(of_value, call.dv.template at<T>(batch, kv_head, j),
                                          call.dv.column, value_dim);
  }
};

struct BackwardAny {
  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    return {.bytes =
                sizeof(float) * static_cast<size_t>(batches_of(call) * call.heads * call.queries)};
  }

  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const AnyBackward<AnyCall> a{call,
                                   AnyRows::of<T>(call.q),
                                   AnyRows::of<T>(call.k),
                                   AnyRows::of<T>(call.v),
                                   AnyRows::of<T>(call.dout),
                                   AnyRows::of<T>(call.out),
                                   static_cast<float*>(context.workspace),
                                   {call, "attention/backward_any"}};
      if (call.head_dim <= 128 && call.value_dim <= 128) {
        run<T, 1>(a, context.stream);
      } else {
        run<T, 8>(a, context.stream);
      }
    });
  }

 private:
  template <class T, int kPieces, class AnyCall>
  static void run(const AnyBackward<AnyCall>& a, Stream stream) {
    const AnyCall& call = a.call;
    const int64_t batches = batches_of(call);
    launch_of<BackwardQueriesKernel<T, kPieces, AnyCall>>(a, batches * call.heads * call.queries,
                                                          stream);
    launch_of<BackwardKeysKernel<T, kPieces, AnyCall>>(a, batches * call.kv_heads * call.keys,
                                                       stream);
  }
  template <class Kernel>
  static void launch_of(const typename Kernel::Arguments& a, int64_t warps, Stream stream) {
    if (warps == 0) return;
    launch<Kernel>(
        {.blocks = divide_up(warps * kWarpSize, Kernel::kThreads), .threads = Kernel::kThreads},
        stream, a);
  }
};

inline constexpr Rung kBackwardAny =
    rung_of<BackwardAny, AttentionBackward, AttentionVarlenBackward>({
        .name = "backward_any",
        .from = "backward_naive",
        .idea = "weights again from lse: a warp a query for dq, then a warp a key for dk and dv",
    });

}  // namespace ws::attention
