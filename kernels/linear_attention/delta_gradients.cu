// The gradients of the delta rule that a chunk finds alone, given the state S before it and the
// gradient G of the state after it:
//
//   dq[i] = scale e^A[i] S dout[i] + sum over j <= i of P[i][j] k[j]
//   dk[j] = beta[j] e^(A[63] - A[j]) G error[j] + sum over i >= j of P[i][j] q[i]
//           + sum over i > j of N[i][j] k[i] - beta[j] e^A[j] S dadded[j] + sum of N[j][i] k[i]
//   P[i][j] = scale beta[j] e^(A[i] - A[j]) <dout[i], error[j]>
//   N[i][j] = -beta[i] beta[j] e^(A[i] - A[j]) <dadded[i], error[j]>, i > j
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
// A block a chunk; four warps for every 64 of D, 16 steps each.
template <class T, int kDim, int kValues>
struct DeltaGradientsKernel {
  static constexpr int kPanels = kDim / 64;
  static constexpr int kThreads = 128 * kPanels;
  static constexpr int kMinBlocks = kValues > 64 ? 1 : kDim > 64 ? 2 : 3;  // as memory has it
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
    SharedArray<T, Values::kElements, 128> errors;
    SharedArray<T, Values::kElements, 128> dadded;
    SharedArray<T, Values::kElements, 128> dout;
    SharedArray<T, kStates, 128> state;
    SharedArray<T, kStates, 128> gradient;
    SharedArray<T, Pairs::kElements, 128> of_queries;  // P
    SharedArray<T, Pairs::kElements, 128> of_keys;     // N
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
    const int chunk = static_cast<int>(block_index() % chunks);
    const int64_t matrix = block_index() / chunks;
    const Place at{matrix / call.heads, matrix % call.heads, int64_t{chunk} * kChunk,
                   static_cast<int>(call.steps) - chunk * kChunk};
    fetch(shared, a, at, matrix * chunks + chunk, matrix * chunks + chunks - 1 - chunk);
    float next_decay = 0;  // log2 of what the state is times between this chunk and the next
    if (at.rows > kChunk) next_decay = log2_decay(call.log_decay, at.batch, at.head, at.first + 64);
    ptx::cp_async_wait_group<1>();
    ptx::barrier_sync();  // what pairs are of is there for all

    if (kPanels == 1 || panel() == 0) find_pairs<false>(shared, call, at);
    if (kPanels == 1 || panel() == 1) find_pairs<true>(shared, call, at);
    ptx::cp_async_wait_group<0>();
    ptx::barrier_sync();  // and everything

    const auto decayed = [&](int i, float from) { return thread::exp2(shared.sums[i] - from); };
    const auto remaining = [&](int i) {
      return thread::exp2(shared.sums[kChunk - 1] - shared.sums[i] + next_decay);
    };
    const bool wants_decays = call.dlog_decay.data != nullptr;
    RowDots up_to = {};
    RowDots after = {};
    Sums dk = {};
    ask(dk, shared.errors.span(), shared.gradient.span(),
        [&](int i) { return shared.beta[i] * remaining(i); });
    if (wants_decays) after = dots(shared.k.span(), dk);
    gather_later(dk, shared.of_queries.span(), shared.q.span());
    gather_later(dk, shared.of_keys.span(), shared.k.span());
    if (wants_decays) {
      const RowDots later = dots(shared.k.span(), dk);
      for (int i = 0; i < 2; ++i) up_to[i] = after[i] - later[i];
    }
    Sums earlier = {};
    ask(earlier, shared.dadded.span(), shared.state.span(),
        [&](int i) { return -shared.beta[i] * decayed(i, 0); });
    gather_earlier(earlier, shared.of_keys.span(), shared.k.span());
    if (wants_decays) {
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

    Sums dq = {};
    ask(dq, shared.dout.span(), shared.state.span(),
        [&](int i) { return call.scale * decayed(i, 0); });
    gather_earlier(dq, shared.of_queries.span(), shared.k.span());
    write(shared, a, call.dq, at, dq);
    if (!wants_decays) return;
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
    find_decays(shared, call, at, remaining(0) * decayed(0, 0));
  }

  static void run(const Arguments& a, Stream stream) {
    launch<DeltaGradientsKernel>(
        {.blocks = a.call.matrices() * divide_up(a.call.steps, int64_t{kChunk}),
         .threads = kThreads},
        stream, a);
  }

 private:
  using RowDots = Vec<float, 2>;  // of this lane's rows of 16
  struct Place {
    int64_t batch, head, first;
    int rows;  // from `first` to the last step
  };

  __device__ __forceinline__ static int panel() { return warp_index() / 4; }
  __device__ __forceinline__ static int warp_row() { return warp_index() % 4 * 16; }
  __device__ __forceinline__ static int lane_row() { return lane_index() / 4; }
  __device__ __forceinline__ static int lane_column() { return lane_index() % 4 * 2; }

