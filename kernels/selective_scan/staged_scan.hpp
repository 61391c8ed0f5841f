// StagedScanKernel: steps one after the other, states in lanes; all that a step asks for lies in
// shared memory before its turn comes.
//
// A block has 64 channels of a group, a warp 16, and takes 32 steps at a time. Four lanes walk two
// channels, each four of 16 states: eight recurrences that do not wait for each other. Beyond 16
// states the warp takes the 32 steps again for the next 16.
//
// What a thread copies (cp.async) only it reads: 16 bytes of delta, u and z, of which it makes the
// sizes and inflows that its warp walks and, afterwards, the gates; eight steps of b or c of a
// state, which it puts down for the block as f32, state beside state. So a copy asks for no
// barrier, and there is one for each 32 steps of 16 states.
#pragma once

#include <algorithm>

#include "kernels/selective_scan/parts.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/warp/shuffle.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

template <class T, Part kPart>
struct StagedScanKernel {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kMinBlocks = 3;
  static constexpr int kSteps = 32;
  static constexpr int kRows = 16;  // channels of a warp
  static constexpr int kChannels = kWarps * kRows;
  static constexpr int kGroup = 16;          // states at a time
  static constexpr int kPitch = kSteps + 4;  // 16 bytes of eight rows in different banks
  // Of a channel: states of a lane at a time, and of a lane: channels.
  static constexpr int kOwn = 4;
  static constexpr int kPair = 2;

  // 16 bytes of steps; how many of a row, and how many of a warp's rows are a lane's.
  static constexpr int kPiece = 16 / static_cast<int>(sizeof(T));
  static constexpr int kOfRow = kSteps / kPiece;
  static constexpr int kPieces = kRows * kOfRow / kWarpSize;
  // Steps of b or c that a thread copies for all.
  static constexpr int kStream = kSteps / kWarps;

