// The gradient by scans: chunks of 256 steps of all channels side by side, twice.
//
// What a chunk does to a state is a segment, and so is what it makes of the gradient of the state
// behind it: h goes back by the same decays. The first launch finds both of each chunk; the second
// folds them along each line, there and back; the third knows the state before each chunk and the
// gradient behind it, and does the rest.
//
// A warp has a channel, a block four at a time. They add to the same b and c: for each state the
// warps put what they add into shared memory, and each thread adds up what there is for two steps.
#pragma once

#include <algorithm>

#include "kernels/selective_scan/backward.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/warp/reduce.hpp"
#include "warpsmith/warp/scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

// Of a chunk, row and state: decay, what it makes of no state, what it makes of no gradient; after
// the fold the state before it and the gradient behind it stand in their places.
using Ends = Vec<float, 4>;

// How a call is cut.
struct Cut {
  static constexpr int kWarps = 4;
  static constexpr int kItems = 8;
  static constexpr int kSteps = kWarpSize * kItems;  // of a chunk

  int64_t chunks = 0;
  int64_t tiles = 0;  // of a group's channels
  int turns = 1;      // of four channels of a tile

  Cut() = default;
  explicit Cut(const BackwardCall& call) : chunks(divide_up(call.length, int64_t{kSteps})) {
    const int64_t wanted = divide_up(call.channels_of_group(), int64_t{kWarps});
    if (call.states <= 32) turns = static_cast<int>(std::clamp<int64_t>(wanted, 1, 8));
    tiles = divide_up(call.channels_of_group(), int64_t{kWarps} * turns);
  }
  int64_t blocks(const BackwardCall& call) const {
    return chunks * call.batch * call.groups * tiles;
  }
  // What waits in shared memory for the next turn.
  size_t waiting(const BackwardCall& call) const {
    if (turns == 1) return 0;
    return static_cast<size_t>(2 * kSteps * call.states) * sizeof(float);
  }
};

template <class T, class Access, bool kEnds>
struct BackwardScanKernel {
  static constexpr int kWarps = Cut::kWarps;
  static constexpr int kItems = Cut::kItems;
  static constexpr int kThreads = kWarps * kWarpSize;
  // Loads of single elements take registers for addresses.
  static constexpr int kMinBlocks = std::is_same_v<Access, InVectors> ? 3 : 1;
  static_assert(Cut::kSteps % kThreads == 0, "threads share the steps that they add up");
  using Tile = Steps<kItems>;
  struct Arguments {
    BackwardCall call;
    Cut cut;
    Ends* ends;        // [chunks, rows, states]
    float* of_lines;   // a part is a chunk
    float* of_groups;  // a share is a tile
  };
  struct None {};
  struct Shared {
    // What warps add to b and to c of a state, in turns of two.
    SharedArray<float, 2 * 2 * kWarps * Cut::kSteps> added;
  };
  using SharedStorage = std::conditional_t<kEnds, None, Shared>;

  // What a block works on: as many as there are blocks at most.
  struct Place {
    int chunk;
    int batch;
    int group;
    int tile;
    int64_t first;  // step of the thread
    int left;       // steps that are there
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const BackwardCall& call = a.call;
    Place at{};
    const auto tiles = static_cast<uint32_t>(a.cut.tiles);
    const auto groups = static_cast<uint32_t>(call.groups);
    const auto batches = static_cast<uint32_t>(call.batch);
    auto rest = static_cast<uint32_t>(block_index());
    at.tile = static_cast<int>(rest % tiles);
    rest /= tiles;
    at.group = static_cast<int>(rest % groups);
    rest /= groups;
    at.batch = static_cast<int>(rest % batches);
    at.chunk = static_cast<int>(rest / batches);
    at.first = int64_t{at.chunk} * Cut::kSteps + lane_index() * kItems;
    at.left = steps_left<kItems>(at.first, call.length);
    for (int turn = 0; turn < a.cut.turns; ++turn) {
      const int64_t nth = (int64_t{at.tile} * a.cut.turns + turn) * kWarps + warp_index();
      const bool exists = nth < call.channels_of_group();
      // Who has no channel takes the last one's and adds nothing: all meet at barriers.
      const int64_t last = call.channels_of_group() - 1;
      const int64_t channel = at.group * call.channels_of_group() + (exists ? nth : last);
      channel_of(shared, a, at, channel, exists, turn);
    }
  }

