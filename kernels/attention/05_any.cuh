// Idea: nothing is asked of a call. Strides are numbers, a key's place is looked up in its page,
// and
//   a score passes through all that an operation can do to it.
// From naive: a warp owns a query. Each lane meets a key, 32 at a time, then each lane has columns
//   of the values; the softmax is online, so that there is no workspace.
// Traffic: a query reads all keys and values that it sees, once.
// Limits: D and Dv up to 1024. A lane walks its own row of k: sectors are fetched by few lanes.
#pragma once

#include "kernels/attention/sequences.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::attention {

template <class T, class AnyCall>
struct AnyKernel {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kMostDim = 1024;
  static constexpr int kLaneColumns = kMostDim / kWarpSize;

  struct Arguments {
    AnyCall call;
    Sequences sequences;
  };
  struct SharedStorage {
    SharedArray<float, kWarps * kMostDim> queries;
    SharedArray<float, kWarps * kWarpSize> weights;
  };

  // Where a key's rows of k and v are.
  struct Place {
    int64_t batch, row;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Call& call = a.call;
    const int warp = warp_index();
    a.sequences.report(block_index() * kThreads + thread_index(), grid_blocks() * kThreads);
    const int64_t item = block_index() * kWarps + warp;  // queries of one head, then of the next
    const int64_t rows = a.sequences.packed ? a.sequences.queries : call.batch * call.queries;
    if (item >= rows * call.heads) return;
    const int64_t head = item / rows;
    int64_t row = item % rows;
    const int64_t batch = a.sequences.packed ? a.sequences.of_row(row) : row / call.queries;
    if (batch < 0 || batch >= a.sequences.count) return;
    const Sequence sequence = a.sequences.of(batch);
    row = a.sequences.packed ? row - sequence.first_query : row % call.queries;
    if (row >= sequence.queries) return;
    attend(shared, a, warp, batch, head, row, sequence);
  }