  using Arguments = ScanArguments;
  struct SharedStorage {
    SharedArray<T, kThreads * kPieces * kPiece> u, delta;
    SharedArray<T, 2 * kThreads * kPieces * kPiece> z;  // of these steps, and of the next
    SharedArray<T, kThreads * kStream> streams;
    SharedArray<float, kChannels * kPitch> size, inflow, y;
    SharedArray<float, 2 * kSteps * 2 * kGroup> bc;  // of a step 16 of b, 16 of c; two turns
  };
  // Beyond: of each 16 states a thread's own, and their exponents.
  static constexpr int kHeldOfGroup = 2 * kPair * kThreads * kOwn;

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Walk walk(shared, a);
    // Or the warp only copies b and c, for others. By a vote, which tells the compiler that all
    // lanes have one answer.
    const bool works = ptx::vote_sync_any(kFullMask, walk.has(0));
    walk.begin(works);
    int turn = 0;
    for (int64_t at = walk.first_step; at < walk.end; at += kSteps) {
      for (int g = 0; g < walk.groups; ++g) {
        ptx::cp_async_wait_group<0>();
        walk.publish_streams(turn);
        if (g == 0 && works) {
          walk.prepare(at);
          walk.copy_steps(at + kSteps);
        }
        const bool is_last = g + 1 == walk.groups;
        walk.copy_streams(is_last ? at + kSteps : at, is_last ? 0 : g + 1);
        ptx::cp_async_commit_group();
        ptx::barrier_sync();
        if (works) walk.steps(g, turn);
        turn ^= 1;
      }
      ptx::syncwarp();
      if (kPart != Part::kTotals && works) walk.finish(at);
    }
    if (works) walk.leave();
  }

 private:
  using Four = Vec<float, 4>;

  struct Walk {
    SharedStorage& shared;
    const Arguments& a;
    const ForwardCall& call;
    SharedSpan<float> held;
    int groups;  // of 16 states
    int64_t part, batch, group;
    int64_t before, last;  // of a group: channels before the warp's first, and its last one
    int64_t first_step, end;
    int row[kPair];  // of the warp's: the lane's channels
    int own;         // the first of its states
    float bias[kPieces];
    float d[kPieces];
    float together[kPair] = {};

    __device__ __forceinline__ Walk(SharedStorage& storage, const Arguments& arguments)
        : shared(storage),
          a(arguments),
          call(arguments.call),
          held(dynamic_shared<float>(
              storage, divide_up(call.states, int64_t{kGroup}) * int64_t{kHeldOfGroup})),
          groups(static_cast<int>(divide_up(call.states, int64_t{kGroup}))) {
      part = kPart == Part::kWhole ? 0 : block_index() / a.row_blocks;
      const int64_t block = block_index() - part * a.row_blocks;
      const int64_t blocks_of_group = divide_up(call.channels_of_group(), int64_t{kChannels});
      const int64_t of_batches = block / blocks_of_group;
      batch = of_batches / call.groups;
      group = of_batches - batch * call.groups;
      before = (block - of_batches * blocks_of_group) * kChannels + warp_index() * kRows;
      last = call.channels_of_group() - 1;
      first_step = part * a.part_steps;
      end = std::min(first_step + a.part_steps, call.length);
      // Two lanes that differ in bit 0 read the same b and c, in bit 1 the same steps: so 16 lanes'
      // 16 bytes are one turn of the banks. Lanes that differ in bit 2 have the same channels, each
      // the other's second as its first: what a lane keeps of outputs is its first.
      const int lane = lane_index();
      const int pair = lane % 2 + lane / 8 * 2;
      row[0] = 2 * pair + lane / 4 % 2;
      row[1] = 2 * pair + 1 - lane / 4 % 2;
      own = lane / 2 % 4 * kOwn;
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        bias[i] = of_channel(call.delta_bias, channel_of(piece_row(i)), 0);
        d[i] = of_channel(call.d, channel_of(piece_row(i)), 0);
      }
    }

    // Rows that there are not are the last one once more, which nobody stores.
    __device__ __forceinline__ int64_t channel_of(int r) const {
      return group * (last + 1) + std::min(before + r, last);
    }
    __device__ __forceinline__ bool has(int r) const { return before + r <= last; }

    // Where the i-th piece of a lane lies.
    __device__ __forceinline__ static int piece_row(int i) {
      return i * (kRows / kPieces) + lane_index() / kOfRow;
    }
    __device__ __forceinline__ static int piece_step() { return lane_index() % kOfRow * kPiece; }
    __device__ __forceinline__ static int in_rows(int i) {
      return (warp_index() * kRows + piece_row(i)) * kPitch + piece_step();
    }
    __device__ __forceinline__ static int in_copies(int i) {
      return (i * kThreads + thread_index()) * kPiece;
    }
    // Which half of z steps are in.
    __device__ __forceinline__ int z_of(int64_t at) const {
      return static_cast<int>((at - first_step) / kSteps % 2) * kThreads * kPieces * kPiece;
    }

    __device__ __forceinline__ int in_held(int g, int what, int k) const {
      return (((g * 2 + what) * kPair + k) * kThreads + thread_index()) * kOwn;
    }

    __device__ __forceinline__ void begin(bool works) {
      if (works) copy_steps(first_step);
      copy_streams(first_step, 0);
      ptx::cp_async_commit_group();
      if (!works) return;
      for (int g = 0; g < groups; ++g) {
        // All loads go out before the first is waited for: states that there are not load the last.
        Four exponent[kPair];
        Four x[kPair];
        const int most = static_cast<int>(call.states) - 1;
        each_state(g, [&](int k, int i, int n) {
          exponent[k][i] = exponent_of(call, channel_of(row[k]), std::min(n, most));
          x[k][i] = first_state<kPart>(call, batch, channel_of(row[k]), std::min(n, most));
        });
        if constexpr (kPart == Part::kResults) {
#pragma unroll 4
          for (int64_t p = 0; p < part; ++p) {
            each_state(g, [&](int k, int i, int n) {
              const int64_t line = batch * call.dim + channel_of(row[k]);
              x[k][i] = after_part(a, p, line, std::min(n, most), x[k][i]);
            });
          }
        }
        each_state(g, [&](int k, int i, int n) {
          exponent[k][i] = n <= most ? exponent[k][i] : 0.0F;
          x[k][i] = n <= most ? x[k][i] : 0.0F;
        });
#pragma unroll
        for (int k = 0; k < kPair; ++k) {
          held.store(in_held(g, 0, k), exponent[k]);
          held.store(in_held(g, 1, k), x[k]);
        }
      }
    }
    // f of a lane's states: the i-th of channel k, by its number n, which there may not be.
    template <class F>
    __device__ __forceinline__ void each_state(int g, const F& f) const {
#pragma unroll
      for (int k = 0; k < kPair; ++k) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) f(k, i, g * kGroup + own + i);
      }
    }

    // Asks for u, delta and z of 32 steps, if there are any.
    __device__ __forceinline__ void copy_steps(int64_t at) const {
      if (at >= end) return;
      const int64_t first = at + piece_step();
      const int left = steps_left<kPiece>(first, end);
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const int64_t channel = channel_of(piece_row(i));
        const auto copy = [&](const Operand& of, T* to) {
          const T* line = of.at<const T>(batch, channel);
          ptx::cp_async<16>(to, left > 0 ? line + first : line, left * static_cast<int>(sizeof(T)));
        };
        copy(call.delta, shared.delta.pointer(in_copies(i)));
        copy(call.u, shared.u.pointer(in_copies(i)));
        if (kPart != Part::kTotals && call.z.exists) {
          copy(call.z, shared.z.pointer(z_of(at) + in_copies(i)));
        }
      }
    }
    // Asks for b and c of 16 states in 32 steps: a lane a state of one of the two.
    __device__ __forceinline__ void copy_streams(int64_t at, int g) const {
      const bool is_c = lane_index() >= kGroup;
      if (at >= end || (kPart == Part::kTotals && is_c)) return;
      const int n = g * kGroup + lane_index() % kGroup;
      const Operand& of = is_c ? call.c : call.b;
      const T* line = of.at<const T>(batch, group) + n * of.state;
#pragma unroll
      for (int i = 0; i < kStream; i += kPiece) {
        const int64_t first = at + warp_index() * kStream + i;
        const int left = n < call.states ? steps_left<kPiece>(first, end) : 0;
        ptx::cp_async<16>(shared.streams.pointer(i * kThreads + thread_index() * kPiece),
                          left > 0 ? line + first : of.at<const T>(batch, group),
                          left * static_cast<int>(sizeof(T)));
      }
    }
    // What arrived of b or c, to all: 32 states beside one another.
    __device__ __forceinline__ void publish_streams(int turn) const {
      if (kPart == Part::kTotals && lane_index() >= kGroup) return;
      const int to = (turn * kSteps + warp_index() * kStream) * 2 * kGroup + lane_index();
#pragma unroll
      for (int i = 0; i < kStream; i += kPiece) {
        const auto own_steps =
            shared.streams.template load<kPiece>(i * kThreads + thread_index() * kPiece);
#pragma unroll
        for (int j = 0; j < kPiece; ++j) {
          shared.bc[to + (i + j) * 2 * kGroup] = to_float(own_steps[j]);
        }
      }
    }

    // Sizes of steps, what they take in of u, and d * u as the beginning of outputs.
    __device__ __forceinline__ void prepare(int64_t at) const {
      const int left = steps_left<kPiece>(at + piece_step(), end);
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const auto given = shared.delta.template load<kPiece>(in_copies(i));
        const auto line = shared.u.template load<kPiece>(in_copies(i));
        Steps<kPiece> size;
#pragma unroll
        for (int j = 0; j < kPiece; ++j) size[j] = to_float(given[j]) + bias[i];
        if (call.softplus) {
#pragma unroll
          for (int j = 0; j < kPiece; ++j) size[j] = softplus(size[j]);
        }
#pragma unroll
        for (int j = 0; j < kPiece; j += 4) {
          Four of_steps;
          Four inflow;
          Four y;
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float u = to_float(line[j + e]);
            of_steps[e] = j + e < left ? size[j + e] : 0.0F;
            inflow[e] = of_steps[e] * u;
            y[e] = d[i] * u;
          }
          shared.size.store(in_rows(i) + j, of_steps);
          shared.inflow.store(in_rows(i) + j, inflow);
          if constexpr (kPart != Part::kTotals) shared.y.store(in_rows(i) + j, y);
        }
      }
    }

    // 32 steps of 16 states.
    __device__ __forceinline__ void steps(int g, int turn) {
      Four exponent[kPair];
      Four x[kPair];
      int line[kPair];
#pragma unroll
      for (int k = 0; k < kPair; ++k) {
        exponent[k] = held.load<kOwn>(in_held(g, 0, k));
        x[k] = held.load<kOwn>(in_held(g, 1, k));
        line[k] = (warp_index() * kRows + row[k]) * kPitch;
      }
#pragma unroll 2
      for (int t = 0; t < kSteps; t += 4) {
        Four size[kPair];
        Four inflow[kPair];
        float y[kPair][4];
#pragma unroll
        for (int k = 0; k < kPair; ++k) {
          size[k] = shared.size.template load<4>(line[k] + t);
          inflow[k] = shared.inflow.template load<4>(line[k] + t);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = (turn * kSteps + t + i) * 2 * kGroup + own;
          const Four b = shared.bc.template load<4>(at);
          Four c{};
          if constexpr (kPart != Part::kTotals) c = shared.bc.template load<4>(at + kGroup);
#pragma unroll
          for (int k = 0; k < kPair; ++k) {
            if (kPart == Part::kTotals && g == 0) together[k] += size[k][i];
            y[k][i] = 0;
#pragma unroll
            for (int n = 0; n < kOwn; ++n) {
              const float decay = thread::exp2(size[k][i] * exponent[k][n]);
              x[k][n] = thread::fma(decay, x[k][n], inflow[k][i] * b[n]);
              y[k][i] = n == 0 ? c[n] * x[k][n] : thread::fma(c[n], x[k][n], y[k][i]);
            }
          }
        }
        if constexpr (kPart != Part::kTotals) add_outputs(line[0] + t, y);
      }
#pragma unroll
      for (int k = 0; k < kPair; ++k) held.store(in_held(g, 1, k), x[k]);
    }

    // Four lanes' parts of outputs of four steps of two channels: each lane gets two steps of its
    // first channel.
    __device__ __forceinline__ void add_outputs(int to, const float (&y)[kPair][4]) const {
      float of_two[4];  // lanes
#pragma unroll
      for (int i = 0; i < 4; ++i) of_two[i] = y[0][i] + warp::shuffle_xor(y[1][i], 4);
      const bool is_later = lane_index() / 2 % 2 != 0;
      const int at = to + (is_later ? 2 : 0);
      auto sum = shared.y.template load<2>(at);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float given = is_later ? of_two[i] : of_two[i + 2];
        const float kept = is_later ? of_two[i + 2] : of_two[i];
        sum[i] += kept + warp::shuffle_xor(given, 2);
      }
      shared.y.store(at, sum);
    }

    // Gates and stores what 32 steps gave.
    __device__ __forceinline__ void finish(int64_t at) const {
      const int64_t first = at + piece_step();
      const int left = steps_left<kPiece>(first, end);
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        Steps<kPiece> y;
#pragma unroll
        for (int j = 0; j < kPiece; j += 4) {
          const Four four = shared.y.template load<4>(in_rows(i) + j);
#pragma unroll
          for (int e = 0; e < 4; ++e) y[j + e] = four[e];
        }
        if (call.z.exists) {
          const auto gate = shared.z.template load<kPiece>(z_of(at) + in_copies(i));
#pragma unroll
          for (int j = 0; j < kPiece; ++j) y[j] *= silu(to_float(gate[j]));
        }
        if (!has(piece_row(i))) continue;
        InVectors::store(call.out.at<T>(batch, channel_of(piece_row(i))) + first, 1, left, y);
      }
    }

    // The last states, or what the part does to a state.
    __device__ __forceinline__ void leave() const {
      const bool is_asked =
          kPart == Part::kTotals || (call.last_state.exists && end == call.length);
      if (!is_asked) return;
      for (int g = 0; g < groups; ++g) {
        Four exponent[kPair];
        Four x[kPair];
#pragma unroll
        for (int k = 0; k < kPair; ++k) {
          exponent[k] = held.load<kOwn>(in_held(g, 0, k));
          x[k] = held.load<kOwn>(in_held(g, 1, k));
        }
        each_state(g, [&](int k, int i, int n) {
          if (n >= call.states || !has(row[k])) return;
          const int64_t channel = channel_of(row[k]);
          if constexpr (kPart == Part::kTotals) {
            const int64_t line = part * call.rows() + batch * call.dim + channel;
            thread::store(a.segments + line * call.states + n,
                          Segments{{thread::exp2(together[k] * exponent[k][i]), x[k][i]}});
          } else {
            thread::store(call.last_state.at<float>(batch, channel) + n * call.last_state.state,
                          x[k][i]);
          }
        });
      }
    }
  };
};

