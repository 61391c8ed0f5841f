// Idea: a block has the sums of a line of y in shared memory, and adds there what its indices say.
// From large_index: an addition is not one of the L2, where 32 places are as many sectors; x is
// what sums begin with, so that there is no launch before or after, and no workspace.
// Traffic: source, indices, x and y once.
// Limits: along what lies side by side in y, source and index, whole vectors of it; lines of 24576
// elements. Elements of a line come in an order that is nobody's.
// Long: lanes that meet at a sum; which calls have lines.
#pragma once

#include <algorithm>

#include "kernels/index_add/elements.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/atomic_shared.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/warp/reduce.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
template <class T, class Index>
struct AddLinesKernel {
  static constexpr int kThreads = 512;  // at most
  static constexpr int kAhead = 4;      // vectors of indices and of source under way
  static constexpr int kStep = 16 / sizeof(Index);
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int kOfSums = 4;
  struct Arguments {
    IndexCheck check;
    QuickNest<kOperands> places;
    const Index* index;
    const T* source;
    const T* x;
    T* y;
    float alpha;
    uint32_t rows;   // elements of a line of y
    uint32_t count;  // of the source that are added to it
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    int64_t at[kOperands];
    a.places.find(block_index() * a.count, at);
    const auto thread = static_cast<uint32_t>(thread_index());
    const auto threads = static_cast<uint32_t>(block_threads());
    const SharedSpan<float> sums = dynamic_shared<float>(shared, a.rows);

    for (uint32_t i = thread * kWidth; i < a.rows; i += threads * kWidth) {
      const Vec<T, kWidth> x = thread::load<kWidth>(a.x + at[kTable] + i);
#pragma unroll
      for (int j = 0; j < kWidth; j += kOfSums) {
        Vec<float, kOfSums> begin;
#pragma unroll
        for (int k = 0; k < kOfSums; ++k) begin[k] = to_float(x[j + k]);
        sums.store<kOfSums>(i + j, begin);
      }
    }
    ptx::barrier_sync();

    const uint32_t step = threads * kStep;
    for (uint32_t tile = 0; tile < a.count; tile += step * kAhead) {
      const uint32_t own = tile + thread * kStep;
      Vec<Index, kStep> rows[kAhead];
      Vec<T, kStep> values[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (own + j * step >= a.count) continue;
        rows[j] = thread::load<kStep>(a.index + at[kIndex] + own + j * step);
        values[j] = thread::load<kStep>(a.source + at[kEach] + own + j * step);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const bool is_there = own + j * step < a.count;
#pragma unroll
        for (int k = 0; k < kStep; ++k) {
          const bool is_right = is_there && a.check(rows[j][k], at[kPosition] + own + j * step + k);
          const uint32_t row = is_right ? static_cast<uint32_t>(rows[j][k]) : a.rows;
          add(sums, a.rows, row, is_right ? a.alpha * to_float(values[j][k]) : 0.0F);
        }
      }
    }
    ptx::barrier_sync();

    for (uint32_t i = thread * kWidth; i < a.rows; i += threads * kWidth) {
      Vec<T, kWidth> y;
#pragma unroll
      for (int j = 0; j < kWidth; j += kOfSums) {
        const Vec<float, kOfSums> end = sums.load<kOfSums>(i + j);
#pragma unroll
        for (int k = 0; k < kOfSums; ++k) y[j + k] = from_float<T>(end[k]);
      }
      thread::store(a.y + at[kTable] + i, y);
    }
  }

 private:
  // Lanes that meet at one address take their turns, and so do warps: where all lanes of a warp are
  // at one, it adds once.
  static __device__ __forceinline__ void add(const SharedSpan<float>& sums, uint32_t none,
                                             uint32_t row, float value) {
    if (ptx::vote_sync_all(kFullMask, row == warp::shuffle(row, 0))) {
      if (row == none) return;
      const float sum = warp::all_reduce(value, [](float a, float b) { return a + b; });
      if (lane_index() == 0) ptx::red_shared_add(sums.pointer(row), sum);
    } else if (row != none) {
      ptx::red_shared_add(sums.pointer(row), value);
    }
  }
};

