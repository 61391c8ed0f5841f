// The tiles of the Hopper rungs, which of them a call gets, what they ask of a call, and what it is
// thought to take.
#pragma once

#include <type_traits>

#include "kernels/gemm/plan.hpp"
#include "kernels/gemm/policies.hpp"
#include "kernels/gemm/realign.hpp"
#include "kernels/grouped_gemm/groups.hpp"
#include "warpsmith/ptx/tensor_map.hpp"

namespace ws::grouped_gemm {

inline constexpr int64_t kMostGroups = 1024;
// Of a coordinate along the rows that the copy engine reads: 16 bytes, in elements of two.
inline constexpr int kCopyAlignment = 8;

// For groups of few rows: one tile high. 128 rows multiply a weight for 128 flops of each of its
// bytes, which tensor cores of 0.8 PFLOP/s do in less time than 4.3 TB/s bring the byte: a smaller
// tile would save nothing. The pair of blocks shares A's rows, not B's: B comes from memory once in
// any case. Six stages are 192 KB on their way. kStep as of gemm::Wgmma128, its mirror image.
struct FewRows : gemm::WgmmaPolicy<gemm::WgmmaShape{
                     .tile_m = 128, .tile_n = 128, .stages = 6, .cluster_n = 2}> {
  static constexpr double kStep = 0.365;
};

// M and K of a group where groups are alike: the host knows no more of them than their number.
inline int64_t height_of_group(const RowsCall& call) {
  return divide_up(call.m, std::max<int64_t>(call.groups, 1));
}
inline int64_t height_of_group(const DepthCall& call) { return call.m; }
inline int64_t depth_of_group(const RowsCall& call) { return call.k; }
inline int64_t depth_of_group(const DepthCall& call) {
  return divide_up(call.k, std::max<int64_t>(call.groups, 1));
}

// Of a slice of K of all tiles, in waves, in us.
template <class Policy, class C>
double step_time(const C& call, int multiprocessors) {
  const int64_t clusters = std::max(1, multiprocessors / Policy::kCluster);
  const int64_t down =
      divide_up(height_of_group(call), int64_t{Policy::kTileM} * Policy::kClusterM);
  const int64_t tiles = call.groups * down * Policy::raster(call).tiles_n;
  return static_cast<double>(divide_up(tiles, clusters)) * Policy::kStep;
}

// f.template operator()<Policy>() with the tile of less estimated time.
template <class C, class F>
void with_policy(const C& call, int multiprocessors, F&& f) {
  using Big = gemm::WgmmaBig;
  using Small = std::conditional_t<std::is_same_v<C, RowsCall>, FewRows, gemm::Wgmma128>;
  if (step_time<Big>(call, multiprocessors) <= step_time<Small>(call, multiprocessors)) {
    f.template operator()<Big>();
  } else {
    f.template operator()<Small>();
  }
}

// The matrices of all groups, as the copy engine walks them; one where they are one.
inline ptx::MatrixBatch matrices_of_groups(const Call& call, const Matrix& matrix) {
  return {.count = matrix.batch == 0 ? 1 : call.groups, .stride = matrix.batch};
}

// How many matrices of an operand gemm's realign() copies.
inline int64_t matrices_of_operand(const Call& call, const Matrix& matrix) {
  return matrices_of_groups(call, matrix).count;
}

inline constexpr int64_t kMostBatch = int64_t{1} << 39;  // elements of two bytes

// What a call is thought to take, in us: by copies of what is not aligned, and by mma_pipeline.
template <class C>
double realigned_time(const C& call, int multiprocessors) {
  double step = 0;
  with_policy(call, multiprocessors,
              [&]<class Policy>() { step = step_time<Policy>(call, multiprocessors); });
  return gemm::copies_time(call) + gemm::kStart +
         static_cast<double>(divide_up(depth_of_group(call), 64)) * step;
}
template <class C>
double mma_pipeline_time(const C& call) {
  gemm::Call one = call;
  one.k = depth_of_group(call);
  one.m = call.groups * round_up(height_of_group(call), gemm::MmaSmall::kTileM);
  return gemm::small_mma_time(one);
}

// Whether it counts so far from group to group.
inline bool groups_are_counted(const Call& call, Why& why) {
  return why.unless(call.b.batch < kMostBatch, "matrices of groups are ", call.b.batch,
                    " elements apart, the copy engine takes less than ", kMostBatch);
}
// Whether the copy engine takes both operands.
inline bool operands_are_copied(const Call& call, Why& why) {
  return gemm::operands_can_be_copied(call, why) && groups_are_counted(call, why);
}

// Whether a walk counts all tiles, and up to a wave beyond the last; and whether rows are stored.
inline bool are_walked(const RowsCall& call, Why& why) {
  return why.unless(call.groups > 0, "no groups leave nothing to copy") &&
         why.unless(call.c.contiguous == Contiguous::kColumns, "needs contiguous rows of out") &&
         why.unless(call.groups <= kMostGroups, call.groups, " groups are more than ",
                    kMostGroups) &&
         tiles_fit(2 * most_tiles(call.m, call.groups, 128), divide_up(call.n, 128), why);
}
inline bool are_walked(const DepthCall& call, Why& why) {
  return why.unless(call.c.contiguous == Contiguous::kColumns, "needs contiguous rows of out") &&
         tiles_fit(2 * divide_up(call.m, 128) * divide_up(call.n, 128), call.groups, why);
}

}  // namespace ws::grouped_gemm