 private:
  __device__ static void attend(SharedStorage& shared, const Arguments& a, int warp, int64_t batch,
                                int64_t head, int64_t row, const Sequence& sequence) {
    const Call& call = a.call;
    const int lane = lane_index();
    const int64_t kv_head = head / call.group();
    const SharedSpan<float> query{shared.queries.pointer(warp * kMostDim), kMostDim};
    const SharedSpan<float> weights{shared.weights.pointer(warp * kWarpSize), kWarpSize};
    const T* q = call.q.as<const T>() + batch * call.q.batch + head * call.q.head +
                 (sequence.first_query + row) * call.q.row;
    for (int64_t d = lane; d < call.head_dim; d += kWarpSize) {
      query[d] = to_float(thread::load(q + d * call.q.column));
    }
    ptx::syncwarp();

    const int64_t over = row + sequence.keys - sequence.queries;
    const int64_t first =
        call.window.left < 0 || over < call.window.left ? 0 : over - call.window.left;
    int64_t last = sequence.keys;
    if (call.window.right >= 0 && over + call.window.right + 1 < last) {
      last = over + call.window.right + 1;
    }
    float max = call.sinks.exists ? thread::load(call.sinks.data + head * call.sinks.head)
                                  : -thread::kInfinity;
    float sum = call.sinks.exists ? 1.0F : 0.0F;
    float gathered[kLaneColumns] = {};
    for (int64_t at = first; at < last; at += kWarpSize) {
      const int64_t j = at + lane;
      const float score = j < last
                              ? score_of(a, query, batch, head, kv_head, row, over, j, sequence)
                              : -thread::kInfinity;
      const auto higher = [](float x, float y) { return fmaxf(x, y); };
      const float highest = fmaxf(max, warp::all_reduce(score, higher));
      const float shift = thread::finite_or_zero(highest);
      const float rescale = thread::fast_exp(max - shift);
      max = highest;
      const float weight = thread::fast_exp(score - shift);
      weights[lane] = weight;
      sum = sum * rescale + warp::all_reduce(weight, [](float x, float y) { return x + y; });
      for (int i = 0; i < kLaneColumns; ++i) gathered[i] *= rescale;
      ptx::syncwarp();
      for (int64_t i = at; i < last && i < at + kWarpSize; ++i) {
        const Place place = place_of(a, batch, sequence, i);
        const T* v = call.v.as<const T>() + place.batch * call.v.batch + kv_head * call.v.head +
                     place.row * call.v.row;
        const float of_key = weights[i - at];
#pragma unroll
        for (int c = 0; c < kLaneColumns; ++c) {
          const int64_t column = c * kWarpSize + lane;
          if (column >= call.value_dim) break;
          gathered[c] += of_key * to_float(thread::load(v + column * call.v.column));
        }
      }
      ptx::syncwarp();
    }

    T* out = call.out.as<T>() + batch * call.out.batch + head * call.out.head +
             (sequence.first_query + row) * call.out.row;
    const float scale = sum > 0 ? 1 / sum : 0.0F;
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c) {
      const int64_t column = c * kWarpSize + lane;
      if (column >= call.value_dim) break;
      thread::store(out + column * call.out.column, from_float<T>(gathered[c] * scale));
    }
    if (lane == 0) {
      float* lse = call.lse.as<float>() + batch * call.lse.batch + head * call.lse.head;
      thread::store(lse + (sequence.first_query + row) * call.lse.row,
                    sum > 0 ? max + thread::log(sum) : -thread::kInfinity);
    }
  }

  __device__ static Place place_of(const Arguments& a, int64_t batch, const Sequence& sequence,
                                   int64_t j) {
    const Sequences& sequences = a.sequences;
    if (sequences.pages == nullptr) return {batch, sequence.first_key + j};
    int64_t page = sequences.page_of(batch, j);
    if (page < 0 || page >= sequences.total_pages) page = 0;  // reported
    return {page, j % sequences.page};
  }

  __device__ static float score_of(const Arguments& a, const SharedSpan<float>& query,
                                   int64_t batch, int64_t head, int64_t kv_head, int64_t row,
                                   int64_t over, int64_t j, const Sequence& sequence) {
    const Call& call = a.call;
    const Place place = place_of(a, batch, sequence, j);
    const T* k = call.k.as<const T>() + place.batch * call.k.batch + kv_head * call.k.head +
                 place.row * call.k.row;
    float sum = 0;
    for (int64_t d = 0; d < call.head_dim; ++d) {
      sum += query[d] * to_float(thread::load(k + d * call.k.column));
    }
    float score = sum * call.scale;
    if (call.softcap > 0) score = call.softcap * thread::tanh(score / call.softcap);
    if (call.slopes.exists) {
      const float slope =
          thread::load(call.slopes.data + batch * call.slopes.batch + head * call.slopes.head);
      score -= slope * fabsf(static_cast<float>(over - j));
    }
    if (!call.bias.exists) return score;
    const Heads& bias = call.bias.at;
    const int64_t at = batch * bias.batch + head * bias.head + row * bias.row + j * bias.column;
    if (call.bias.dtype == DType::kBool) {
      return thread::load(bias.as<const bool>() + at) ? score : -thread::kInfinity;
    }
    return score + (call.bias.dtype == DType::kF32
                        ? thread::load(bias.as<const float>() + at)
                        : to_float(thread::load(bias.as<const T>() + at)));
  }
};

struct Any {
  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = AnyKernel<T, AnyCall>;
      Sequences sequences(call, "attention/any");
      const int64_t rows = sequences.packed ? sequences.queries : call.batch * call.queries;
      launch<Kernel>(
          {.blocks = divide_up(rows * call.heads, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream, {call, sequences});
    });
  }
};

inline constexpr Rung kAny = rung_of<Any, Attention, AttentionVarlen>({
    .name = "any",
    .from = "naive",
    .idea = "a warp a query, any strides, lengths, pages and scores; the softmax online",
});

}  // namespace ws::attention