// How lines are scanned so.
class StagedScan {
 public:
  template <class T, Part kPart>
  using Kernel = StagedScanKernel<T, kPart>;
  // Steps that are worth a part, and rows that fill a large device: eight warps of an SM.
  static constexpr int64_t kStretch = 256;
  static constexpr int64_t kRowsOfDevice = int64_t{132} * 8 * 16;
  static constexpr int64_t kStates = 64;

  static int64_t row_blocks(const ForwardCall& call) {
    return call.batch * call.groups *
           divide_up(call.channels_of_group(), int64_t{Widest::kChannels});
  }
  static size_t dynamic_shared(const ForwardCall& call) {
    return static_cast<size_t>(divide_up(call.states, int64_t{Widest::kGroup})) *
           Widest::kHeldOfGroup * sizeof(float);
  }
  static bool supports(const ForwardCall& call, Why& why) {
    const size_t shared_bytes = sizeof(Widest::SharedStorage) + dynamic_shared(call);
    return has_vectors(call, {&call.out}, why) &&
           why.unless(call.states <= kStates, "holds up to ", kStates, " states, not ",
                      call.states) &&
           why.unless(shared_bytes <= static_cast<size_t>(device_facts().shared_bytes), "needs ",
                      shared_bytes, " bytes of shared memory");
  }

 private:
  using Widest = Kernel<float, Part::kWhole>;
};

}  // namespace ws::selective_scan
#endif
