// Idea: nothing is asked of a call. Strides are numbers, a key's place is looked up in its page,
//   and a score passes through all that an operation can do to it.
// From online: a warp owns a query. Each lane meets a key, 32 at a time, then each lane has columns
//   of the values: a row of up to 1024 is 32 numbers a lane.
// Traffic: a query reads all keys and values that it sees, once.
// Limits: none of the operations'. A lane walks its own row of k, by 16 or 8 bytes where it can.
#pragma once

#include "kernels/attention/any_rows.hpp"
#include "kernels/attention/scales.hpp"
#include "kernels/attention/scores.hpp"
#include "kernels/attention/seen.hpp"
#include "kernels/attention/sequences.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::attention {

// Long: all that a call can say passes through one loop. q of T, k and v of Kv, the output of Out.
// kGoesOn: out and lse hold attention over keys met before, which these are added to.
template <class T, class Out = T, bool kGoesOn = false, class Kv = T>
struct AnyKernel {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kPieces = 1024 / kWarpSize / 4;  // of four columns, of a lane
  static constexpr bool kScaled = sizeof(Kv) == 1;
  static constexpr int kMinBlocks = kScaled ? 3 : 4;  // sm_80 converts 8 bits by arithmetic

  struct Arguments {
    Call call;
    Sequences sequences;
    AnyRows q, k, v;
    ScalesOf<Kv> scales;
  };
  struct SharedStorage {
    SharedArray<float, kWarps * kWarpSize> weights;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Sequences& sequences = a.sequences;
    const int64_t thread = block_index() * kThreads + thread_index();
    sequences.report(thread, grid_blocks() * kThreads);
    if constexpr (kScaled) a.scales.report(thread, grid_blocks() * kThreads);
    const int64_t item = block_index() * kWarps + warp_index();  // queries of a head, of the next
    const int64_t rows = sequences.packed ? sequences.queries : a.call.batch * a.call.queries;
    if (item >= rows * a.call.heads) return;
    const int64_t row = item % rows;
    const int64_t batch = sequences.packed ? sequences.of_row(row) : row / a.call.queries;
    if (batch < 0 || batch >= sequences.count) return;
    const Sequence sequence = sequences.of(batch);
    const int64_t its_row = sequences.packed ? row - sequence.first_query : row % a.call.queries;
    if (its_row >= sequence.queries || !sequences.has_its_pages(batch, sequence)) return;
    attend(shared, a, sequence,
           {batch, item / rows, its_row, its_row + sequence.keys - sequence.queries});
  }

