// The gradients of the delta rule that a chunk finds alone, given the state S before it and the
// gradient G of the state after it:
//
//   dq[i] = scale e^A[i] S dout[i] + sum over j <= i of P[i][j] k[j]
//   dk[j] = beta[j] e^(A[63] - A[j]) G error[j] + sum over i >= j of P[i][j] q[i]
//           - sum over i > j of N[i][j] k[i] - beta[j] e^A[j] S dadded[j]
//           - sum over i < j of N[j][i] k[i]
//   P[i][j] = scale beta[j] e^(A[i] - A[j]) <dout[i], error[j]>
//   N[i][j] = beta[i] beta[j] e^(A[i] - A[j]) <dadded[i], error[j]>, i > j
//
// and dlog_decay[t] is what decays across step t: S to G, S to rows from t on, rows before t to G,
// and pairs of one with the other,
//
//   e^A[63] <S, G> + sum over i >= t of <q[i], dq'[i]> + <k[i], dk'[i]>
//   + sum over j < t of <k[j], beta[j] e^(A[63] - A[j]) G error[j]>
//   - sum over i >= t of <k[i], what dk[i] has of later steps of the chunk>
//
// where dq' and dk' ask S and earlier steps. Pairs of steps that are both from t on are in the
// second sum and in the last, and cancel: of the same rounded P and N, so that f32 is left.
#include "kernels/linear_attention/delta_backward.hpp"
#include "kernels/linear_attention/mma_walk.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::linear_attention {
namespace {

struct DeltaGradientsArguments {
  DeltaBackwardCall call;
  DeltaBackwardWalks walks;
  bool aligned;  // 16 bytes of a row of dq and dk at a time
};

#if WS_DEVICE_CODE
// A block a chunk; four warps for every 64 of D, 16 steps each. kStreams: a block for every 64 of
// D, which has values 64 at a time, the next ones copied meanwhile; blocks leave a part of
// dlog_decay each.
template <class T, int kDim, int kValues, bool kStreams = false>
struct DeltaGradientsKernel {
  static_assert(!kStreams || (kDim == 64 && kValues == 64));
  static constexpr int kPanels = kDim / 64;
  static constexpr int kThreads = 128 * kPanels;
  // As memory has it.
  static constexpr int kMinBlocks = kStreams ? 2 : kValues > 64 ? 1 : kDim > 64 ? 2 : 3;
  static constexpr int kStages = kStreams ? 2 : 1;
  using Steps = attention::RowTile<T, kChunk, kDim, kThreads>;
  using Values = attention::RowTile<T, kChunk, kValues, kThreads>;
  using State = attention::RowTile<T, kDim, 64, kThreads>;  // of 64 values, as walks have it
  using Pairs = attention::RowTile<T, kChunk, kChunk, kThreads>;
  using Own = attention::RowTile<T, 16, 64, kWarpSize>;
  static constexpr int kStates = kValues / 64 * State::kElements;
  using Arguments = DeltaGradientsArguments;
  struct SharedStorage {
    SharedArray<T, Steps::kElements, 128> q;
    SharedArray<T, Steps::kElements, 128> k;
    SharedArray<T, kStages * Values::kElements, 128> errors;
    SharedArray<T, kStages * Values::kElements, 128> dadded;
    SharedArray<T, kStages * Values::kElements, 128> dout;
    SharedArray<T, kStages * kStates, 128> state;
    SharedArray<T, kStages * kStates, 128> gradient;
    // P and N; of values in turns they are where states were.
    SharedArray<T, kStreams ? 8 : Pairs::kElements, 128> of_queries;
    SharedArray<T, kStreams ? 8 : Pairs::kElements, 128> of_keys;
    SharedArray<float, kChunk> sums;
    SharedArray<float, kChunk> beta;
    // Of each step, a part for every 64 of D: what counts for decays up to it, and after it.
    SharedArray<float, kPanels * kChunk> up_to;
    SharedArray<float, kPanels * kChunk> after;
    typename block::AllReduce<float, kThreads>::Storage reduce;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const DeltaBackwardCall& call = a.call;
    const int chunks = divide_up(static_cast<int>(call.steps), kChunk);
    const int panels = kStreams ? divide_up(static_cast<int>(call.dim), 64) : 1;
    const int chunk = static_cast<int>(block_index() / panels % chunks);
    const int64_t matrix = block_index() / panels / chunks;
    const Place at{.batch = matrix / call.heads,
                   .head = matrix % call.heads,
                   .matrix = matrix,
                   .first = int64_t{chunk} * kChunk,
                   .rows = static_cast<int>(call.steps) - chunk * kChunk,
                   .chunk = matrix * chunks + chunk,
                   .chunk_back = matrix * chunks + chunks - 1 - chunk,
                   .panel = static_cast<int>(block_index() % panels)};
    fetch_values(shared, a, at, 0);
    if constexpr (!kStreams) ptx::cp_async_commit_group();
    fetch_steps(shared, a, at);
    fetch_states(shared, a, at, 0);
    ptx::cp_async_commit_group();
    float next_decay = 0;  // log2 of what the state is times between this chunk and the next
    if (at.rows > kChunk) next_decay = log2_decay(call.log_decay, at.batch, at.head, at.first + 64);
    const auto wants_decays = [&] { return call.dlog_decay.data != nullptr; };
    Sums dk = {};
    Sums earlier = {};
    Sums dq = {};
    float product = 0;  // of the state and its gradient, this thread's part
    if constexpr (kStreams) {
      Sums of_queries = {};
      Sums of_keys = {};
      const int turns = divide_up(static_cast<int>(call.value_dim), 64);
#pragma unroll 1
      for (int turn = 0; turn < turns; ++turn) {
        ptx::cp_async_wait_group<0>();
        ptx::barrier_sync();  // these values are there for all, and nobody reads those before them
        if (turn + 1 < turns) {
          fetch_values(shared, a, at, turn + 1);
          fetch_states(shared, a, at, turn + 1);
        }
        ptx::cp_async_commit_group();
        add_pairs(of_queries, values_of(shared.dout, turn), values_of(shared.errors, turn));
        add_pairs(of_keys, values_of(shared.dadded, turn), values_of(shared.errors, turn));
        add_asked(dk, values_of(shared.errors, turn), states_of(shared.gradient, turn));
        add_asked(earlier, values_of(shared.dadded, turn), states_of(shared.state, turn));
        add_asked(dq, values_of(shared.dout, turn), states_of(shared.state, turn));
        if (wants_decays()) add_product(shared, turn, product);
      }
      ptx::barrier_sync();  // nobody reads values any more
      weigh_pairs<false>(shared, call, at, of_queries);
      weigh_pairs<true>(shared, call, at, of_keys);
    } else {
      ptx::cp_async_wait_group<1>();
      ptx::barrier_sync();  // what pairs are of is there for all
      if (kPanels == 1 || panel() == 0) {
        Sums pairs = {};
        add_pairs(pairs, shared.dout.span(), shared.errors.span());
        weigh_pairs<false>(shared, call, at, pairs);
      }
      if (kPanels == 1 || panel() == 1) {
        Sums pairs = {};
        add_pairs(pairs, shared.dadded.span(), shared.errors.span());
        weigh_pairs<true>(shared, call, at, pairs);
      }
      ptx::cp_async_wait_group<0>();
    }
    ptx::barrier_sync();  // and everything