  __device__ __forceinline__ static void fetch(SharedStorage& shared, const Arguments& a,
                                               const Place& at, int64_t chunk, int64_t chunk_back) {
    const DeltaBackwardCall& call = a.call;
    const auto copy = [&]<class Tile>(SharedSpan<T> to, const Rows& rows, int64_t columns) {
      auto from = Tile::strided(rows.at<const T>(at.batch, at.head, at.first), rows.row);
      Tile::copy(to, from, static_cast<const T*>(rows.data), at.rows, static_cast<int>(columns));
    };
    copy.template operator()<Values>(shared.errors.span(), a.walks.errors.out, call.value_dim);
    copy.template operator()<Values>(shared.dadded.span(), a.walks.dadded, call.value_dim);
    copy.template operator()<Values>(shared.dout.span(), call.dout, call.value_dim);
    ptx::cp_async_commit_group();
    copy.template operator()<Steps>(shared.q.span(), call.q, call.dim);
    copy.template operator()<Steps>(shared.k.span(), call.k, call.dim);
    const int64_t tiles = divide_up(call.value_dim, int64_t{64});
    // Of this thread's pieces of a row of 64 values, as SwizzledTile has them.
    const int column = (thread_index() % 8 ^ thread_index() / 8 % 8) * 8;
    const auto* const states = static_cast<const T*>(a.walks.states);
    const auto* const gradients = static_cast<const T*>(a.walks.gradients);
#pragma unroll
    for (int i = 0; i < kStates; i += kThreads * 8) {
      const int place = i + thread_index() * 8;
      const bool exists = i / State::kElements * 64 + column < call.value_dim;
      const int bytes = exists ? 16 : 0;  // or zeros
      ptx::cp_async<16>(shared.state.pointer(place),
                        states + (exists ? chunk * tiles * State::kElements + place : 0), bytes);
      ptx::cp_async<16>(shared.gradient.pointer(place),
                        gradients + (exists ? chunk_back * tiles * State::kElements + place : 0),
                        bytes);
    }
    ptx::cp_async_commit_group();
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

  // P, or N; of dadded and errors, which N is of, the diagonal is dbeta.
  template <bool kOfKeys>
  __device__ __forceinline__ static void find_pairs(SharedStorage& shared,
                                                    const DeltaBackwardCall& call,
                                                    const Place& at) {
    const SharedSpan<T> rows = kOfKeys ? shared.dadded.span() : shared.dout.span();
    const int left = Values::template lane_offset<Values::Order::kDown>(warp_row());
    const int right = Values::template lane_offset<Values::Order::kAcross>(0);
    Sums pairs = {};
#pragma unroll
    for (int m = 0; m < kValues; m += 16) {
      uint32_t a[4];
      ptx::ldmatrix_x4(a, rows.pointer(Values::further(left, 0, m)));
#pragma unroll
      for (int n = 0; n < kChunk; n += 16) {
        if (n > warp_row()) continue;
        uint32_t b[4];
        ptx::ldmatrix_x4(b, shared.errors.pointer(Values::further(right, n, m)));
        multiply_add<T>(pairs, n / 8, a, b);
      }
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = warp_row() + lane_row() + e / 2 * 8;
        const int j = n * 8 + lane_column() + e % 2;
        if (kOfKeys && i == j && i < at.rows) {
          thread::store(call.dbeta.at(at.batch, at.head, at.first + i), pairs[n][e]);
        }
        const float factor = kOfKeys ? -shared.beta[i] : call.scale;
        const float weight =
            factor * shared.beta[j] * thread::exp2(shared.sums[i] - shared.sums[j]);
        pairs[n][e] = j < i + (kOfKeys ? 0 : 1) ? pairs[n][e] * weight : 0.0F;
      }
    }
    store_sums(kOfKeys ? shared.of_keys.span() : shared.of_queries.span(),
               Pairs::Tile::offset(warp_row() + lane_row(), lane_column()), pairs);
  }

  // What this warp's rows get of a state, each times its factor.
  template <class Factor>
  __device__ __forceinline__ static void ask(Sums& out, SharedSpan<T> rows, SharedSpan<T> state,
                                             Factor&& factor) {
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
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const float by = factor(warp_row() + lane_row() + e * 4);
#pragma unroll
      for (float (&of_eight)[4] : out) {
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
    const int column = panel() * 64;
    T* const to = outputs.at<T>(at.batch, at.head, at.first + warp_row()) + column * outputs.column;
    ptx::syncwarp();  // all lanes have written what was here before
    store_sums(staged, Own::Tile::offset(lane_row(), lane_column()), out);
    ptx::syncwarp();
    Own::template write<16>(
        staged, 0, [&](int i) { return to + i * outputs.row; }, outputs.column,
        at.rows - warp_row(), static_cast<int>(a.call.dim) - column, a.aligned);
  }

  // From what each step counts for decays, and from the state to its gradient, times `decay`.
  __device__ __forceinline__ static void find_decays(SharedStorage& shared,
                                                     const DeltaBackwardCall& call, const Place& at,
                                                     float decay) {
    const auto add = [](float x, float y) { return x + y; };
    float product = 0;
#pragma unroll 4
    for (int i = thread_index() * 8; i < kStates; i += kThreads * 8) {
      const auto state = shared.state.template load<8>(i);
      const auto gradient = shared.gradient.template load<8>(i);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        product = thread::fma(to_float(state[j]), to_float(gradient[j]), product);
      }
    }
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
      if (step < at.rows) {
        thread::store(call.dlog_decay.at(at.batch, at.head, at.first + step), decays[i]);
      }
    }
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
    const auto run = [&]<int kDim>() {
      if (call.value_dim <= 64) return DeltaGradientsKernel<T, kDim, 64>::run(a, stream);
      DeltaGradientsKernel<T, kDim, kMmaMostDim>::run(a, stream);
    };
    if (call.dim <= 64) return run.template operator()<64>();
    run.template operator()<kMmaMostDim>();
  });
}

}  // namespace ws::linear_attention