 private:
  // From what was met before, as if it was one key: lse its score, out its value.
  __device__ __forceinline__ static void go_on(const Call& call, const QueryPlace& query,
                                               int64_t row, thread::MaxSum& total,
                                               float (&gathered)[kPieces][4]) {
    total = {thread::load(call.lse.at<const float>(query.batch, query.head, row)), 1.0F};
    ptx::syncwarp();                              // all have read it before one writes
    if (total.max == -thread::kInfinity) return;  // there was none
    const Out* met = call.out.at<const Out>(query.batch, query.head, row);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = (p * kWarpSize + lane_index()) * 4 + e;
        if (column >= call.value_dim) continue;
        gathered[p][e] = to_float(thread::load(met + column * call.out.column));
      }
    }
  }

  __device__ static void attend(SharedStorage& shared, const Arguments& a, const Sequence& sequence,
                                const QueryPlace& query) {
    const Call& call = a.call;
    const int lane = lane_index();
    const auto dim = static_cast<int>(call.head_dim);
    const auto value_dim = static_cast<int>(call.value_dim);
    const int64_t kv_head = query.head / call.group();
    const SharedSpan<float> weights{shared.weights.pointer(warp_index() * kWarpSize), kWarpSize};
    const int64_t row = sequence.first_query + query.row;
    const T* q = call.q.at<const T>(query.batch, query.head, row);
    float of_products = 1;
    float of_values = 1;
    if constexpr (kScaled) {
      const auto scales = a.scales.of(query.batch, query.head, kv_head);
      if (!scales.are_right) return;
      of_products = scales.products;
      of_values = scales.values;
    }
    thread::MaxSum total = sink_of(call, query.head);
    float gathered[kPieces][4] = {};
    if constexpr (kGoesOn) go_on(call, query, row, total, gathered);
    if (lane != 0) total.sum = 0;  // each lane has its own part of the sum
    const Seen<int64_t> seen{0, sequence.keys, call.window.left, call.window.right};
    const int64_t end = seen.end(query.over);
    for (int64_t first = seen.first(query.over); first < end; first += kWarpSize) {
      const int64_t j = first + lane;
      float score = -thread::kInfinity;
      if (j < end) {
        const KeyPlace place = a.sequences.place_of(query.batch, sequence, j);
        const Kv* k = call.k.at<const Kv>(place.batch, kv_head, place.row);
        float product = 0;
        for (int d = 0; d < dim; d += 4) {
          const Vec<float, 4> of_q = a.q.four(q, d, dim);
          const Vec<float, 4> of_k = a.k.four(k, d, dim);
#pragma unroll
          for (int e = 0; e < 4; ++e) product += of_q[e] * of_k[e];
        }
        score = score_of<T>(call, query, j, product * of_products);
      }
      const auto higher = [](float x, float y) { return fmaxf(x, y); };
      const float highest = fmaxf(total.max, warp::all_reduce(score, higher));
      const float shift = thread::finite_or_zero(highest);
      const float rescale = thread::fast_exp(total.max - shift);
      const float weight = thread::fast_exp(score - shift);
      weights[lane] = weight;
      total = {highest, total.sum * rescale + weight};
#pragma unroll
      for (auto& piece : gathered) {
#pragma unroll
        for (float& element : piece) element *= rescale;
      }
      ptx::syncwarp();
      for (int64_t i = first; i < end && i < first + kWarpSize; ++i) {
        const KeyPlace place = a.sequences.place_of(query.batch, sequence, i);
        const Kv* v = call.v.at<const Kv>(place.batch, kv_head, place.row);
        const float of_key = weights[i - first];
#pragma unroll
        for (int p = 0; p < kPieces; ++p) {
          const int column = (p * kWarpSize + lane) * 4;
          if (column >= value_dim) break;
          const Vec<float, 4> four = a.v.four(v, column, value_dim);
#pragma unroll
          for (int e = 0; e < 4; ++e) gathered[p][e] += of_key * four[e];
        }
      }
      ptx::syncwarp();
    }

    Out* out = call.out.at<Out>(query.batch, query.head, row);
    const float sum = warp::all_reduce(total.sum, [](float x, float y) { return x + y; });
    const float scale = sum == 0 ? 0.0F : of_values / sum;
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = (p * kWarpSize + lane) * 4 + e;
        if (column >= value_dim) continue;
        thread::store(out + column * call.out.column, from_float<Out>(gathered[p][e] * scale));
      }
    }
    if (lane != 0) return;
    thread::store(call.lse.at<float>(query.batch, query.head, row), total.max + thread::log(sum));
  }
};

struct Any {
  static void run(const attention::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() { run<T, T, T>(call, context); });
  }
  static void run(const VarlenCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      call.has_kv_of_8_bits ? run<T, T, e4m3>(call, context) : run<T, T, T>(call, context);
    });
  }
  static void run(const ScaledCall& call, const Context& context) {
    with_type<kHalves>(call.out_dtype, [&]<class Out>() { run<e4m3, Out, e4m3>(call, context); });
  }

 private:
  template <class T, class Out, class Kv, class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    using Kernel = AnyKernel<T, Out, false, Kv>;
    constexpr const char* kName = "attention/any";
    const Sequences sequences(call, kName);
    const int64_t rows = sequences.packed ? sequences.queries : call.batch * call.queries;
    launch<Kernel>(
        {.blocks = divide_up(rows * call.heads, Kernel::kWarps), .threads = Kernel::kThreads},
        context.stream,
        {call, sequences, AnyRows::of<T>(call.q), AnyRows::of<Kv>(call.k), AnyRows::of<Kv>(call.v),
         ScalesOf<Kv>(call, kName)});
  }
};

// What a rank of Ulysses computes: attention over the whole sequence, of its share of the heads.
inline constexpr Seed kUlyssesSeeds[] = {{.name = "ulysses_attention", .operation = "attention"}};
inline constexpr Rung kAny = rung_of<Any, Attention, AttentionVarlen, ScaledAttention>({
    .name = "any",
    .from = "online",
    .idea = "a warp a query, any strides, lengths, pages and scores; the softmax online",
    .seeds = kUlyssesSeeds,
});

}  // namespace ws::attention