    const auto decayed = [&](int i, float from) { return thread::exp2(shared.sums[i] - from); };
    const auto remaining = [&](int i) {
      return thread::exp2(shared.sums[kChunk - 1] - shared.sums[i] + next_decay);
    };
    RowDots up_to = {};
    RowDots after = {};
    if constexpr (!kStreams) add_asked(dk, shared.errors.span(), shared.gradient.span());
    multiply_rows(dk, [&](int i) { return shared.beta[i] * remaining(i); });
    if (wants_decays()) after = dots(shared.k.span(), dk);
    gather_later(dk, pairs_of<false>(shared), shared.q.span());
    gather_later(dk, pairs_of<true>(shared), shared.k.span());
    if (wants_decays()) {
      const RowDots later = dots(shared.k.span(), dk);
      for (int i = 0; i < 2; ++i) up_to[i] = after[i] - later[i];
    }
    if constexpr (!kStreams) add_asked(earlier, shared.dadded.span(), shared.state.span());
    multiply_rows(earlier, [&](int i) { return -shared.beta[i] * decayed(i, 0); });
    gather_earlier(earlier, pairs_of<true>(shared), shared.k.span());
    if (wants_decays()) {
      const RowDots own = dots(shared.k.span(), earlier);
      for (int i = 0; i < 2; ++i) up_to[i] += own[i];
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) dk[n][e] += earlier[n][e];
    }
    ptx::barrier_sync();  // nobody else reads a warp's rows of errors, or of dadded
    write(shared, a, call.dk, at, dk);

