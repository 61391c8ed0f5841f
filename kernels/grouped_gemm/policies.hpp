// The tiles of the Hopper rungs, which of them a call gets, and what both rungs ask of a call.
#pragma once

#include "kernels/gemm/plan.hpp"
#include "kernels/gemm/policies.hpp"
#include "kernels/grouped_gemm/operations.hpp"
#include "warpsmith/ptx/tensor_map.hpp"

namespace ws::grouped_gemm {

inline constexpr int64_t kMostGroups = 1024;

// For groups of few rows: one tile high. 128 rows multiply a weight for 128 flops of each of its
// bytes, which tensor cores of 0.8 PFLOP/s do in less time than 4.3 TB/s bring the byte: a smaller
// tile would save nothing. The pair of blocks shares A's rows, not B's: B comes from memory once in
// any case. Six stages are 192 KB on their way. kStep as of gemm::Wgmma128, its mirror image.
struct FewRows : gemm::WgmmaPolicy<gemm::WgmmaShape{
                     .tile_m = 128, .tile_n = 128, .stages = 6, .cluster_n = 2}> {
  static constexpr double kStep = 0.365;
};

// Time of tiles in waves, in the units of kStep.
template <class Policy>
double time_of(int64_t tiles, int multiprocessors) {
  const int64_t clusters = std::max(1, multiprocessors / Policy::kCluster);
  return static_cast<double>(divide_up(tiles, clusters)) * Policy::kStep;
}

// f.template operator()<Policy>() with the tile of less estimated time where groups are alike: the
// host knows no more of them than their number.
template <class F>
void with_row_policy(const RowsCall& call, int multiprocessors, F&& f) {
  const int64_t rows = divide_up(call.m, std::max<int64_t>(call.groups, 1));
  const auto time = [&]<class Policy>() {
    const int64_t down = divide_up(rows, int64_t{Policy::kTileM} * Policy::kClusterM);
    return time_of<Policy>(call.groups * down * Policy::raster(call).tiles_n, multiprocessors);
  };
  if (time.template operator()<gemm::WgmmaBig>() <= time.template operator()<FewRows>()) {
    f.template operator()<gemm::WgmmaBig>();
  } else {
    f.template operator()<FewRows>();
  }
}

// The same for groups of K, whose outputs all have M x N.
template <class F>
void with_depth_policy(const DepthCall& call, int multiprocessors, F&& f) {
  const auto time = [&]<class Policy>() {
    return time_of<Policy>(call.groups * Policy::raster(call).count(), multiprocessors);
  };
  if (time.template operator()<gemm::WgmmaBig>() <= time.template operator()<gemm::Wgmma128>()) {
    f.template operator()<gemm::WgmmaBig>();
  } else {
    f.template operator()<gemm::Wgmma128>();
  }
}

// The matrices of all groups, as the copy engine walks them; one where they are one.
inline ptx::MatrixBatch matrices_of_groups(const Call& call, const Matrix& matrix) {
  return {.count = matrix.batch == 0 ? 1 : call.groups, .stride = matrix.batch};
}

// Whether the copy engine takes all three; `grouped` is the one with a matrix for each group.
inline bool are_copied(const Call& call, const Matrix& grouped, Why& why) {
  constexpr int64_t kMostStride = int64_t{1} << 39;  // elements of two bytes
  return gemm::operands_can_be_copied(call, why) &&
         gemm::can_be_copied("out", call.c, call.dtype, why) &&
         why.unless(call.c.length % 8 == 0, "rows of out are ", call.c.length * 2,
                    " bytes long, the copy engine stores multiples of 16") &&
         why.unless(grouped.batch < kMostStride, "matrices of groups are ", grouped.batch,
                    " elements apart, the copy engine takes less than ", kMostStride);
}

}  // namespace ws::grouped_gemm
