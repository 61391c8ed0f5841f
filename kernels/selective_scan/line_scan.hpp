// LineScanKernel: a team of threads scans channels, each thread some steps in a row. For each state
// a thread folds its steps into a segment, the team scans the segments, and the thread walks its
// steps once more, now that it knows the state before them.
//
// The decays of a step are used twice and stay in registers; that of a thread's steps together is
// one exponential of the sum of their sizes, not a product. Steps beyond the end have size 0, which
// changes no state: decay 1, inflow 0.
#pragma once

#include <algorithm>

#include "kernels/selective_scan/parts.hpp"
#include "kernels/selective_scan/team.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

// A team, teams of a block, channels of a team, steps of a thread, how they are read, and blocks of
// an SM: if left out, as leave a thread 128 registers.
template <class ItsTeam, int kTeams_, int kChannels_, int kItems_, class ItsAccess,
          int kMinBlocks_ = 512 / (ItsTeam::kThreads * kTeams_)>
struct LinePolicy {
  using Team = ItsTeam;
  using Access = ItsAccess;
  static constexpr int kTeams = kTeams_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int kChannels = kChannels_;
  static constexpr int kItems = kItems_;
};

template <class T, class Policy, Part kPart>
struct LineScanKernel {
  using Team = typename Policy::Team;
  using Access = typename Policy::Access;
  static constexpr int kChannels = Policy::kChannels;
  static constexpr int kThreads = Team::kThreads * Policy::kTeams;
  static constexpr int kItems = Policy::kItems;
  static constexpr int kMinBlocks = Policy::kMinBlocks;
  using Tile = Steps<kItems>;
  using Arguments = ScanArguments;
  using SharedStorage = typename Team::Storage;

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const ForwardCall& call = a.call;
    const int64_t part = kPart == Part::kWhole ? 0 : block_index() / a.row_blocks;
    const int64_t team_index = (block_index() - part * a.row_blocks) * Policy::kTeams +
                               (Policy::kTeams == 1 ? 0 : thread_index() / Team::kThreads);
    const int64_t row = team_index * kChannels;
    if (row >= call.rows()) return;  // a whole team, which waits for nobody else
    const int64_t batch = row / call.dim;
    const int64_t channel = row - batch * call.dim;
    const int64_t group = channel / call.channels_of_group();
    const T* b = call.b.at<const T>(batch, group);
    const T* c = call.c.at<const T>(batch, group);
    const int64_t begin = part * a.part_steps;
    const int64_t end = std::min(begin + a.part_steps, call.length);
    const int states = static_cast<int>(call.states);

    Team team(shared);
    for (int n = Team::rank(); n < states; n += Team::kThreads) {
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        float x = first_state<kPart>(call, batch, channel + k, n);
        if constexpr (kPart == Part::kResults) {
#pragma unroll 4
          for (int64_t p = 0; p < part; ++p) x = after_part(a, p, row + k, n, x);
        }
        team.put(k, n, x);
      }
    }
    team.meet();
    float all_sizes[kChannels] = {};  // of the thread's steps in the part
    for (int64_t at = begin; at < end; at += Team::kThreads * kItems) {
      const int64_t first = at + Team::rank() * kItems;
      const int left = steps_left<kItems>(first, end);
      Tile size[kChannels];
      Tile inflow[kChannels];
      Tile y[kChannels];
      float together[kChannels];  // sizes of the thread's steps here
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        load_steps(call, batch, channel + k, first, left, size[k], inflow[k], y[k]);
        together[k] = thread::fold(size[k], 0.0F, [](float p, float q) { return p + q; });
        all_sizes[k] += together[k];
      }
