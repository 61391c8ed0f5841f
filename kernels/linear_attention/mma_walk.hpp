// A walk in chunks on tensor cores (mma.sync), which the rungs of 16 bits share.
//
// A block of four warps owns 64 columns of a head's state, or fewer. A warp owns 16 steps of each
// chunk, for their pairs and outputs, and 16 rows of the state in every 64: both are accumulators
// in its registers. The state is also in shared memory, rounded to 16 bits, as an operand. The next
// chunk's q, k and v are asked for (cp.async) before this one is used.
//
// Of states of 256 rows a warp's registers hold 32 columns: a block has two such teams, which share
// what lies in shared memory, and each finds the pairs of its steps.
//
// Where dots of the outputs are wanted, which are taken before these are rounded, what is rounded
// to 16 bits on the way, pairs, decayed keys and the state, is two numbers each, what the first is
// off by being the second: their products are off by 2^-16 instead of 2^-8.
#pragma once

#include <bit>

#include "kernels/attention/row_tile.hpp"
#include "kernels/linear_attention/chunk.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/tile/warp_store.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::linear_attention {

struct MmaWalkArguments {
  Walk walk;
  Segments segments{};
  bool out_aligned = false;  // 16 bytes of a row at a time, of each output
  // Of the delta rule.
  const void* inverses = nullptr;  // [matrices, chunks, 64, 64] of T
  Rows weighed{};                  // outputs of kAdded times beta
  void* kept = nullptr;            // states before chunks: [matrices, chunks, ceil(value_dim / 64)]
                                   // of a tile of 64 columns, as it lies in shared memory
  int first_steps = kChunk;  // of the first chunk, of kAdded and its inverses; others are full
};

// What a walk gives: outputs; of the delta rule them, or what its gradient is made of, and then the
// state before each chunk, too.
enum class Gives {
  kOutputs,
  kOutputsAndDots,
  kDeltaOutputs,
  kErrors,  // v[t] - (decay[t] state[t - 1])^T k[t]; q is nobody's
  kAdded,   // q[t] state[t], times which and beta the step then takes q[t] off its own state
};

constexpr int kMmaMostDim = 256;

// f<kDim>(): the least number of rows, of those that walks are compiled for, that holds `dim`.
template <class F>
void with_dim(int64_t dim, F&& f) {
  switch (rows_of_state(dim)) {
    case 64: return f.template operator()<64>();
    case 128: return f.template operator()<128>();
    default: f.template operator()<kMmaMostDim>();
  }
}

constexpr int shared_bytes_of(int64_t dim) { return (dim <= 128 ? 128 : 222) * 1024; }

inline bool is_aligned(const Walk& walk, const Rows& rows, int64_t columns) {
  const auto steps_well = [](int64_t extent, int64_t stride) {
    return extent <= 1 || stride % 8 == 0;
  };
  return (columns <= 1 || rows.column == 1) && reinterpret_cast<uintptr_t>(rows.data) % 16 == 0 &&
         steps_well(walk.batch, rows.batch) && steps_well(walk.heads / rows.group, rows.head) &&
         steps_well(walk.steps, rows.row);
}

inline bool mma_takes(const Walk& walk, Why& why) {
  constexpr int64_t kMostSteps = int64_t{1} << 30;
  return why.unless(walk.dim <= kMmaMostDim, "holds states of up to ", kMmaMostDim, " rows, not ",
                    walk.dim) &&
         why.unless(walk.steps < kMostSteps, "takes fewer than 2^30 steps") &&
         why.unless(is_aligned(walk, walk.q, walk.dim) && is_aligned(walk, walk.k, walk.dim) &&
                        is_aligned(walk, walk.v, walk.value_dim),
                    "needs rows that begin at multiples of 16 bytes") &&
         why.unless(device_facts().shared_bytes >= shared_bytes_of(walk.dim), "needs ",
                    shared_bytes_of(walk.dim), " bytes of shared memory");
}

