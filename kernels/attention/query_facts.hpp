// What the gradient of attention wants to know of each query: a first kernel finds it once.
#pragma once

#include "kernels/attention/score_gradient.hpp"
#include "warpsmith/launch.hpp"

namespace ws::attention {

// What the first kernel leaves of each query. Rows of a head are filled up to a multiple of
// kTogether with queries that see nothing, so that tiles of them are whole.
struct QueryFacts {
  static constexpr int kTogether = 128;

  float* lse;  // of base 2; infinity where there is nothing to see, so that weights are 0
  float* deltas;
  int64_t rows;  // of a head

  static int64_t rows_of(const BackwardCall& call) {
    return divide_up(call.queries, kTogether) * kTogether;
  }
  static int64_t count(const BackwardCall& call) { return call.batch * call.heads * rows_of(call); }
  static QueryFacts in(const BackwardCall& call, void* workspace) {
    auto* const lse = static_cast<float*>(workspace);
    return {lse, lse + count(call), rows_of(call)};
  }
};

template <class T>
struct BackwardFactsKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    BackwardCall call;
    AnyRows dout, out;
    QueryFacts facts;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t item = block_index() * (kThreads / kWarpSize) + warp_index();
    const int64_t row = item % a.facts.rows;
    const int64_t head = item / a.facts.rows % call.heads;
    const int64_t batch = item / a.facts.rows / call.heads;
    float lse = -thread::kInfinity;
    float delta = 0;
    if (row < call.queries) {
      lse = thread::load(call.lse.at<const float>(batch, head, row));
      delta = delta_of<T>(call, a.dout, a.out, batch, head, row);
    }
    if (lane_index() != 0) return;
    thread::store(a.facts.lse + item,
                  lse == -thread::kInfinity ? thread::kInfinity : lse * thread::kLog2E);
    thread::store(a.facts.deltas + item, delta);
  }
};

template <class T>
void launch_facts(const BackwardCall& call, const QueryFacts& facts, Stream stream) {
  using Facts = BackwardFactsKernel<T>;
  if (QueryFacts::count(call) == 0) return;
  launch<Facts>({.blocks = QueryFacts::count(call) / (Facts::kThreads / kWarpSize),
                 .threads = Facts::kThreads},
                stream, {call, AnyRows::of<T>(call.dout), AnyRows::of<T>(call.out), facts});
}

}  // namespace ws::attention