#pragma unroll 1
      for (int n = 0; n < states; ++n) {
        const Tile b_of = Access::template load<kItems>(b + n * call.b.state + first * call.b.step,
                                                        call.b.step, left);
        Tile c_of;
        if constexpr (kPart != Part::kTotals) {
          c_of = Access::template load<kItems>(c + n * call.c.state + first * call.c.step,
                                               call.c.step, left);
        }
#pragma unroll
        for (int k = 0; k < kChannels; ++k) {
          const float exponent = exponent_of(call, channel + k, n);
          Tile decay;
          Segment own{thread::exp2(together[k] * exponent), 0};
#pragma unroll
          for (int i = 0; i < kItems; ++i) {
            decay[i] = thread::exp2(size[k][i] * exponent);
            own.value = thread::fma(decay[i], own.value, inflow[k][i] * b_of[i]);
          }
          const float known = team.state(k, n);
          float x = team.before(own)(known);
          if constexpr (kPart == Part::kTotals) {
            x = own(x);
          } else {
#pragma unroll
            for (int i = 0; i < kItems; ++i) {
              x = thread::fma(decay[i], x, inflow[k][i] * b_of[i]);
              y[k][i] = thread::fma(c_of[i], x, y[k][i]);
            }
          }
          team.keep(k, n, x);
        }
      }
      if constexpr (kPart != Part::kTotals) {
#pragma unroll
        for (int k = 0; k < kChannels; ++k) {
          if (call.z.exists) {
            const T* z = call.z.at<const T>(batch, channel + k) + first * call.z.step;
            const Tile gate = Access::template load<kItems>(z, call.z.step, left);
#pragma unroll
            for (int i = 0; i < kItems; ++i) y[k][i] *= silu(gate[i]);
          }
          Access::store(call.out.at<T>(batch, channel + k) + first * call.out.step, call.out.step,
                        left, y[k]);
        }
      }
      team.meet();
    }

    if constexpr (kPart == Part::kTotals) {
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        static_assert(kPart != Part::kTotals || Team::kThreads == kWarpSize);
        const float size = warp::all_reduce(all_sizes[k], [](float p, float q) { return p + q; });
        const int n = Team::rank();
        if (n >= states) continue;
        const Segments found{
            {thread::exp2(size * exponent_of(call, channel + k, n)), team.own(k, n)}};
        thread::store(a.segments + (part * call.rows() + row + k) * states + n, found);
      }
    } else if (call.last_state.exists && end == call.length) {
      for (int n = Team::rank(); n < states; n += Team::kThreads) {
#pragma unroll
        for (int k = 0; k < kChannels; ++k) {
          thread::store(call.last_state.at<float>(batch, channel + k) + n * call.last_state.state,
                        team.own(k, n));
        }
      }
    }
  }

  // Sizes of steps, what they take in of u, and d * u.
  __device__ __forceinline__ static void load_steps(const ForwardCall& call, int64_t batch,
                                                    int64_t channel, int64_t first, int left,
                                                    Tile& size, Tile& inflow, Tile& y) {
    const T* delta = call.delta.at<const T>(batch, channel) + first * call.delta.step;
    const T* line = call.u.at<const T>(batch, channel) + first * call.u.step;
    const Tile given = Access::template load<kItems>(delta, call.delta.step, left);
    const Tile u = Access::template load<kItems>(line, call.u.step, left);
    const float bias = of_channel(call.delta_bias, channel, 0);
    const float d = of_channel(call.d, channel, 0);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const float raw = given[i] + bias;
      size[i] = i < left ? (call.softplus ? softplus(raw) : raw) : 0.0F;
      inflow[i] = size[i] * u[i];
      y[i] = d * u[i];
    }
  }
};

// How lines are scanned so.
template <class Policy>
struct LineScan {
  template <class T, Part kPart>
  using Kernel = LineScanKernel<T, Policy, kPart>;
  // Steps of a team at a time, and rows that fill a large device: 16 warps of an SM.
  static constexpr int64_t kStretch = int64_t{Policy::Team::kThreads} * Policy::kItems;
  static constexpr int64_t kRowsOfDevice = int64_t{132} * 16 * Policy::kChannels;

  static int64_t row_blocks(const ForwardCall& call) {
    return divide_up(call.rows(), int64_t{Policy::kTeams} * Policy::kChannels);
  }
  static size_t dynamic_shared(const ForwardCall& /*call*/) { return 0; }
  static bool supports(const ForwardCall& call, Why& why) {
    if constexpr (std::is_same_v<typename Policy::Access, InVectors>) {
      if (!has_vectors(call, {&call.out}, why)) return false;
    }
    return why.unless(call.states <= Policy::Team::kStates, "holds up to ", Policy::Team::kStates,
                      " states, not ", call.states) &&
           why.unless(call.channels_of_group() % Policy::kChannels == 0, "takes ",
                      Policy::kChannels, " channels of a group at once, of ",
                      call.channels_of_group());
  }
};

}  // namespace ws::selective_scan
#endif