#if WS_DEVICE_CODE
// Two numbers of T, each times its own, rounded; `rest`: what rounding took off.
template <class T, bool kRest>
__device__ __forceinline__ uint32_t scaled(uint32_t pair, const Vec<float, 2>& by, uint32_t& rest) {
  const auto values = std::bit_cast<Vec<T, 2>>(pair);
  const float low = to_float(values[0]) * by[0];
  const float high = to_float(values[1]) * by[1];
  const uint32_t rounded = tile::pack<T>(low, high);
  if constexpr (kRest) {
    const auto off = std::bit_cast<Vec<T, 2>>(rounded);
    rest = tile::pack<T>(low - to_float(off[0]), high - to_float(off[1]));
  }
  return rounded;
}
template <class T, bool kRest>
__device__ __forceinline__ uint32_t rounded(float low, float high, uint32_t& rest) {
  const uint32_t pair = tile::pack<T>(low, high);
  if constexpr (kRest) {
    const auto off = std::bit_cast<Vec<T, 2>>(pair);
    rest = tile::pack<T>(low - to_float(off[0]), high - to_float(off[1]));
  }
  return pair;
}

// Sums of a warp, of 16 x 64 or of fewer columns: a lane has rows lane / 4 and 8 below, two columns
// of every 8.
template <int kColumns>
using SumsOf = float[kColumns / 8][4];
using Sums = SumsOf<64>;

// Rounded, to a tile of rows of 64, in which this lane's first stands at `first`.
template <class T, int kEights>
__device__ __forceinline__ void store_sums(SharedSpan<T> to, int first,
                                           const float (&sums)[kEights][4] WS_AND_PLACE) {
#pragma unroll
  for (int n = 0; n < kEights; ++n) {
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      // Eight columns further is an exclusive or: see SwizzledTile.
      const uint32_t pair = tile::pack<T>(sums[n][e], sums[n][e + 1]);
      to.template store<2>((first ^ n * 8) + e * 4 * 64,
                           std::bit_cast<Vec<T, 2>>(pair) WS_PASS_AND_PLACE);
    }
  }
}

// Two products of 16 x 8, columns from 8 * n on.
template <class T, int kEights>
__device__ __forceinline__ void multiply_add(float (&sums)[kEights][4], int n,
                                             const uint32_t (&left)[4],
                                             const uint32_t (&right)[4] WS_AND_PLACE) {
  const uint32_t first[2] = {right[0], right[1]};
  const uint32_t second[2] = {right[2], right[3]};
  ptx::mma_m16n8k16<T>(sums[n], left, first, sums[n] WS_PASS_AND_PLACE);
  ptx::mma_m16n8k16<T>(sums[n + 1], left, second, sums[n + 1] WS_PASS_AND_PLACE);
}

// Long: a chunk is four products, and what comes between them.
template <class T, int kDim, Gives kGives, int kColumnsOf = 64>
struct MmaWalkKernel {
  static constexpr bool kDots = kGives == Gives::kOutputsAndDots;
  static constexpr bool kCorrects = kGives >= Gives::kDeltaOutputs;  // by inverses
  static constexpr bool kKeeps = kGives == Gives::kErrors || kGives == Gives::kAdded;
  static constexpr int kColumns = kColumnsOf;  // of a block
  static constexpr int kTeams = kColumns > columns_of_warp(kDim) ? 2 : 1;
  static constexpr int kOwnColumns = kColumns / kTeams;  // of a warp
  static constexpr int kThreads = 128 * kTeams;
  // Three, of 64 rows, would spill up to 48 bytes.
  static constexpr int kMinBlocks = kDim > 128 ? 1 : 2;
  static constexpr int kParts = kDots ? 2 : 1;
  static constexpr int kDown = kDim / 64;
  using Steps = attention::RowTile<T, kChunk, kDim, kThreads>;
  using Values = attention::RowTile<T, kChunk, kColumns, kThreads>;
  using State = attention::RowTile<T, kDim, kColumns, kThreads>;
  using Inverse = attention::RowTile<T, kChunk, kChunk, kThreads>;
  using Own = attention::RowTile<T, 16, kOwnColumns, kWarpSize>;  // a warp's steps
  using Outputs = SumsOf<kOwnColumns>;                            // and theirs
  using Held = Outputs[kDown];                                    // the warp's rows of the state
  // Of the warp's 16 steps and 64, rounded: what a left operand has of 8 columns, rows 8 apart.
  using Pairs = uint32_t[kParts][8][2];
  using Arguments = MmaWalkArguments;
  struct SharedStorage {
    SharedArray<T, 2 * Steps::kElements, 128> q;
    SharedArray<T, 2 * Steps::kElements, 128> k;
    SharedArray<T, 2 * Values::kElements, 128> v;
    SharedArray<T, kParts * State::kElements, 128> state;
    SharedArray<float, 2 * kChunk> sums;
    SharedArray<float, 1> total;
    SharedArray<T, kCorrects ? 2 * Inverse::kElements : 8, 128> inverses;
    SharedArray<float, kCorrects ? 2 * kChunk : 4> beta;
    // Where each thread finds what it reads and writes: offsets that are kept from chunk to chunk
    // would cost registers.
    SharedArray<int, kThreads> of_state;
    SharedArray<int, kThreads> of_rows;
    SharedArray<int, kThreads> of_values;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Walk& walk = a.walk;
    const int count = static_cast<int>(a.segments.count);
    const int walked = count - (a.segments.finds_states ? 1 : 0);
    const int blocks = divide_up(static_cast<int>(walk.value_dim), kColumns);
    const int index = static_cast<int>(block_index());
    const int heads = static_cast<int>(walk.heads);
    const int segment = index / blocks % walked;
    const int matrix = index / blocks / walked;
    const BlockPlace at = {matrix / heads, matrix % heads, index % blocks * kColumns};
    const int length = static_cast<int>(a.segments.chunks) * kChunk;
    const int begin = segment * length;
    const int end = segment + 1 == count ? static_cast<int>(walk.steps) : begin + length;