  __device__ __forceinline__ static void channel_of(SharedStorage& shared, const Arguments& a,
                                                    const Place& at, int64_t channel, bool exists,
                                                    int turn) {
    const BackwardCall& call = a.call;
    const int64_t row = at.batch * call.dim + channel;
    const int states = static_cast<int>(call.states);
    const auto load = [&](const Operand& operand) {
      return Access::template load<kItems>(
          operand.at<const T>(at.batch, channel) + at.first * operand.step, operand.step, at.left);
    };
    const float bias = of_channel(call.delta_bias, channel, 0);
    const float d = of_channel(call.d, channel, 0);
    Tile inflow = load(call.u);  // times the size, below
    Tile size = load(call.delta);
    Tile dy = load(call.g);
    float together = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const float raw = size[i] + bias;
      size[i] = i < at.left ? (call.softplus ? softplus(raw) : raw) : 0.0F;
      inflow[i] *= size[i];
      together += size[i];
    }
    if (call.z.exists) {
      const Tile z = load(call.z);
#pragma unroll
      for (int i = 0; i < kItems; ++i) dy[i] = Gate(dy[i], true, z[i]).dy;
    }
    Tile of_inflow{};  // of what a state takes in of b
    Tile of_size{};
    Tile y{};
#pragma unroll 1
    for (int n = 0; n < states; ++n) {
      const Tile b = Access::template load<kItems>(
          call.b.at<const T>(at.batch, at.group) + n * call.b.state + at.first * call.b.step,
          call.b.step, at.left);
      const Tile c = Access::template load<kItems>(
          call.c.at<const T>(at.batch, at.group) + n * call.c.state + at.first * call.c.step,
          call.c.step, at.left);
      const float given = thread::load(call.a.at<const float>(0, channel) + n * call.a.state);
      const float exponent = given * thread::kLog2E;
      Tile decay;
      Segment there{thread::exp2(together * exponent), 0};
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        decay[i] = thread::exp2(size[i] * exponent);
        there.value = thread::fma(decay[i], there.value, inflow[i] * b[i]);
      }
      Segment back{there.decay, 0};
#pragma unroll
      for (int i = kItems - 1; i >= 0; --i) {
        back.value = decay[i] * thread::fma(c[i], dy[i], back.value);
      }
      const Segment all_there = warp::inclusive_scan(there, Join{});
      const Segment all_back = warp::inclusive_scan_back(back, Join{});
      Ends* ends = a.ends + (at.chunk * call.rows() + row) * states + n;
      if constexpr (kEnds) {
        const Segment last = warp::shuffle(all_there, kWarpSize - 1);
        if (lane_index() == 0 && exists) {
          thread::store(ends, Ends{{last.decay, last.value, all_back.value, 0}});
        }
      } else {
        const Ends known = thread::load(ends);
        float x = warp::shift_up(all_there, Segment{})(known[1]);
        float later = warp::shift_down(all_back, Segment{})(known[2]);
        Tile kept;  // of the state before a step
        Tile of_b;
        Tile of_c;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          kept[i] = decay[i] * x;
          x = thread::fma(inflow[i], b[i], kept[i]);
          y[i] = thread::fma(c[i], x, y[i]);
          of_c[i] = dy[i] * x;
        }
        const int slots = slots_of(turn * states + n);
        put(shared, slots + kThreads * kItems, exists, of_c);
        float da = 0;
#pragma unroll
        for (int i = kItems - 1; i >= 0; --i) {
          const float h = thread::fma(c[i], dy[i], later);
          of_b[i] = h * inflow[i];
          of_inflow[i] = thread::fma(h, b[i], of_inflow[i]);
          const float of_decay = h * kept[i];
          of_size[i] = thread::fma(of_decay, given, of_size[i]);
          da = thread::fma(of_decay, size[i], da);
          later = decay[i] * h;
        }
        da = warp::all_reduce(da, [](float p, float q) { return p + q; });
        if (lane_index() == 0 && exists) store_line(a, at, n, row, da);
        put(shared, slots, exists, of_b);
        add_up_group(shared, a, at, n, turn, slots);
      }
    }
    if constexpr (!kEnds) {
      if (exists) finish(a, at, channel, row, bias, d, size, dy, of_inflow, of_size, y);
    }
  }

  __device__ __forceinline__ static void store_line(const Arguments& a, const Place& at, int which,
                                                    int64_t row, float sum) {
    const int64_t sums = a.call.states + 2;
    thread::store(a.of_lines + (at.chunk * sums + which) * a.call.rows() + row, sum);
  }

  // Where warps put what they add to b, and behind it to c. A set of slots is written again after
  // the barrier of the other one.
  __device__ __forceinline__ static int slots_of(int nth) {
    return nth % 2 * 2 * kThreads * kItems;
  }
  __device__ __forceinline__ static void put(SharedStorage& shared, int slots, bool exists,
                                             const Tile& values) {
    constexpr int kWidth = 4;  // 16 bytes
#pragma unroll
    for (int first = 0; first < kItems; first += kWidth) {
      Vec<float, kWidth> part;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) part[i] = exists ? values[first + i] : 0.0F;
      shared.added.template store<kWidth>(slots + thread_index() * kItems + first, part);
    }
  }

  // Everybody: what the warps have put for a state, and what the turns before have.
  __device__ __forceinline__ static void add_up_group(SharedStorage& shared, const Arguments& a,
                                                      const Place& at, int n, int turn, int slots) {
    const BackwardCall& call = a.call;
    const int states = static_cast<int>(call.states);
    ptx::barrier_sync();
    const SharedSpan<float> waiting =
        dynamic_shared<float>(shared, a.cut.turns == 1 ? 0 : int64_t{2} * Cut::kSteps * states);
    const int64_t size = call.states * call.length;
    const int64_t share = (int64_t{at.batch} * call.groups + at.group) * a.cut.tiles + at.tile;
    const int64_t of_c_at = call.batch * call.groups * a.cut.tiles * size;
#pragma unroll
    for (int which = 0; which < 2; ++which) {
#pragma unroll
      for (int i = thread_index(); i < Cut::kSteps; i += kThreads) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          const float one = shared.added[slots + which * kThreads * kItems + w * Cut::kSteps + i];
          sum += one;
        }
        const int mine = (which * states + n) * Cut::kSteps + i;
        if (turn > 0) {
          const float before = waiting[mine];
          sum += before;
        }
        const int64_t step = int64_t{at.chunk} * Cut::kSteps + i;
        if (turn + 1 < a.cut.turns) {
          waiting[mine] = sum;
        } else if (step < call.length) {
          thread::store(a.of_groups + which * of_c_at + share * size + n * call.length + step, sum);
        }
      }
    }
  }

  // What is left when all states have been there.
  __device__ __forceinline__ static void finish(const Arguments& a, const Place& at,
                                                int64_t channel, int64_t row, float bias, float d,
                                                const Tile& size, const Tile& dy,
                                                const Tile& of_inflow, Tile& of_size, Tile& y) {
    const BackwardCall& call = a.call;
    const auto store = [&](const Operand& operand, const Tile& values) {
      Access::store(operand.at<T>(at.batch, channel) + at.first * operand.step, operand.step,
                    at.left, values);
    };
    const auto load = [&](const Operand& operand) {
      return Access::template load<kItems>(
          operand.at<const T>(at.batch, channel) + at.first * operand.step, operand.step, at.left);
    };
    const Tile u = load(call.u);
    const Tile delta = load(call.delta);
    Tile du;
    float dd = 0;
    float dbias = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      du[i] = thread::fma(size[i], of_inflow[i], d * dy[i]);
      of_size[i] = thread::fma(u[i], of_inflow[i], of_size[i]);
      if (call.softplus) of_size[i] *= thread::sigmoid(delta[i] + bias);
      dd = thread::fma(dy[i], u[i], dd);
      if (i < at.left) dbias += of_size[i];
      y[i] = thread::fma(d, u[i], y[i]);
    }
    if (call.z.exists) {
      const Tile z = load(call.z);
      const Tile g = load(call.g);
#pragma unroll
      for (int i = 0; i < kItems; ++i) y[i] *= Gate(g[i], true, z[i]).of_gate;
      store(call.dz, y);
    }
    store(call.du, du);
    store(call.ddelta, of_size);
    const auto add = [](float p, float q) { return p + q; };
    dd = warp::all_reduce(dd, add);
    dbias = warp::all_reduce(dbias, add);
    if (lane_index() != 0) return;
    store_line(a, at, static_cast<int>(call.states), row, dd);
    store_line(a, at, static_cast<int>(call.states) + 1, row, dbias);
  }
};

