// Idea: columns that start anywhere. Whatever a row's length, the rows four (f32) or eight apart
//   start alike: a thread that walks down such rows reads aligned vectors, and has to know only at
//   the end how far its columns are from where those of other threads are.
// From split_columns: K times M of any M and padding; stripes share a vector with the next one, for
//   what is shifted into it.
// Traffic: A once from memory, a vector of each stripe twice from L2; x once a thread.
// Limits: rows of A^T do not overlap.
#pragma once

#include "kernels/gemv/12_split_columns.cuh"

namespace ws::gemv {

template <class T, class Policy>
struct ShiftedColumnsKernel {
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kWidth = row::kWidest<T>;
  static_assert(kWarps % kWidth == 0, "a thread's rows, and a warp's, start alike");
  using Merge = SumDown<kThreads, kWidth>;
  using Arguments = SplitColumnsArguments<T>;
  using SharedStorage = typename Merge::Storage;

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [g, across, stripes, share, parts] = arguments;
    const auto [stripe, part] = arguments.place();
    const int complete = (across - 1) * kWidth;  // columns
    const int64_t left = int64_t{stripe} * complete;
    const int64_t begin = part * share;
    const int64_t last = begin + share < g.k ? begin + share : g.k;

    const int step = kThreads / across;
    const int64_t first = begin + warp_index() + lane_index() / across * kWarps;
    const int64_t column = left + (lane_index() & (across - 1)) * kWidth - shift_of(g, first);
    ColumnSums<kWidth> sums{};
    if (column < g.m && first < last) {
      // A vector that begins before A or ends behind it is of the thread's first row or its last.
      const int64_t end = first + (last - 1 - first) / step * step;
      const bool first_is_whole = is_inside(g, first, column);
      const bool end_is_whole = is_inside(g, end, column);
      sums = multiply_columns<Policy::kLoads>(g, column, first_is_whole ? first : first + step,
                                              end_is_whole ? last : end, step);
      if (!first_is_whole) add_elements(sums, g, first, column);
      if (!end_is_whole && (end != first || first_is_whole)) add_elements(sums, g, end, column);
    }
    Merge::run(
        shared, sums, across, parts, stripe, part,
        [&](int i, float sum) {
          if (i < complete && left + i < g.m) {
            thread::store(g.y + (left + i) * g.y_step, from_float<T>(sum));
          }
        },
        [&](int warp) { return shift_of(g, begin + warp); });
  }

 private:
  // Elements between the multiple of 16 bytes before a row and its first element.
  __device__ __forceinline__ static int shift_of(const ColumnArguments<T>& g, int64_t row) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(g.a + row * g.pitch) / sizeof(T) % kWidth);
  }
  // Whether all of a vector is A's, if not of this row of it: sums of what is beside the row go
  // nowhere.
  __device__ __forceinline__ static bool is_inside(const ColumnArguments<T>& g, int64_t row,
                                                   int64_t column) {
    const int64_t at = row * g.pitch + column;
    return at >= 0 && at + kWidth <= (g.k - 1) * g.pitch + g.m;
  }
  __device__ __forceinline__ static void add_elements(ColumnSums<kWidth>& sums,
                                                      const ColumnArguments<T>& g, int64_t row,
                                                      int64_t column) {
    const float x = to_float(thread::load(g.x + row * g.x_step));
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      if (column + e < 0 || column + e >= g.m) continue;
      const float a = to_float(thread::load(g.a + row * g.pitch + column + e));
      sums[e] = thread::fma(a, x, sums[e]);
    }
  }
};

// A stripe shares its last vector with the next one. H200 2026-12-02, us, f16: 4095 x 4097 by 16
// across in 7 parts 15.5, in 8 19.6 (280 blocks where 264 fit), by 32 in 15 16.1, by 4 whole 16.1;
// 16383 x 16385 by 32 in 3 134, by 16 142; 4097 x 511 by 4 whole 6.5, by 8 in 3 7.6.
struct ShiftedColumnsPlan {
  template <class Policy>
  static SplitColumnsPlan of(const Call& call) {
    constexpr double kSmall = 8 << 20;  // bytes of A that take no longer than a merge
    constexpr int64_t kMostParts = 8;   // of many columns
    const int64_t vectors = divide_up(call.m, static_cast<int64_t>(16 / size_of(call.dtype)));
    const int64_t blocks = int64_t{Policy::kBlocksOfSm} * device_facts().multiprocessors;
    const auto stripes = [&](int across) { return divide_up(vectors, int64_t{across} - 1); };
    const double bytes = static_cast<double>(call.m) * static_cast<double>(call.k) *
                         static_cast<double>(size_of(call.dtype));
    int across = 2;
    while (across < kWarpSize && across <= vectors) across *= 2;
    if (bytes <= kSmall) {
      while (across > 2 && stripes(across / 2) <= blocks) across /= 2;
      if (stripes(across) * 4 >= blocks) {
        return SplitColumnsPlan::of<Policy>(call, across, stripes(across), 1);
      }
    }
    const auto fitting = [&] { return std::max<int64_t>(blocks / stripes(across), 1); };
    while (across > Policy::kLeastAcross && fitting() > kMostParts) across /= 2;
    // One block more than fit begins when the others end.
    int64_t parts = fitting();
    const auto is_full = [&] {
      const int64_t all = stripes(across) * parts;
      return all * 4 >= round_up(all, blocks) * 3;
    };
    while (!is_full() && parts < kMostParts) ++parts;
    return SplitColumnsPlan::of<Policy>(call, across, stripes(across), parts);
  }
};

template <class Policy>
struct ShiftedColumns : SplitColumns<Policy, ShiftedColumnsKernel, ShiftedColumnsPlan> {
  static bool supports(const Call& call, Why& why) {
    return has_indexed_columns(call, why) && why.unless(call.k <= 1 || call.column >= call.m,
                                                        "takes columns whose rows do not overlap");
  }
};

using ShiftedColumnsChosen = SplitColumnsPolicy<256, 8, 2, 4>;

inline constexpr Rung kShiftedColumns = rung_of<ShiftedColumns<ShiftedColumnsChosen>, Gemv>({
    .name = "shifted_columns",
    .from = "split_columns",
    .idea = "columns that start anywhere: rows that start alike share a thread",
});

}  // namespace ws::gemv