    Held state = {};
    if (!a.segments.finds_states) {
      const StatePlace from = segment == 0 ? place_of(walk, walk.initial, at)
                                           : place_between(a, matrix, segment, at.column);
      if (from.first != nullptr) {
        for_each_state(state, from,
                       [](const float* place, float& value) { value = thread::load(place); });
      }
    }
    walk_steps(shared, a, at, begin, end, state);
    if (a.segments.finds_states) {
      for_each_state(state, place_between(a, matrix, segment, at.column),
                     [](float* place, float& value) { thread::store(place, value); });
      if (warp_index() == 0 && lane_index() == kWarpSize - 1 && at.column == 0) {
        thread::store(a.segments.totals + int64_t{matrix} * count + segment, shared.total[0]);
      }
    } else if (segment + 1 == count && walk.final.data != nullptr) {
      const float decay = last_decay(walk, at.batch, at.head);
      for_each_state(state, place_of(walk, walk.final, at),
                     [&](float* place, float& value) { thread::store(place, decay * value); });
    }
  }

  static void run(const Arguments& a, Stream stream) {
    const int64_t walked = a.segments.count - (a.segments.finds_states ? 1 : 0);
    launch<MmaWalkKernel>(
        {.blocks = a.walk.matrices() * walked * divide_up(a.walk.value_dim, kColumns),
         .threads = kThreads},
        stream, a);
  }

 private:
  // The warp's rows of 64, and its first column of the block's.
  __device__ __forceinline__ static int warp_row() {
    return (kTeams == 1 ? warp_index() : warp_index() % 4) * 16;
  }
  __device__ __forceinline__ static int warp_column() {
    return kTeams == 1 ? 0 : warp_index() / 4 * kOwnColumns;
  }
  // The warps that have the same steps meet.
  __device__ __forceinline__ static void sync_steps() {
    if constexpr (kTeams == 1) {
      ptx::syncwarp();
    } else {
      ptx::barrier_sync(1 + warp_index() % 4, kTeams * kWarpSize);
    }
  }
  // The lane's rows of 16, and its first column of 8.
  __device__ __forceinline__ static int lane_row() { return lane_index() / 4; }
  __device__ __forceinline__ static int lane_column() { return lane_index() % 4 * 2; }

