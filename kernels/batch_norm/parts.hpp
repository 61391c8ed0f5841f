// What rungs of several launches share: sets cut into parts, whose totals are merged in their
// order, whichever block comes when.
#pragma once

#include "kernels/batch_norm/values.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/grid.hpp"

namespace ws::batch_norm {

struct Range {
  int64_t first;
  int64_t last;
};
// Sets are cut into `parts` of `share` units (windows, rows) each.
struct Plan {
  int64_t parts = 1;
  int64_t share = 0;

  // `groups` are what blocks would take without a cut, of `units` each, `least` of which are worth
  // a block.
  static Plan of(int64_t groups, int64_t units, int64_t least, int blocks_of_sm) {
    const int64_t blocks = int64_t{blocks_of_sm} * device_facts().multiprocessors;
    const int64_t wanted = std::clamp<int64_t>(blocks / std::max<int64_t>(groups, 1), 1,
                                               std::max<int64_t>(units / least, 1));
    Plan plan;
    plan.share = std::max<int64_t>(divide_up(units, wanted), 1);
    plan.parts = std::max<int64_t>(divide_up(units, plan.share), 1);
    return plan;
  }
  // Of block `item`, where the blocks of a set follow each other.
  __host__ __device__ __forceinline__ Range range(int64_t item, int64_t units) const {
    const int64_t first = item % parts * share;
    return {first, first + share < units ? first + share : units};
  }
};

// Of the totals, [sets, parts] and then [sets].
inline constexpr size_t kTotalBytes = 16;
inline Workspace workspace_of(const Plan& plan, int64_t sets) {
  return {.bytes = static_cast<size_t>(sets * (plan.parts + 1)) * kTotalBytes};
}

// The workspace of a grid that meets: the word that it meets by, which is 0 before and after, and
// then totals.
struct Meeting {
  static constexpr size_t kBytes = 256;  // a piece that Python keeps zeroed from call to call
  uint32_t* word;

  explicit Meeting(void* workspace) : word(static_cast<uint32_t*>(workspace)) {}
  template <class Total>
  Total* parts() const {
    return reinterpret_cast<Total*>(reinterpret_cast<std::byte*>(word) + kBytes);
  }
  static Workspace workspace_of(const Plan& plan, int64_t sets) {
    return {.bytes = kBytes + batch_norm::workspace_of(plan, sets).bytes, .zeroed = kBytes};
  }
};

#if WS_DEVICE_CODE

// The total of a set's parts, to all lanes of a warp.
template <class Total, class Merge>
__device__ __forceinline__ Total total_of_parts(const Total* parts, int64_t count,
                                                const Merge& merge) {
  Total total = Total::none();
#pragma unroll 4
  for (int64_t p = lane_index(); p < count; p += kWarpSize) {
    total = merge(total, thread::load(parts + p));
  }
  return warp::all_reduce(total, merge);
}

// The blocks of a grid meet when all have written their parts, [sets, count]; a warp merges those
// of a set, of which one lane calls use(set, total); and they meet again.
template <int kThreads, class Total, class Merge, class Use>
__device__ __forceinline__ void merge_over_grid(uint32_t* meeting, const Total* parts, int64_t sets,
                                                int64_t count, const Merge& merge, const Use& use) {
  constexpr int kWarps = kThreads / kWarpSize;
  ptx::grid_sync(meeting);
  for (int64_t s = warp_index() * grid_blocks() + block_index(); s < sets;
       s += kWarps * grid_blocks()) {
    const Total total = total_of_parts(parts + s * count, count, merge);
    if (lane_index() == 0) use(s, total);
  }
  ptx::grid_sync(meeting);
  ptx::grid_leave(meeting);
}

// A warp a set. Rule: Statistics or GradientRule.
template <class Total, class Merge, class Rule>
struct FinishKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    const Total* parts;  // [sets, count]
    Total* totals;       // [sets]
    int64_t sets;
    int64_t count;
    Rule rule;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const int64_t s = block_index() * kWarps + warp_index();
    if (s >= a.sets) return;
    const Total total = total_of_parts(a.parts + s * a.count, a.count, Merge{});
    if (lane_index() != 0) return;
    a.rule.finish(s, total);
    if (a.totals != nullptr) thread::store(a.totals + s, Vec<Total, 1>{{total}});
  }

  static void launch_on(const Arguments& arguments, Stream stream) {
    launch<FinishKernel>({.blocks = divide_up(arguments.sets, int64_t{kWarps}),
                          .threads = kThreads,
                          .overlaps = true},
                         stream, arguments);
  }
};
using FinishStatistics = FinishKernel<thread::Moments, MergeMoments, Statistics>;
using FinishGradient = FinishKernel<Sums, PlusSums, GradientRule>;

#endif

}  // namespace ws::batch_norm