    if constexpr (!kStreams) add_asked(dq, shared.dout.span(), shared.state.span());
    multiply_rows(dq, [&](int i) { return call.scale * decayed(i, 0); });
    gather_earlier(dq, pairs_of<false>(shared), shared.k.span());
    write(shared, a, call.dq, at, dq);
    if (!wants_decays()) return;
    const RowDots own = dots(shared.q.span(), dq);
    for (int i = 0; i < 2; ++i) up_to[i] += own[i];
    if (lane_index() % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int step = panel() * kChunk + warp_row() + lane_row() + i * 8;
        shared.up_to[step] = up_to[i];
        shared.after[step] = after[i];
      }
    }
    if constexpr (!kStreams) add_product(shared, 0, product);
    find_decays(shared, a, at, product, remaining(0) * decayed(0, 0));
  }

  static void run(const Arguments& a, Stream stream) {
    const int64_t panels = kStreams ? divide_up(a.call.dim, int64_t{64}) : 1;
    launch<DeltaGradientsKernel>(
        {.blocks = a.call.matrices() * divide_up(a.call.steps, int64_t{kChunk}) * panels,
         .threads = kThreads},
        stream, a);
  }

 private:
  using RowDots = Vec<float, 2>;  // of this lane's rows of 16
  struct Place {
    int64_t batch, head, matrix, first;
    int rows;                   // from `first` to the last step
    int64_t chunk, chunk_back;  // among those of all heads, as the walks there and back count them
    int panel;                  // of kStreams: the 64 of D

    __device__ __forceinline__ int column() const { return kStreams ? panel * 64 : 0; }
  };

  __device__ __forceinline__ static int panel() { return warp_index() / 4; }
  __device__ __forceinline__ static int warp_row() { return warp_index() % 4 * 16; }
  __device__ __forceinline__ static int lane_row() { return lane_index() / 4; }
  __device__ __forceinline__ static int lane_column() { return lane_index() % 4 * 2; }

  // Of a stage.
  template <int kCount>
  __device__ __forceinline__ static SharedSpan<T> values_of(SharedArray<T, kCount, 128>& all,
                                                            int turn) {
    return {all.pointer(turn % kStages * Values::kElements), Values::kElements};
  }
  template <int kCount>
  __device__ __forceinline__ static SharedSpan<T> states_of(SharedArray<T, kCount, 128>& all,
                                                            int turn) {
    return {all.pointer(turn % kStages * kStates), kStates};
  }
  template <bool kOfKeys>
  __device__ __forceinline__ static SharedSpan<T> pairs_of(SharedStorage& shared) {
    if constexpr (kStreams) return states_of(kOfKeys ? shared.gradient : shared.state, 0);
    return kOfKeys ? shared.of_keys.span() : shared.of_queries.span();
  }

  template <class Tile>
  __device__ __forceinline__ static void fetch_rows(SharedSpan<T> to, const Rows& rows,
                                                    const Place& at, int column, int64_t columns) {
    auto from = Tile::strided(rows.at<const T>(at.batch, at.head, at.first) + column, rows.row);
    Tile::copy(to, from, static_cast<const T*>(rows.data), at.rows,
               static_cast<int>(columns) - column);
  }
  __device__ __forceinline__ static void fetch_values(SharedStorage& shared, const Arguments& a,
                                                      const Place& at, int turn) {
    const int64_t columns = a.call.value_dim;
    const int first = turn * kValues;
    fetch_rows<Values>(values_of(shared.errors, turn), a.walks.errors.out, at, first, columns);
    fetch_rows<Values>(values_of(shared.dadded, turn), a.walks.dadded, at, first, columns);
    fetch_rows<Values>(values_of(shared.dout, turn), a.call.dout, at, first, columns);
  }
  __device__ __forceinline__ static void fetch_states(SharedStorage& shared, const Arguments& a,
                                                      const Place& at, int turn) {
    const DeltaBackwardCall& call = a.call;
    const int64_t tiles = divide_up(call.value_dim, int64_t{64});
    const int64_t elements = kStreams ? rows_of_state(call.dim) * 64 : State::kElements;
    // Of this thread's pieces of a row of 64 values, as SwizzledTile has them.
    const int column = turn * kValues + (thread_index() % 8 ^ thread_index() / 8 % 8) * 8;
    const int64_t first = turn * elements + at.column() * State::Tile::kPitch;
    const auto* const states =
        static_cast<const T*>(a.walks.states) + at.chunk * tiles * elements + first;
    const auto* const gradients =
        static_cast<const T*>(a.walks.gradients) + at.chunk_back * tiles * elements + first;
    const SharedSpan<T> state = states_of(shared.state, turn);
    const SharedSpan<T> gradient = states_of(shared.gradient, turn);
#pragma unroll
    for (int i = 0; i < kStates; i += kThreads * 8) {
      const int place = i + thread_index() * 8;
      const bool exists = i / State::kElements * 64 + column < call.value_dim;
      const int bytes = exists ? 16 : 0;  // or zeros
      ptx::cp_async<16>(state.pointer(place), exists ? states + place : states, bytes);
      ptx::cp_async<16>(gradient.pointer(place), exists ? gradients + place : gradients, bytes);
    }
  }
  // q and k, and what each step weighs.
  __device__ __forceinline__ static void fetch_steps(SharedStorage& shared, const Arguments& a,
                                                     const Place& at) {
    const DeltaBackwardCall& call = a.call;
    fetch_rows<Steps>(shared.q.span(), call.q, at, at.column(), call.dim);
    fetch_rows<Steps>(shared.k.span(), call.k, at, at.column(), call.dim);
    if (warp_index() == 0) {
      Walk decays{.steps = call.steps};
      decays.log_decay = call.log_decay;
      const auto sums = sums_of(chunk_decays(decays, at.batch, at.head, at.first, call.steps));
      shared.sums.template store<2>(lane_index() * 2, sums);
    }
    if (thread_index() < kChunk) {
      const int64_t t = at.first + thread_index();
      shared.beta[thread_index()] =
          thread_index() < at.rows ? thread::load(call.beta.at(at.batch, at.head, t)) : 0.0F;
    }
  }

  // Dots of this warp's rows and of errors.
  __device__ __forceinline__ static void add_pairs(Sums& pairs, SharedSpan<T> rows,
                                                   SharedSpan<T> errors) {
    const int left = Values::template lane_offset<Values::Order::kDown>(warp_row());
    const int right = Values::template lane_offset<Values::Order::kAcross>(0);
#pragma unroll
    for (int m = 0; m < kValues; m += 16) {
      uint32_t a[4];
      ptx::ldmatrix_x4(a, rows.pointer(Values::further(left, 0, m)));
#pragma unroll
      for (int n = 0; n < kChunk; n += 16) {
        if (n > warp_row()) continue;
        uint32_t b[4];
        ptx::ldmatrix_x4(b, errors.pointer(Values::further(right, n, m)));
        multiply_add<T>(pairs, n / 8, a, b);
      }
    }
  }
  // P, or N; of dadded and errors, which N is of, the diagonal is dbeta.
  template <bool kOfKeys>
  __device__ __forceinline__ static void weigh_pairs(SharedStorage& shared,
                                                     const DeltaBackwardCall& call, const Place& at,
                                                     Sums& pairs) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = warp_row() + lane_row() + e / 2 * 8;
        const int j = n * 8 + lane_column() + e % 2;
        if (kOfKeys && at.column() == 0 && i == j && i < at.rows) {
          thread::store(call.dbeta.at(at.batch, at.head, at.first + i), pairs[n][e]);
        }
        const float factor = kOfKeys ? -shared.beta[i] : call.scale;
        const float weight =
            factor * shared.beta[j] * thread::exp2(shared.sums[i] - shared.sums[j]);
        pairs[n][e] = j < i + (kOfKeys ? 0 : 1) ? pairs[n][e] * weight : 0.0F;
      }
    }
    store_sums(pairs_of<kOfKeys>(shared),
               Pairs::Tile::offset(warp_row() + lane_row(), lane_column()), pairs);
  }

  // What this warp's rows get of a state.
  __device__ __forceinline__ static void add_asked(Sums& out, SharedSpan<T> rows,
                                                   SharedSpan<T> state) {
    const int left = Values::template lane_offset<Values::Order::kDown>(warp_row());
    const int right = State::template lane_offset<State::Order::kAcross>(panel() * 64);
#pragma unroll
    for (int m = 0; m < kValues; m += 16) {
      uint32_t a[4];
      ptx::ldmatrix_x4(a, rows.pointer(Values::further(left, 0, m)));
#pragma unroll
      for (int n = 0; n < 64; n += 16) {
        uint32_t b[4];
        ptx::ldmatrix_x4(
            b, state.pointer(m / 64 * State::kElements + State::further(right, n, m % 64)));
        multiply_add<T>(out, n / 8, a, b);
      }
    }
  }
  template <class Factor>
  __device__ __forceinline__ static void multiply_rows(Sums& rows, Factor&& factor) {
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const float by = factor(warp_row() + lane_row() + e * 4);
#pragma unroll
      for (float (&of_eight)[4] : rows) {
        of_eight[e] *= by;
        of_eight[e + 1] *= by;
      }
    }
  }

  // The rows of steps up to this warp's, by their pairs; of steps from this warp's on.
  __device__ __forceinline__ static void gather_earlier(Sums& out, SharedSpan<T> pairs,
                                                        SharedSpan<T> rows) {
    const int left = Pairs::template lane_offset<Pairs::Order::kDown>(warp_row());
#pragma unroll
    for (int i = 0; i < kChunk; i += 16) {
      if (i > warp_row()) continue;
      uint32_t a[4];
      ptx::ldmatrix_x4(a, pairs.pointer(Pairs::further(left, 0, i)));
      add_rows(out, a, rows, i);
    }
  }
  __device__ __forceinline__ static void gather_later(Sums& out, SharedSpan<T> pairs,
                                                      SharedSpan<T> rows) {
    const int left = Pairs::template lane_offset<Pairs::Order::kAcross>(0);
#pragma unroll
    for (int i = 0; i < kChunk; i += 16) {
      if (i < warp_row()) continue;
      uint32_t a[4];
      ptx::ldmatrix_x4<true>(a, pairs.pointer(Pairs::further(left, i, warp_row())));
      add_rows(out, a, rows, i);
    }
  }
  __device__ __forceinline__ static void add_rows(Sums& out, const uint32_t (&pairs)[4],
                                                  SharedSpan<T> rows, int first) {
    const int right = Steps::template lane_offset<Steps::Order::kDown>(0);
#pragma unroll
    for (int n = 0; n < 64; n += 16) {
      uint32_t b[4];
      ptx::ldmatrix_x4<true>(b, rows.pointer(Steps::further(right, first, n) + panel() * 64));
      multiply_add<T>(out, n / 8, pairs, b);
    }
  }

  // Of this warp's steps and 64 of D; four lanes have a row.
  __device__ __forceinline__ static RowDots dots(SharedSpan<T> rows, const Sums& with) {
    const int first = Steps::Tile::offset(warp_row() + lane_row(), panel() * 64 + lane_column());
    RowDots found = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const Vec<T, 2> two = rows.template load<2>((first ^ n * 8) + i * 8 * Steps::Tile::kPitch);
        found[i] = thread::fma(to_float(two[0]), with[n][i * 2], found[i]);
        found[i] = thread::fma(to_float(two[1]), with[n][i * 2 + 1], found[i]);
      }
      found[i] = warp::all_reduce<4>(found[i], [](float x, float y) { return x + y; });
    }
    return found;
  }

  // Through where the warp's errors were, of the second panel dadded.
  __device__ __forceinline__ static void write(SharedStorage& shared, const Arguments& a,
                                               const Rows& outputs, const Place& at,
                                               const Sums& out) {
    const SharedSpan<T> rows = panel() == 0 ? shared.errors.span() : shared.dadded.span();
    const SharedSpan<T> staged{rows.pointer(warp_row() * Values::Tile::kPitch), Own::kElements};
    const int column = at.column() + panel() * 64;
    T* const to = outputs.at<T>(at.batch, at.head, at.first + warp_row()) + column * outputs.column;
    ptx::syncwarp();  // all lanes have written what was here before
    store_sums(staged, Own::Tile::offset(lane_row(), lane_column()), out);
    ptx::syncwarp();
    Own::template write<16>(
        staged, 0, [&](int i) { return to + i * outputs.row; }, outputs.column,
        at.rows - warp_row(), static_cast<int>(a.call.dim) - column, a.aligned);
  }

  // This thread's part of <S, G>.
  __device__ __forceinline__ static void add_product(SharedStorage& shared, int turn, float& sum) {
    const SharedSpan<T> states = states_of(shared.state, turn);
    const SharedSpan<T> gradients = states_of(shared.gradient, turn);
#pragma unroll 4
    for (int i = thread_index() * 8; i < kStates; i += kThreads * 8) {
      const auto state = states.template load<8>(i);
      const auto gradient = gradients.template load<8>(i);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        sum = thread::fma(to_float(state[j]), to_float(gradient[j]), sum);
      }
    }
  }
  // From what each step counts for decays, and from the state to its gradient, times `decay`.
  __device__ __forceinline__ static void find_decays(SharedStorage& shared, const Arguments& a,
                                                     const Place& at, float product, float decay) {
    const DeltaBackwardCall& call = a.call;
    const auto add = [](float x, float y) { return x + y; };
    block::AllReduce<float, kThreads> reduce(shared.reduce);
    const float across = reduce(product, add) * decay;
    if (warp_index() != 0) return;
    const auto two_of = [&](SharedArray<float, kPanels * kChunk>& parts) {
      auto two = parts.template load<2>(lane_index() * 2);
      if constexpr (kPanels == 2) {
        const auto others = parts.template load<2>(kChunk + lane_index() * 2);
        two = {two[0] + others[0], two[1] + others[1]};
      }
      return two;
    };
    const Vec<float, 2> up_to = two_of(shared.up_to);
    const Vec<float, 2> after = two_of(shared.after);
    const float from = warp::inclusive_scan_back(up_to[0] + up_to[1], add);
    const float from_second = warp::shift_down(from, 0.0F) + up_to[1];
    const float before = warp::shift_up(warp::inclusive_scan(after[0] + after[1], add), 0.0F);
    const Vec<float, 2> decays = {across + from + before, across + from_second + before + after[0]};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int step = lane_index() * 2 + i;
      if (step >= at.rows) continue;
      if constexpr (kStreams) {
        const int64_t rows = call.matrices() * call.steps;
        thread::store(a.walks.decays + at.panel * rows + at.matrix * call.steps + at.first + step,
                      decays[i]);
      } else {
        thread::store(call.dlog_decay.at(at.batch, at.head, at.first + step), decays[i]);
      }
    }
  }
};