// A thread a row and state walks its chunks there and back, from the state that comes in and from
// the gradient of the one that goes out: ends become what lies before and behind.
struct FoldEndsKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    BackwardCall call;
    Ends* ends;
    int64_t chunks;
    int64_t lines;  // rows * states
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t line = block_index() * kThreads + thread_index();
    if (line >= a.lines) return;
    const int64_t row = line / a.call.states;
    const int64_t state = line % a.call.states;
    const int64_t batch = row / a.call.dim;
    const int64_t channel = row % a.call.dim;
    float x = state_of(a.call.initial_state, batch, channel, state);
    for (int64_t chunk = 0; chunk < a.chunks; ++chunk) {
      Ends* at = a.ends + chunk * a.lines + line;
      Ends one = thread::load(at);
      const float after = thread::fma(one[0], x, one[1]);
      one[1] = x;
      thread::store(at, one);
      x = after;
    }
    float later = state_of(a.call.dlast_state, batch, channel, state);
    for (int64_t chunk = a.chunks - 1; chunk >= 0; --chunk) {
      Ends* at = a.ends + chunk * a.lines + line;
      Ends one = thread::load(at);
      const float before = thread::fma(one[0], later, one[2]);
      one[2] = later;
      thread::store(at, one);
      later = before;
    }
    if (!a.call.dinitial_state.exists) return;
    thread::store(
        a.call.dinitial_state.at<float>(batch, channel) + state * a.call.dinitial_state.state,
        later);
  }
};