struct AddLines {
  static bool supports(const Adding& call, Why& why) {
    return why.unless(has_lines_of_x(call),
                      "takes lines of whole vectors along the dimension, which lie side by side in "
                      "y, index and what is added, and in x as in y") &&
           why.unless(call.rows <= kMostRows, "takes lines of up to ", kMostRows, " elements, not ",
                      call.rows) &&
           is_quick(call, why);
  }
  // Where additions do not queue at a few sums, lines are enough for half of the multiprocessors,
  // and in place not so few elements that lines of y are more to move than sectors for them.
  static bool is_worth(const Adding& call) {
    constexpr int64_t kLeastRows = 32;
    constexpr int64_t kLeastLines = 64;
    constexpr int64_t kLeastElements = int64_t{1} << 20;
    if (!has_lines_of_x(call) || call.rows > kMostRows || call.nest.count < kLeastElements)
      return false;
    const int64_t count = line_length(call);
    return call.rows >= kLeastRows && call.nest.count / count >= kLeastLines &&
           (!call.is_in_place() || 8 * count >= call.rows);
  }
  static void run(const IndexAdd::Call& call, const Context& context) {
    add_lines(call, "index_add/add_lines", context);
  }
  static void run(const ScatterAdd::Call& call, const Context& context) {
    add_lines(call, "scatter_add/add_lines", context);
  }

 private:
  static constexpr int64_t kMostRows = 24576;  // 96 KiB: two blocks on an SM of sm_90

  // With a line of x for each of y, as y lies.
  static bool has_lines_of_x(const Adding& call) {
    return has_lines(call) && call.nest.count > 0 &&
           call.nest.count / line_length(call) * call.rows == call.whole.count &&
           call.whole.strides[kX] == call.whole.strides[kY] && starts_a_vector(call.x);
  }
  static void add_lines(const Adding& call, const char* rung, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      (call.wide_index ? add_lines<T, int64_t> : add_lines<T, int32_t>)(call, rung, context);
    });
  }
  template <class T, class Index>
  static void add_lines(const Adding& call, const char* rung, const Context& context) {
    using Kernel = AddLinesKernel<T, Index>;
    const int64_t count = line_length(call);
    // 32 sums a thread: of long lines few blocks fit an SM; of short ones it is full of small
    // blocks, whose barriers stop fewer warps. Lines that are too few to fill the GPU get threads
    // for what is added to them.
    const int64_t lines = call.nest.count / count;
    const int64_t of_sums = call.rows / 32;
    const int64_t of_source = count / (int64_t{Kernel::kAhead} * Kernel::kStep);
    const bool are_few = lines < int64_t{4} * device_facts().multiprocessors;
    const int64_t wanted = are_few ? std::max(of_sums, of_source) : of_sums;
    const int64_t threads =
        std::clamp(round_up(wanted, int64_t{kWarpSize}), int64_t{64}, int64_t{Kernel::kThreads});
    launch<Kernel>({.blocks = lines,
                    .threads = static_cast<int>(threads),
                    .dynamic_shared = static_cast<size_t>(call.rows) * sizeof(float)},
                   context.stream,
                   {IndexCheck(rung, "index", call.rows), QuickNest<kOperands>(call.nest),
                    static_cast<const Index*>(call.index), static_cast<const T*>(call.each),
                    static_cast<const T*>(call.x), static_cast<T*>(call.table), call.alpha,
                    static_cast<uint32_t>(call.rows), static_cast<uint32_t>(count)});
  }
};

inline constexpr Rung kAddLines = rung_of<AddLines, IndexAdd, ScatterAdd>(
    {.name = "add_lines",
     .from = "large_index",
     .idea = "a line of sums in shared memory, to which a block adds",
     .deterministic = false});
#endif

}  // namespace ws::index_add
