// What the gradient of attention wants to know of each query: a first kernel finds it once.
#pragma once

#include "kernels/attention/dq_sums.hpp"
#include "kernels/attention/row_tile.hpp"
#include "kernels/attention/score_gradient.hpp"
#include "kernels/attention/sequences.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/row/packed.hpp"
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

#if WS_DEVICE_CODE
  // From row `row` of a head, as they are here, of packed sequences to one among all queries; and
  // where those of its sequence end: at 0 where it is nobody's.
  __device__ __forceinline__ static int64_t row_of_all(const Sequences& sequences, int64_t row,
                                                       int64_t& end) {
    end = 0;
    const int b = sequences.of_tile(static_cast<int>(row / kTogether), kTogether);
    if (b < 0) return row;
    const Sequence sequence = sequences.of(b);
    if (sequence.queries == 0) return row;
    end = sequence.first_query + sequence.queries;
    const int64_t first_tile = sequence.first_query / kTogether + b;
    return sequence.first_query + row - first_tile * kTogether;
  }
#endif
};

// A block has kTogether rows of a head, a warp 32 of them, of which a lane reads kAtOnce at a time.
// kLanes lanes have a row, 16 bytes each, of rows that begin at multiples of them and have whole
// ones; 0: a warp has a row, which may be any.
template <class T, int kLanes, class AnyCall = BackwardCall>
struct BackwardFactsKernel {
  static constexpr int kThreads = QueryFacts::kTogether;
  // Of 128 bytes a lane under way.
  static constexpr int kMinBlocks = kLanes == 0 ? 1 : sizeof(T) == 2 ? 8 : 5;
  static constexpr int kAtOnce = 4;
  struct Arguments {
    AnyCall call;
    AnyRows dout, out;
    QueryFacts facts;
    DqSumsToClear cleared;
    SequencesOf<AnyCall> sequences;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const auto block = static_cast<int>(block_index());
    const auto tiles = static_cast<int>(a.facts.rows / kThreads);
    const auto heads = static_cast<int>(call.heads);
    const int of_all = block / tiles;
    const int batch = of_all / heads;
    const int head = of_all - batch * heads;
    const int64_t row = (block - of_all * tiles) * kThreads + thread_index();
    if constexpr (kIsPacked<AnyCall>) {
      BackwardCall its = call;
      tell(a, its, batch, head, QueryFacts::row_of_all(a.sequences, row, its.queries));
    } else {
      tell(a, call, batch, head, row);
    }
  }

 private:
  // Of query `row` of a head, those of a sequence being before call.queries.
  __device__ __forceinline__ static void tell(const Arguments& a, const BackwardCall& call,
                                              int64_t batch, int64_t head, int64_t row) {
    float lse = -thread::kInfinity;
    if (row < call.queries) lse = thread::load(call.lse.at<const float>(batch, head, row));
    float delta = 0;
    if constexpr (kLanes > 0) {
      delta = delta_by_lanes(a, call, batch, head, row);
    } else {
      delta = delta_by_warp(a, call, batch, head, row);
    }
    // Who sees nothing has no part in any gradient, whatever that of its lse is.
    const bool sees = lse != -thread::kInfinity;
    const int64_t item = block_index() * kThreads + thread_index();
    thread::store(a.facts.lse + item, sees ? lse * thread::kLog2E : thread::kInfinity);
    thread::store(a.facts.deltas + item, sees ? delta : 0.0F);
  }