template <class Access>
struct BackwardScan {
  static bool supports(const BackwardCall& call, Why& why) {
    if constexpr (std::is_same_v<Access, InVectors>) {
      if (!has_vectors(call, {&call.g, &call.du, &call.ddelta, &call.dz}, why)) return false;
    }
    return why.unless(Cut(call).blocks(call) < int64_t{1} << 31, "takes fewer than 2^31 chunks");
  }
  static Workspace workspace(const BackwardCall& call) {
    const Cut cut(call);
    const int64_t floats = group_sums(call, cut.tiles) + line_sums(call, cut.chunks);
    return {.bytes = ends_bytes(call, cut) + static_cast<size_t>(floats) * sizeof(float)};
  }
  static size_t ends_bytes(const BackwardCall& call, const Cut& cut) {
    return static_cast<size_t>(cut.chunks * call.rows() * call.states) * sizeof(Ends);
  }
  static void run(const BackwardCall& call, const Context& context) {
    const Cut cut(call);
    auto* ends = static_cast<Ends*>(context.workspace);
    auto* of_lines = reinterpret_cast<float*>(static_cast<std::byte*>(context.workspace) +
                                              ends_bytes(call, cut));
    float* of_groups = of_lines + line_sums(call, cut.chunks);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using First = BackwardScanKernel<T, Access, true>;
      using Second = BackwardScanKernel<T, Access, false>;
      const int64_t blocks = cut.blocks(call);
      const int64_t lines = call.rows() * call.states;
      if (blocks > 0) {
        launch<First>({.blocks = blocks, .threads = First::kThreads}, context.stream,
                      {call, cut, ends, of_lines, of_groups});
      }
      if (lines > 0) {
        launch<FoldEndsKernel>({.blocks = divide_up(lines, int64_t{FoldEndsKernel::kThreads}),
                                .threads = FoldEndsKernel::kThreads},
                               context.stream, {call, ends, cut.chunks, lines});
      }
      if (blocks > 0) {
        launch<Second>(
            {.blocks = blocks, .threads = Second::kThreads, .dynamic_shared = cut.waiting(call)},
            context.stream, {call, cut, ends, of_lines, of_groups});
      }
      add_up<T>(call, of_lines, cut.chunks, of_groups, cut.tiles, context.stream);
    });
  }
};

}  // namespace ws::selective_scan
#endif
