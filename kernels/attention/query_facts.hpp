// What the gradient of attention wants to know of each query: a first kernel finds it once.
#pragma once

#include "kernels/attention/score_gradient.hpp"
#include "kernels/attention/sequences.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::attention {

// What the first kernel leaves of each query. Rows of a head are filled up to a multiple of
// kTogether with queries that see nothing, so that tiles of them are whole. So are those of each of
// packed sequences: sequence b begins at tile first query / kTogether + b, before which the one
// before it ends.
struct QueryFacts {
  static constexpr int kTogether = 128;

  float* lse;  // of base 2; infinity where there is nothing to see, so that weights are 0
  float* deltas;
  int64_t rows;  // of a head

  static int64_t rows_of(const BackwardCall& call) {
    return divide_up(call.queries, kTogether) * kTogether;
  }
  static int64_t rows_of(const VarlenBackwardCall& call) {
    return (call.total_queries / kTogether + call.batch) * kTogether;
  }
  template <class AnyCall>
  static int64_t count(const AnyCall& call) {
    return batches_of(call) * call.heads * rows_of(call);
  }
  // Packed, they are counted in 32 bits.
  static bool can_count(const VarlenBackwardCall& call, Why& why) {
    constexpr int64_t kMostSequences = int64_t{1} << 23;
    return why.unless(call.batch < kMostSequences, "takes fewer than 2^23 sequences");
  }
  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    return {.bytes = 2 * sizeof(float) * static_cast<size_t>(count(call))};
  }
  template <class AnyCall>
  static QueryFacts in(const AnyCall& call, void* workspace) {
    auto* const lse = static_cast<float*>(workspace);
    return {lse, lse + count(call), rows_of(call)};
  }
};

// A block has kTogether rows of a head, a warp 32 of them, of which it reads kAtOnce at a time.
template <class T, bool kByFour, class AnyCall = BackwardCall>
struct BackwardFactsKernel {
  static constexpr int kThreads = QueryFacts::kTogether;
  static constexpr int kAtOnce = 4;
  struct Arguments {
    AnyCall call;
    AnyRows dout, out;
    QueryFacts facts;
    SequencesOf<AnyCall> sequences;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t item = block_index() * kThreads + thread_index();
    const int64_t of_all = block_index() * kThreads / a.facts.rows;
    const int64_t head = of_all % call.heads;
    const int64_t batch = of_all / call.heads;
    const int64_t row = item - of_all * a.facts.rows;
    if constexpr (kIsPacked<AnyCall>) {
      BackwardCall its = call;
      tell(a, its, item, batch, head, row_of_all(a.sequences, row, its.queries));
    } else {
      tell(a, call, item, batch, head, row);
    }
  }

 private:
  // Of query `row` of a head, those of a sequence being before call.queries.
  __device__ __forceinline__ static void tell(const Arguments& a, const BackwardCall& call,
                                              int64_t item, int64_t batch, int64_t head,
                                              int64_t row) {
    const int64_t first = row - lane_index();
    float lse = -thread::kInfinity;
    if (row < call.queries) lse = thread::load(call.lse.at<const float>(batch, head, row));
    float delta = 0;
#pragma unroll 1
    for (int i = 0; i < kWarpSize && first + i < call.queries; i += kAtOnce) {
      float found[kAtOnce];
      deltas_of<T, kByFour>(call, a.dout, a.out, batch, head, first + i, found);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (lane_index() == i + j) delta = found[j];
      }
    }
    // Who sees nothing has no part in any gradient, whatever that of its lse is.
    const bool sees = lse != -thread::kInfinity;
    thread::store(a.facts.lse + item, sees ? lse * thread::kLog2E : thread::kInfinity);
    thread::store(a.facts.deltas + item, sees ? delta : 0.0F);
  }

  // From a row among facts to one among all queries, and where those of its sequence end: at 0
  // where it is nobody's.
  __device__ __forceinline__ static int64_t row_of_all(const Sequences& sequences, int64_t row,
                                                       int64_t& end) {
    end = 0;
    const int b =
        sequences.of_tile(static_cast<int>(row / QueryFacts::kTogether), QueryFacts::kTogether);
    if (b < 0) return row;
    const Sequence sequence = sequences.of(b);
    if (sequence.queries == 0) return row;
    end = sequence.first_query + sequence.queries;
    const int64_t first_tile = sequence.first_query / QueryFacts::kTogether + b;
    return sequence.first_query + row - first_tile * QueryFacts::kTogether;
  }
};

template <class T, class AnyCall>
void launch_facts(const AnyCall& call, const QueryFacts& facts, Stream stream) {
  if (QueryFacts::count(call) == 0) return;
  const AnyRows dout = AnyRows::of<T>(call.dout);
  const AnyRows out = AnyRows::of<T>(call.out);
  const auto launch_by = [&]<class Facts>() {
    launch<Facts>({.blocks = QueryFacts::count(call) / Facts::kThreads, .threads = Facts::kThreads},
                  stream, {call, dout, out, facts, {call, ""}});
  };
  if (dout.by_four && out.by_four && call.value_dim % 4 == 0) {
    launch_by.template operator()<BackwardFactsKernel<T, true, AnyCall>>();
  } else {
    launch_by.template operator()<BackwardFactsKernel<T, false, AnyCall>>();
  }
}

}  // namespace ws::attention
