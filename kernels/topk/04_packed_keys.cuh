// Idea: value and place in one integer that stands in the output's order: an integer's maximum is a
//   search, and the row stays in the warp's registers as such keys.
// From warp_per_row: one read of the row; no NaN, no tie and no direction in the inner loop.
// Traffic: every element once; k rounds of maxima over 32 registers and 5 shuffles.
// Limits: rows of up to 1024 elements, k of up to 128.
#pragma once

#include "kernels/topk/rows.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::topk {

#if WS_DEVICE_CODE
template <class T>
struct PackedKeysKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kKeys = 32;  // of a lane
  using Word = std::conditional_t<sizeof(T) == 2, uint32_t, uint64_t>;
  using Arguments = Rows<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows) return;
    const auto larger = [](Word one, Word other) { return one < other ? other : one; };
    Word keys[kKeys];
    Word mine = 0;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int64_t i = lane_index() + j * kWarpSize;
      keys[j] = 0;
      if (i < a.columns)
        keys[j] = Key<Word>::of(Worth<T>::of(thread::load(a.row(row) + i), a.flip), i);
      mine = larger(mine, keys[j]);
    }
    for (int64_t rank = 0; rank < a.k; ++rank) {
      const Word best = warp::all_reduce(mine, larger);
      if (mine == best) {  // one lane: no two keys are equal
        a.write(row, rank, best);
        mine = 0;
#pragma unroll
        for (Word& key : keys) {
          if (key == best) key = 0;
          mine = larger(mine, key);
        }
      }
    }
  }
};

struct PackedKeys {
  static constexpr int64_t kMostColumns = 1024;
  static constexpr int64_t kMostOutputs = 128;
  static bool supports(const TopK::Call& call, Why& why) {
    return has_rows(call, why) &&
           why.unless(call.rows.columns <= kMostColumns && call.k <= kMostOutputs, "takes up to ",
                      kMostOutputs, " of up to ", kMostColumns, " elements, not ", call.k, " of ",
                      call.rows.columns);
  }
  static void run(const TopK::Call& call, const Context& context) {
    with_type<kSelected>(call.dtype, [&]<class T>() {
      using Kernel = PackedKeysKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream, Rows<T>(call));
    });
  }
};

inline constexpr Rung kPackedKeys =
    rung_of<PackedKeys, TopK>({.name = "packed_keys",
                               .from = "warp_per_row",
                               .idea = "value and place in one integer, the row in registers"});
#endif

}  // namespace ws::topk
