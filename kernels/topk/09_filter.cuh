// Idea: the bound of a row's beginning is one for all of it: whatever follows is read once and
//   compared with it, a vector at a time; what reaches it is kept, and where that gets too much the
//   bound is raised.
// From threshold: a block a row, each warp with candidates of its own; they meet at both ends only.
// Traffic: every element once, 64 bytes a thread in flight, and candidates' vectors again.
// Limits: k of up to 128. Rows that rise raise the bound often, and are slow, but right.
#pragma once

#include "kernels/topk/candidates_of_row.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::topk {

#if WS_DEVICE_CODE
template <class T, int kThreads_>
struct FilterKernel {
  static constexpr int kThreads = kThreads_;
  static constexpr int kMinBlocks = 1024 / kThreads;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kVectors = 4;
  static constexpr int kListed = kVectors * kWarpSize;
  static constexpr int kCapacity = Candidates::kCapacity;
  static constexpr int kMine = kCapacity / kWarpSize;
  using Arguments = Rows<T>;
  struct SharedStorage {
    SharedArray<uint64_t, kWarps * kCapacity> keys;
    SharedArray<uint32_t, kWarps * kListed> lists;
    typename block::AllReduce<uint32_t, kThreads>::Storage worths;
    typename block::AllReduce<int, kThreads>::Storage reach;
    typename block::AllReduce<uint64_t, kThreads>::Storage highest;
    SharedArray<int, kWarps> counts;
    SharedArray<uint64_t, Candidates::kMostKept> best;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t row = block_index();
    const SharedSpan<uint64_t> keys(shared.keys.pointer(warp_index() * kCapacity), kCapacity);
    const SharedSpan<uint32_t> list(shared.lists.pointer(warp_index() * kListed), kListed);
    const VectorsOf<T> vectors(a.row(row), a.columns, a.flip);
    const int k = static_cast<int>(a.k);

    // Each warp's share of k reaches its own bound, so that k reach the least of all.
    auto peaks = vectors.template peaks<kVectors>(thread_index(), kThreads);
    const uint32_t least =
        block::AllReduce<uint32_t, kThreads>(shared.worths)
            .of_warps(reached_by(peaks, divide_up(k, kWarps)),
                      [](uint32_t one, uint32_t other) { return one < other ? one : other; });
    Candidates best(keys, k, uint64_t{least} << 32);
    for (int64_t first = thread_index();;) {
      vectors.add(peaks, first, kThreads, list, best);
      first += kVectors * kThreads;
      if (first - thread_index() >= vectors.cut.vectors) break;
      peaks = vectors.template peaks<kVectors>(first, kThreads);
    }
    if (warp_index() == 0 && vectors.cut.edges > 0) vectors.add_edges(best);
    ptx::syncwarp();
    const uint64_t reached = least == 0 ? 1 : uint64_t{least} << 32;  // by all candidates
    const int count = gather(shared, keys, best.count(), k, reached);
    write_best(a, row, shared.best.span(), count, thread_index(), kThreads);
  }

 private:
  // The best of all warps' candidates, at least k, to shared.best; returns how many. All reach
  // `bound`.
  __device__ __forceinline__ static int gather(SharedStorage& shared,
                                               const SharedSpan<uint64_t>& keys, int count, int k,
                                               uint64_t bound) {
    block::AllReduce<int, kThreads> sum(shared.reach);
    const auto add = [](int one, int other) { return one + other; };
    uint64_t mine[kMine];
    uint64_t high = 0;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const int i = lane_index() + j * kWarpSize;
      mine[j] = 0;
      if (i < count) mine[j] = keys[i];
      high = high < mine[j] ? mine[j] : high;
    }
    const auto reach = [&](uint64_t bound) {
      int reached = 0;
#pragma unroll
      for (const uint64_t key : mine) reached += key >= bound ? 1 : 0;
      return reached;
    };
    if (sum(reach(bound), add) > Candidates::kMostKept) {
      high = block::AllReduce<uint64_t, kThreads>(shared.highest)(
          high, [](uint64_t one, uint64_t other) { return one < other ? other : one; });
      bound = bound_between(bound, high + 1, k, Candidates::kMostKept,
                            [&](uint64_t middle) { return sum(reach(middle), add); });
    }
    const int of_warp = ptx::redux_sync_add(kFullMask, reach(bound));
    if (lane_index() == 0) shared.counts[warp_index()] = of_warp;
    ptx::barrier_sync();
    int before = 0;
    int total = 0;
    for (int warp = 0; warp < kWarps; ++warp) {
      const int there = shared.counts[warp];
      if (warp < warp_index()) before += there;
      total += there;
    }
#pragma unroll
    for (const uint64_t key : mine) {
      const bool stays = key >= bound;
      const uint32_t ballot = ptx::vote_sync_ballot(kFullMask, stays);
      if (stays) shared.best[before + lanes_before(ballot)] = key;
      before += ptx::count_bits(ballot);
    }
    ptx::barrier_sync();
    return total;
  }
};

struct Filter {
  static constexpr int64_t kShortBytes = 16 * 1024;
  static bool supports(const TopK::Call& call, Why& why);
  static void run(const TopK::Call& call, const Context& context);
};
#endif

}  // namespace ws::topk