  // A row after the other: each lane keeps that of its own.
  __device__ __forceinline__ static float delta_by_warp(const Arguments& a,
                                                        const BackwardCall& call, int64_t batch,
                                                        int64_t head, int64_t row) {
    clear(a, 0, 1);
    const int64_t first = row - lane_index();
    float delta = 0;
#pragma unroll 1
    for (int i = 0; i < kWarpSize && first + i < call.queries; i += kAtOnce) {
      float found[kAtOnce];
      deltas_of<T>(call, a.dout, a.out, batch, head, first + i, found);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (lane_index() == i + j) delta = found[j];
      }
    }
    return delta;
  }

  // kLanes lanes have as many rows: theirs.
  __device__ __forceinline__ static float delta_by_lanes(const Arguments& a,
                                                         const BackwardCall& call, int64_t batch,
                                                         int64_t head, int64_t row) {
    constexpr int kWidth = 16 / sizeof(T);
    using Piece = row::Packed<T, kWidth>;
    const int lane = lane_index() % kLanes;
    const int64_t first = row - lane;
    const int rows =
        call.queries - first < kLanes ? static_cast<int>(call.queries - first) : kLanes;
    const auto columns = static_cast<int>(call.value_dim);
    const T* dout = a.dout.template at<const T>(batch, head, first) + lane * kWidth;
    const T* out = a.out.template at<const T>(batch, head, first) + lane * kWidth;
    float delta = 0;
#pragma unroll 1
    for (int i = 0; i < kLanes; i += kAtOnce) {
      Piece of_dout[kAtOnce];
      Piece of_out[kAtOnce];
      const auto fetch = [&](int piece) {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          of_dout[j] = {};
          of_out[j] = {};
          if (piece + lane * kWidth >= columns || i + j >= rows) continue;
          of_dout[j] = Piece::load(dout + j * a.dout.row + piece);
          of_out[j] = Piece::load(out + j * a.out.row + piece);
        }
      };
      float found[kAtOnce] = {};
      const auto add = [&] {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
#pragma unroll
          for (int e = 0; e < kWidth; ++e) found[j] += of_dout[j][e] * of_out[j][e];
        }
      };
      fetch(0);
      clear(a, i / kAtOnce, kLanes / kAtOnce);  // while they come
      add();
      for (int piece = kLanes * kWidth; piece < columns; piece += kLanes * kWidth) {
        fetch(piece);
        add();
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        found[j] = warp::all_reduce<kLanes>(found[j], [](float a, float b) { return a + b; });
        if (lane == i + j) delta = found[j];
      }
      dout += kAtOnce * a.dout.row;
      out += kAtOnce * a.out.row;
    }
    if (call.dlse.data != nullptr && row < call.queries) {
      delta -= thread::load(call.dlse.at<const float>(batch, head, row));
    }
    return delta;
  }

  // The nth of so many shares of the block's rows of sums of dq.
  __device__ __forceinline__ static void clear(const Arguments& a, int nth, int shares) {
    static_assert(kThreads == DqSums::kStepThreads);
    if (a.cleared.sums == nullptr) return;
    float* const to = a.cleared.sums + DqSums::at(block_index() * QueryFacts::kTogether,
                                                  a.cleared.dim, 0, thread_index());
    const int steps = a.cleared.columns / DqSums::kStepColumns;
#pragma unroll 2
    for (int step = nth; step < steps; step += shares) {
#pragma unroll
      for (int rows = 0; rows < QueryFacts::kTogether; rows += DqSums::kRows) {
        thread::store(to + rows * a.cleared.dim + step * DqSums::kStep, Vec<float, 4>{});
      }
    }
  }
};

// `cleared`: sums that are zero behind it.
template <class T, class AnyCall>
void launch_facts(const AnyCall& call, const QueryFacts& facts, Stream stream,
                  const DqSumsToClear& cleared = {}) {
  if (QueryFacts::count(call) == 0) return;
  const auto launch_by = [&]<int kLanes>() {
    using Facts = BackwardFactsKernel<T, kLanes, AnyCall>;
    launch<Facts>(
        {.blocks = QueryFacts::count(call) / Facts::kThreads, .threads = Facts::kThreads}, stream,
        {call, AnyRows::of<T>(call.dout), AnyRows::of<T>(call.out), facts, cleared, {call, ""}});
  };
  constexpr int64_t kWidth = 16 / sizeof(T);
  const auto is_whole = [&](const Heads& heads) {
    return is_aligned(heads, call.dtype, batches_of(call), call.heads, call.queries,
                      call.value_dim);
  };
  if (call.value_dim % kWidth != 0 || !is_whole(call.dout) || !is_whole(call.out)) {
    launch_by.template operator()<0>();
  } else if (call.value_dim <= 8 * kWidth) {
    launch_by.template operator()<8>();
  } else {
    launch_by.template operator()<16>();
  }
}

}  // namespace ws::attention