// dlog_decay of its parts, a thread a step.
struct AddDecaysKernel {
  static constexpr int kThreads = 256;
  using Arguments = DeltaGradientsArguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const DeltaBackwardCall& call = a.call;
    const int64_t rows = call.matrices() * call.steps;
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= rows) return;
    float sum = 0;
    for (int64_t panel = 0; panel * 64 < call.dim; ++panel) {
      sum += thread::load(a.walks.decays + panel * rows + index);
    }
    const int64_t matrix = index / call.steps;
    thread::store(call.dlog_decay.at(matrix / call.heads, matrix % call.heads, index % call.steps),
                  sum);
  }
};
#endif

}  // namespace

void find_delta_gradients(const DeltaBackwardCall& call, const DeltaBackwardWalks& walks,
                          Stream stream) {
  if (call.matrices() * call.steps == 0) return;
  const DeltaGradientsArguments a{.call = call,
                                  .walks = walks,
                                  .aligned = is_aligned(walks.errors, call.dq, call.dim) &&
                                             is_aligned(walks.errors, call.dk, call.dim)};
  with_type<kHalves>(call.dtype, [&]<class T>() {
    if (call.dim > 128 || call.value_dim > 128) {
      return DeltaGradientsKernel<T, 64, 64, true>::run(a, stream);
    }
    const auto run = [&]<int kDim>() {
      if (call.value_dim <= 64) return DeltaGradientsKernel<T, kDim, 64>::run(a, stream);
      DeltaGradientsKernel<T, kDim, 128>::run(a, stream);
    };
    if (call.dim <= 64) return run.template operator()<64>();
    run.template operator()<128>();
  });
  if (walks.decays == nullptr) return;
  launch<AddDecaysKernel>(
      {.blocks = divide_up(call.matrices() * call.steps, int64_t{AddDecaysKernel::kThreads}),
       .threads = AddDecaysKernel::kThreads},
      stream, a);
}

}  // namespace ws::linear_attention
