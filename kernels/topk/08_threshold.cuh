// Idea: k lanes whose best elements reach a bound prove that the row's best k reach it, too. Few
//   others do: only those are looked at one by one, and told apart by counting.
// From packed_keys: two instructions an element to find its vector's best, instead of a key for
//   each; k matters to the few candidates alone.
// Traffic: every element once, 16 bytes a lane and load, and candidates' vectors again from the L1.
// Limits: rows of up to 4 KiB, k of up to 128.
#pragma once

#include "kernels/topk/candidates_of_row.hpp"

namespace ws::topk {

#if WS_DEVICE_CODE
template <class T, int kVectors>
struct ThresholdKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kListed = kVectors * kWarpSize;
  using Arguments = Rows<T>;
  struct SharedStorage {
    SharedArray<uint64_t, kWarps * Candidates::kCapacity> keys;
    SharedArray<uint32_t, kWarps * kListed> lists;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows) return;
    const SharedSpan<uint64_t> keys(shared.keys.pointer(warp_index() * Candidates::kCapacity),
                                    Candidates::kCapacity);
    const SharedSpan<uint32_t> list(shared.lists.pointer(warp_index() * kListed), kListed);
    const VectorsOf<T> vectors(a.row(row), a.columns, a.flip);
    const int k = static_cast<int>(a.k);

    const auto peaks = vectors.template peaks<kVectors>(lane_index(), kWarpSize);
    Candidates best(keys, k, uint64_t{reached_by(peaks, k)} << 32);
    vectors.add(peaks, lane_index(), kWarpSize, list, best);
    if (vectors.cut.edges > 0) vectors.add_edges(best);
    ptx::syncwarp();
    write_best(a, row, keys, best.count(), lane_index(), kWarpSize);
  }
};

struct Threshold {
  static constexpr int64_t kMostBytes = 4096;
  static bool supports(const TopK::Call& call, Why& why);
  static void run(const TopK::Call& call, const Context& context);
};
#endif

}  // namespace ws::topk