  // Where this lane's first number of a state lies in memory, and what there is from it on.
  struct StatePlace {
    float* first;  // null: nowhere
    int64_t row, column;
    int rows, columns;
  };
  __device__ __forceinline__ static StatePlace place_of(const Walk& walk, const States& states,
                                                        const BlockPlace& at) {
    const int row = warp_row() + lane_row();
    const int column = at.column + warp_column() + lane_column();
    return {states.data == nullptr ? nullptr : states.at(at.batch, at.head, row, column),
            states.row, states.column, static_cast<int>(walk.dim) - row,
            static_cast<int>(walk.value_dim) - column};
  }
  __device__ __forceinline__ static StatePlace place_between(const Arguments& a, int matrix,
                                                             int segment, int first_column) {
    const int row = warp_row() + lane_row();
    const int column = first_column + warp_column() + lane_column();
    const int64_t state = matrix * a.segments.count + segment;
    return {a.segments.states + (state * a.walk.dim + row) * a.walk.value_dim + column,
            a.walk.value_dim, 1, static_cast<int>(a.walk.dim) - row,
            static_cast<int>(a.walk.value_dim) - column};
  }
  template <class F>
  __device__ __forceinline__ static void for_each_state(Held& state, const StatePlace& place,
                                                        F&& f) {
#pragma unroll
    for (int r = 0; r < kDown; ++r) {
#pragma unroll
      for (int half = 0; half < 16; half += 8) {
        const int row = r * 64 + half;
        float* const first = place.first + row * place.row;
#pragma unroll
        for (int n = 0; n < kOwnColumns / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = n * 8 + e;
            if (row < place.rows && column < place.columns) {
              f(first + column * place.column, state[r][n][half / 4 + e]);
            }
          }
        }
      }
    }
  }

  // From step `begin` to `end`; log2 of what all of them decay the state by goes to shared.total,
  // which the last lane of warp 0 has to itself.
  __device__ __forceinline__ static void walk_steps(SharedStorage& shared, const Arguments& a,
                                                    const BlockPlace& at, int begin, int end,
                                                    Held& state) {
    const Walk& walk = a.walk;
    const int dim = static_cast<int>(walk.dim);
    const int columns = static_cast<int>(walk.value_dim) - at.column;
    attention::StridedRows<T> next_q =
        Steps::strided(walk.q.at<const T>(at.batch, at.head, begin), walk.q.row);
    attention::StridedRows<T> next_k =
        Steps::strided(walk.k.at<const T>(at.batch, at.head, begin), walk.k.row);
    attention::StridedRows<T> next_v =
        Values::strided(walk.v.at<const T>(at.batch, at.head, begin) + at.column, walk.v.row);
    attention::StridedRows<T> next_inverse = {};
    if constexpr (kCorrects) {
      const int64_t matrix = at.batch * walk.heads + at.head;
      next_inverse = Inverse::strided(static_cast<const T*>(a.inverses) +
                                          matrix * divide_up(walk.steps, kChunk) * kChunk * kChunk,
                                      kChunk);
    }
    // Where the chunk from `first` on ends.
    const auto end_of = [&](int i, int first) {
      if (kGives == Gives::kAdded && i == 0) return first + a.first_steps;
      return std::min(first + kChunk, static_cast<int>(walk.steps));
    };
    const auto copy = [&](int i, int first) {
      const int rows = end_of(i, first) - first;
      const int stage = i % 2;
      if (kGives != Gives::kErrors && !a.segments.finds_states) {
        Steps::copy({shared.q.pointer(stage * Steps::kElements), Steps::kElements}, next_q,
                    static_cast<const T*>(walk.q.data), rows, dim);
      }
      Steps::copy({shared.k.pointer(stage * Steps::kElements), Steps::kElements}, next_k,
                  static_cast<const T*>(walk.k.data), rows, dim);
      Values::copy({shared.v.pointer(stage * Values::kElements), Values::kElements}, next_v,
                   static_cast<const T*>(walk.v.data), rows, columns);
      if (kGives == Gives::kAdded && i == 0) {
        const int further = kChunk - rows;  // than the next chunk begins
        next_q.next -= further * next_q.stride;
        next_k.next -= further * next_k.stride;
        next_v.next -= further * next_v.stride;
      }
      if constexpr (kCorrects) {
        Inverse::copy({shared.inverses.pointer(stage * Inverse::kElements), Inverse::kElements},
                      next_inverse, static_cast<const T*>(a.inverses), kChunk, kChunk);
        if (thread_index() < kChunk) {
          shared.beta[stage * kChunk + thread_index()] =
              thread_index() < rows
                  ? thread::load(walk.beta.at(at.batch, at.head, first + thread_index()))
                  : 0.0F;
        }
      }
      ptx::cp_async_commit_group();
    };
    const auto set_sums = [&](int i, const Vec<float, 2>& decays) {
      const auto sums = sums_of(decays);
      shared.sums.template store<2>(i % 2 * kChunk + lane_index() * 2, sums);
      if (lane_index() == kWarpSize - 1) {
        const float before = i == 0 ? 0.0F : shared.total[0];
        shared.total[0] = before + sums[1];
      }
    };

    if (begin >= end) return;
    shared.of_state[thread_index()] =
        State::Tile::offset(warp_row() + lane_row(), warp_column() + lane_column());
    shared.of_rows[thread_index()] = Steps::template lane_offset<Steps::Order::kDown>(warp_row());
    shared.of_values[thread_index()] =
        Values::further(Values::template lane_offset<Values::Order::kDown>(0), 0, warp_column());
    copy(0, begin);
    if (warp_index() == 0) {
      set_sums(0, chunk_decays(walk, at.batch, at.head, begin, end_of(0, begin)));
    }
    int next = 0;
    for (int first = begin, i = 0; first < end; first = next, ++i) {
      ptx::cp_async_wait_group<0>();
      ptx::barrier_sync();  // this chunk is there for all, and nobody reads the one before it
      next = end_of(i, first);
      const bool goes_on = next < end;
      Vec<float, 2> decays = {};
      if (goes_on) {
        copy(i + 1, next);
        if (warp_index() == 0) {
          decays = chunk_decays(walk, at.batch, at.head, next, end_of(i + 1, next));
        }
      }
      const Chunk chunk{shared, i % 2};
      Outputs out = {};
      Pairs pairs = {};
      if constexpr (kGives == Gives::kErrors) {
        chunk.show(state);
        ptx::barrier_sync();  // the state is there for all
        keep(shared, a, at, i);
        chunk.correct_values(out);
        chunk.decay(state);
        chunk.add_values(out, pairs, state, shared.k.span(), shared.v.span(), 1, true);
      } else {
        if (!a.segments.finds_states) {
          chunk.show(state);
          chunk.find_pairs(pairs, shared.k.span(), walk.scale_in * walk.scale_out);
          ptx::barrier_sync();  // the state is there for all
          if constexpr (kKeeps) keep(shared, a, at, i);
          if constexpr (kGives == Gives::kDeltaOutputs) {
            Outputs errors = {};
            chunk.correct_values(errors);
          }
          chunk.ask(out, shared.q.span(), walk.scale_out);
          if constexpr (kDots) fetch_factors(shared, a, at, first, i % 2);
        }
        chunk.decay(state);
        chunk.add_values(out, pairs, state, shared.k.span(), shared.v.span(), walk.scale_in,
                         a.segments.finds_states);
        if constexpr (kGives == Gives::kAdded) {
          chunk.correct_outputs(out);
          chunk.add_values(out, pairs, state, shared.q.span(), shared.v.span(), -1, true);
        }
      }
      if (!a.segments.finds_states) write(shared, a, walk.out, at, first, next, i % 2, out);
      if constexpr (kGives == Gives::kAdded) {
        chunk.weigh(out);
        write(shared, a, a.weighed, at, first, next, i % 2, out);
      }
      if (goes_on && warp_index() == 0) set_sums(i + 1, decays);
    }
  }

  // One chunk in shared memory.
  struct Chunk {
    SharedStorage& shared;
    int stage;

    __device__ __forceinline__ float sum(int step) const {
      return shared.sums[stage * kChunk + step];
    }
    __device__ __forceinline__ Vec<float, 2> two_sums(int step) const {
      return shared.sums.template load<2>(stage * kChunk + step);
    }

    // The state for all warps, rounded.
    __device__ __forceinline__ void show(const Held& state) const {
      const int first = shared.of_state[thread_index()];
#pragma unroll
      for (int r = 0; r < kDown; ++r) {
#pragma unroll
        for (int n = 0; n < kOwnColumns / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; e += 2) {
            // Eight columns further is an exclusive or: see SwizzledTile.
            const int to = (first ^ n * 8) + (r * 64 + e * 4) * State::Tile::kPitch;
            uint32_t rest = 0;
            const uint32_t pair = rounded<T, kDots>(state[r][n][e], state[r][n][e + 1], rest);
            shared.state.template store<2>(to, std::bit_cast<Vec<T, 2>>(pair));
            if constexpr (kDots) {
              shared.state.template store<2>(State::kElements + to, std::bit_cast<Vec<T, 2>>(rest));
            }
          }
        }
      }
    }

    // <q, k> of this warp's steps and all up to each, decayed; zero beyond.
    __device__ __forceinline__ void find_pairs(Pairs& to, SharedSpan<T> keys, float scale) const {
      Sums pairs = {};
      const int left = shared.of_rows[thread_index()];
      const int right = Steps::template lane_offset<Steps::Order::kAcross>(0);
#pragma unroll
      for (int d = 0; d < kDim; d += 16) {
        uint32_t a[4];
        ptx::ldmatrix_x4(a,
                         shared.q.pointer(stage * Steps::kElements + Steps::further(left, 0, d)));
#pragma unroll
        for (int n = 0; n < kChunk; n += 16) {
          if (n > warp_row()) continue;
          uint32_t b[4];
          ptx::ldmatrix_x4(b, keys.pointer(stage * Steps::kElements + Steps::further(right, n, d)));
          multiply_add<T>(pairs, n / 8, a, b);
        }
      }
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const int column = n * 8 + lane_column();
        const Vec<float, 2> of_keys = two_sums(column);
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          const int row = warp_row() + lane_row() + e * 4;
          float weighed[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float weight = scale * thread::exp2(sum(row) - of_keys[i]);
            weighed[i] = column + i <= row ? pairs[n][e + i] * weight : 0.0F;
          }
          uint32_t rest = 0;
          to[0][n][e / 2] = rounded<T, kDots>(weighed[0], weighed[1], rest);
          if constexpr (kDots) to[1][n][e / 2] = rest;
        }
      }
    }

    // What this warp's rows of q, or of k, get of the state before the chunk.
    __device__ __forceinline__ void ask(Outputs& out, SharedSpan<T> rows, float scale) const {
      const int left = shared.of_rows[thread_index()];
      const int right = shared.of_values[thread_index()];  // as wide as a state
#pragma unroll
      for (int d = 0; d < kDim; d += 16) {
        uint32_t a[4];
        ptx::ldmatrix_x4(a, rows.pointer(stage * Steps::kElements + Steps::further(left, 0, d)));
#pragma unroll
        for (int n = 0; n < kOwnColumns; n += 16) {
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
            uint32_t b[4];
            ptx::ldmatrix_x4<true>(
                b, shared.state.pointer(part * State::kElements + State::further(right, d, n)));
            multiply_add<T>(out, n / 8, a, b);
          }
        }
      }
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const float factor = scale * thread::exp2(sum(warp_row() + lane_row() + e * 4));
#pragma unroll
        for (float (&of_eight)[4] : out) {
          of_eight[e] *= factor;
          of_eight[e + 1] *= factor;
        }
      }
    }

    // By rows: times beta.
    __device__ __forceinline__ void weigh(Outputs& of_rows) const {
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const float beta = shared.beta[stage * kChunk + warp_row() + lane_row() + e * 4];
#pragma unroll
        for (float (&of_eight)[4] : of_rows) {
          of_eight[e] *= beta;
          of_eight[e + 1] *= beta;
        }
      }
    }
    // Where two of this lane's sums stand in v: as in show(), both tiles have rows of 64.
    __device__ __forceinline__ int place_in_values(int n, int e) const {
      return stage * Values::kElements +
             ((shared.of_state[thread_index()] ^ n * 8) + e * 4 * Values::Tile::kPitch);
    }
    __device__ __forceinline__ void set_values(const Outputs& to) const {
      store_sums(shared.v.span(), place_in_values(0, 0), to);
    }

    // Of v, which all warps have set: the inverse times it. v becomes that times beta.
    __device__ __forceinline__ void correct(Outputs& now) const {
      ptx::barrier_sync();  // all rows are there
#pragma unroll
      for (float (&of_eight)[4] : now) {
#pragma unroll
        for (float& element : of_eight) element = 0;
      }
      const int left = Inverse::template lane_offset<Inverse::Order::kDown>(warp_row());
      const int right = shared.of_values[thread_index()];
#pragma unroll
      for (int k = 0; k < kChunk; k += 16) {
        if (k > warp_row()) continue;
        uint32_t a[4];
        ptx::ldmatrix_x4(
            a, shared.inverses.pointer(stage * Inverse::kElements + Inverse::further(left, 0, k)));
#pragma unroll
        for (int n = 0; n < kOwnColumns; n += 16) {
          uint32_t b[4];
          ptx::ldmatrix_x4<true>(
              b, shared.v.pointer(stage * Values::kElements + Values::further(right, k, n)));
          multiply_add<T>(now, n / 8, a, b);
        }
      }
      ptx::barrier_sync();  // and read
      Outputs weighed;
#pragma unroll
      for (int n = 0; n < kOwnColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) weighed[n][e] = now[n][e];
      }
      weigh(weighed);
      set_values(weighed);
      ptx::barrier_sync();
    }

    // Of the delta rule: v becomes what each step adds, `errors` that without beta. They are
    // T (V - e^A K state), where T takes off what the chunk's own earlier steps say.
    __device__ __forceinline__ void correct_values(Outputs& errors) const {
      Outputs said = {};
      ask(said, shared.k.span(), 1);
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
#pragma unroll
        for (int n = 0; n < kOwnColumns / 8; ++n) {
          const Vec<T, 2> v = shared.v.template load<2>(place_in_values(n, e));
          said[n][e] = to_float(v[0]) - said[n][e];
          said[n][e + 1] = to_float(v[1]) - said[n][e + 1];
        }
      }
      set_values(said);
      correct(errors);
    }

    // Back, outputs ask a state that later steps have taken their own keys off: T times them. v
    // becomes what the steps take off.
    __device__ __forceinline__ void correct_outputs(Outputs& out) const {
      ptx::barrier_sync();  // nobody reads the values any more
      set_values(out);
      correct(out);
    }

    // The state, to the end of the chunk.
    __device__ __forceinline__ void decay(Held& state) const {
      const float decay = thread::exp2(sum(kChunk - 1));
#pragma unroll
      for (int r = 0; r < kDown; ++r) {
#pragma unroll
        for (int n = 0; n < kOwnColumns / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) state[r][n][e] *= decay;
        }
      }
    }

    // The values by their pairs to the outputs, by their keys to the state.
    __device__ __forceinline__ void add_values(Outputs& out, const Pairs& pairs, Held& state,
                                               SharedSpan<T> of_keys, SharedSpan<T> of_values,
                                               float scale, bool only_state) const {
      const float total = sum(kChunk - 1);
      const int keys = Steps::template lane_offset<Steps::Order::kAcross>(0);
      const int values = shared.of_values[thread_index()];
#pragma unroll
      for (int k = 0; k < kChunk; k += 16) {
        Vec<float, 2> weights[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const Vec<float, 2> sums = two_sums(k + i * 8 + lane_column());
          weights[i] = {scale * thread::exp2(total - sums[0]),
                        scale * thread::exp2(total - sums[1])};
        }
        uint32_t key[kDown][kParts][4];
#pragma unroll
        for (int r = 0; r < kDown; ++r) {
          ptx::ldmatrix_x4<true>(key[r][0],
                                 of_keys.pointer(stage * Steps::kElements +
                                                 Steps::further(keys, k, r * 64 + warp_row())));
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            key[r][0][i] = scaled<T, kDots>(key[r][0][i], weights[i / 2], key[r][kParts - 1][i]);
          }
        }
        const bool has_pairs = k <= warp_row() && !only_state;
#pragma unroll
        for (int n = 0; n < kOwnColumns; n += 16) {
          uint32_t b[4];
          ptx::ldmatrix_x4<true>(
              b, of_values.pointer(stage * Values::kElements + Values::further(values, k, n)));
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
            const auto& low = pairs[part][k / 8];
            const auto& high = pairs[part][k / 8 + 1];
            const uint32_t pair[4] = {low[0], low[1], high[0], high[1]};
            if (has_pairs) multiply_add<T>(out, n / 8, pair, b);
#pragma unroll
            for (int r = 0; r < kDown; ++r) multiply_add<T>(state[r], n / 8, key[r][part], b);
          }
        }
      }
    }
  };

  // The state before the `chunk`-th, which all warps have shown.
  __device__ __forceinline__ static void keep(SharedStorage& shared, const Arguments& a,
                                              const BlockPlace& at, int chunk) {
    const Walk& walk = a.walk;
    const int64_t matrix = at.batch * walk.heads + at.head;
    const int64_t tile = (matrix * divide_up(walk.steps, kChunk) + chunk) *
                             divide_up(static_cast<int>(walk.value_dim), 64) +
                         at.column / 64;
    T* const to = static_cast<T*>(a.kept) + tile * State::kElements;
    constexpr int kStep = kThreads / (kColumns / 8);  // rows
    const int row = thread_index() / (kColumns / 8);
    const int first = State::Tile::offset(row, thread_index() % (kColumns / 8) * 8);
#pragma unroll
    for (int i = 0; i < kDim; i += kStep) {
      const int place = first + i * State::Tile::kPitch;
      thread::store(to + (place ^ at.column % 64), shared.state.template load<8>(place));
    }
  }

  // A warp's queries, when all have asked that have them, make room for 16 x 64 numbers, or where
  // they are also keys 16 rows of the state; those of this lane's sums are at OwnPlace.
  __device__ __forceinline__ static SharedSpan<T> own_rows(SharedStorage& shared, int stage) {
    if constexpr (kGives == Gives::kAdded) {
      return {shared.state.pointer(warp_index() * 16 * State::Tile::kPitch), Own::kElements};
    }
    const int in_queries =
        warp_row() * Steps::Tile::kPitch + (kTeams == 1 ? 0 : warp_index() / 4 * Own::kElements);
    return {shared.q.pointer(stage * Steps::kElements + in_queries), Own::kElements};
  }
  struct OwnPlace {
    int first;
    __device__ __forceinline__ explicit OwnPlace(SharedStorage& shared)
        : first((shared.of_state[thread_index()] ^ warp_column()) -
                warp_row() * State::Tile::kPitch) {}
    // As in show(): both tiles have rows of 64.
    __device__ __forceinline__ int operator()(int n, int e) const {
      return (first ^ n * 8) + e * 4 * Own::Tile::kPitch;
    }
  };

  // What the warp's outputs are multiplied by.
  __device__ __forceinline__ static void fetch_factors(SharedStorage& shared, const Arguments& a,
                                                       const BlockPlace& at, int first, int stage) {
    const Walk& walk = a.walk;
    const Rows& with = walk.dots_with;
    const int rows = static_cast<int>(walk.steps) - first - warp_row();
    if (rows <= 0) return;
    const int column = at.column + warp_column();
    auto from =
        Own::strided(with.at<const T>(at.batch, at.head, first + warp_row()) + column, with.row);
    sync_steps();  // all lanes have read their queries
    Own::copy(own_rows(shared, stage), from, static_cast<const T*>(with.data), rows,
              static_cast<int>(walk.value_dim) - column);
    ptx::cp_async_commit_group();
  }
  // Of the warp's steps, its columns of their dots; four lanes have a row.
  __device__ __forceinline__ static void write_dots(SharedStorage& shared, const Arguments& a,
                                                    const BlockPlace& at, int first, int stage,
                                                    const Outputs& out) {
    const Walk& walk = a.walk;
    const SharedSpan<T> with = own_rows(shared, stage);
    const OwnPlace place(shared);
    const int rows = static_cast<int>(walk.steps) - first - warp_row();
    ptx::cp_async_wait_group<0>();
    ptx::syncwarp();
    float* const to = walk.dots.at(at.batch, at.head, first + warp_row()) +
                      (at.column + warp_column()) / kOwnColumns * walk.dots_block;
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      float dot = 0;
#pragma unroll
      for (int n = 0; n < kOwnColumns / 8; ++n) {
        const auto by = with.template load<2>(place(n, e));
        dot = thread::fma(to_float(by[0]), out[n][e], dot);
        dot = thread::fma(to_float(by[1]), out[n][e + 1], dot);
      }
      dot = warp::all_reduce<4>(dot, [](float x, float y) { return x + y; });
      const int row = lane_row() + e * 4;
      if (lane_index() % 4 == 0 && row < rows) thread::store(to + row * walk.dots.row, dot);
    }
  }

  // The warp's steps, through where its queries were: lanes write 16 bytes that lie together.
  __device__ __forceinline__ static void write(SharedStorage& shared, const Arguments& a,
                                               const Rows& outputs, const BlockPlace& at, int first,
                                               int last, int stage, const Outputs& out) {
    const Walk& walk = a.walk;
    const int rows = last - first - warp_row();
    const int first_column = at.column + warp_column();
    const int columns = static_cast<int>(walk.value_dim) - first_column;
    if (rows <= 0) return;
    if constexpr (kDots) write_dots(shared, a, at, first, stage, out);
    T* const to =
        outputs.at<T>(at.batch, at.head, first + warp_row()) + first_column * outputs.column;
    const SharedSpan<T> staged = own_rows(shared, stage);
    sync_steps();  // all lanes have read their queries
    store_sums(staged, OwnPlace(shared)(0, 0), out);
    ptx::syncwarp();
#pragma unroll 1
    for (int i = 0; i < 2 * kOwnColumns; i += kWarpSize) {
      const int row = (i + lane_index()) / (kOwnColumns / 8);
      const int column = (i + lane_index()) % (kOwnColumns / 8) * 8;
      if (row >= rows || column >= columns) continue;
      T* const eight = to + row * outputs.row + column * outputs.column;
      const auto chunk = staged.template load<8>(Own::Tile::offset(row, column));
      if (a.out_aligned && column + 8 <= columns) {
        thread::store(eight, chunk);
      } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          if (column + j < columns) thread::store(eight + j * outputs.column, chunk[j]);
        }
      }
    }
  }
};

#endif

}  // namespace ws::linear_attention
