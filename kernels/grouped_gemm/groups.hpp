// Groups as kernels see them: where each begins and ends, read from the device's own `offs`.
//
// An offset that is wrong (below the one before, negative, beyond the rows) is reported, and its
// group has no rows: whatever `offs` holds, groups do not overlap and lie within the rows.
#pragma once

#include <limits>

#include "kernels/gemm/dispatch.hpp"
#include "kernels/grouped_gemm/operations.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/warp/reduce.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::grouped_gemm {

// Elements [first, end) of the dimension that is cut.
struct Range {
  int64_t first;
  int64_t end;
};

// A tile of a group of rows.
struct GroupTile {
  int group;  // the number of groups: of the rows after the last
  int first;  // row of the group
  int rows;   // of the group
  int tile;   // in the group; below zero: there is no such tile
};

struct Groups {
  const int32_t* ends = nullptr;
  int64_t stride = 1;
  int64_t count = 0;
  int64_t length = 0;  // of the dimension that is cut
  IndexCheck check;

  Groups() = default;
  // `rung` is of static storage.
  Groups(const Call& call, int64_t cut, const char* rung)
      : ends(call.ends),
        stride(call.end_stride),
        count(call.groups),
        length(cut),
        check(rung, "offs", cut + 1) {}

#if WS_DEVICE_CODE
  // Of the group that begins at `first`.
  __device__ __forceinline__ int64_t end_of(int64_t group, int64_t first) const {
    const int64_t end = thread::load(ends + group * stride);
    return end < first || end > length ? first : end;
  }

  // The group of a row, the first that ends behind it; their number, where none does.
  __device__ __forceinline__ int64_t of_row(int64_t row) const {
    for (int64_t group = 0; group < count; ++group) {
      const int64_t end = thread::load(ends + group * stride);
      if (row < end && end <= length) return group;
    }
    return count;
  }

  // By two offsets alone. Behind a wrong one groups could overlap: for groups that write to places
  // of their own.
  __device__ __forceinline__ Range range_of(int64_t group) const {
    const int64_t first = group == 0 ? 0 : thread::load(ends + (group - 1) * stride);
    const int64_t end = thread::load(ends + group * stride);
    return first < 0 || end < first || end > length ? Range{0, 0} : Range{first, end};
  }

  // Where the last group ends; by all lanes of a warp.
  __device__ __forceinline__ int last_end() const {
    int last = 0;
    for (int64_t group = lane_index(); group < count; group += kWarpSize) {
      const int32_t end = thread::load(ends + group * stride);
      if (end > last && end <= length) last = end;
    }
    return warp::all_reduce(last, [](int a, int b) { return a > b ? a : b; });
  }

  // Reports what is wrong, by threads index, index + threads ...
  __device__ __forceinline__ void report(int64_t index, int64_t threads) const {
    for (int64_t group = index; group < count; group += threads) {
      const int64_t before = group == 0 ? 0 : thread::load(ends + (group - 1) * stride);
      const bool is_right = before >= 0 && before <= length;
      check(thread::load(ends + group * stride), group, is_right ? before : 0);
    }
  }

  // Tile `index` of all groups, and of the rows after the last, where tiles are `tile_rows` high
  // and `across` of them make a row; by all lanes of a warp, 32 groups at a time.
  __device__ __forceinline__ GroupTile tile_at(int index, int tile_rows, int across) const {
    const auto later = [](int a, int b) { return a > b ? a : b; };
    int begin = 0;   // where the group of lane 0 begins
    int before = 0;  // tiles before it
    const int lane = lane_index();
    for (int64_t first = 0; first <= count; first += kWarpSize) {
      const int64_t group = first + lane;
      int end = group == count ? static_cast<int>(length) : 0;
      if (group < count) end = thread::load(ends + group * stride);
      if (end > length) end = 0;
      end = later(end, begin);
#pragma unroll
      for (int distance = 1; distance < kWarpSize; distance *= 2) {
        end = later(end, warp::shuffle_up(end, distance));  // lanes at the start get their own
      }
      const int up = warp::shuffle_up(end, 1);
      const int start = lane == 0 ? begin : up;
      const int mine = divide_up(end - start, tile_rows) * across;
      int after = mine;
#pragma unroll
      for (int distance = 1; distance < kWarpSize; distance *= 2) {
        const int others = warp::shuffle_up(after, distance);
        if (lane >= distance) after += others;
      }
      const uint32_t here = ptx::vote_sync_ballot(kFullMask, index < before + after);
      if (here != 0) {
        const int source = ptx::lowest_bit(here);
        return {static_cast<int>(first) + source, warp::shuffle(start, source),
                warp::shuffle(end - start, source),
                index - before - warp::shuffle(after - mine, source)};
      }
      begin = warp::shuffle(end, kWarpSize - 1);
      before += warp::shuffle(after, kWarpSize - 1);
    }
    return {0, 0, 0, -1};
  }
#endif
};

// The most tiles that groups of `rows` rows and the rows after the last can have, `tile_rows` high.
constexpr int64_t most_tiles(int64_t rows, int64_t groups, int64_t tile_rows) {
  return rows / tile_rows + std::min(rows, groups + 1);
}

// Whether tiles of all groups can be counted.
inline bool tiles_fit(int64_t tiles, int64_t across, Why& why) {
  constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;
  return why.unless(across == 0 || tiles <= kMost / across, tiles, " x ", across,
                    " tiles are more than ", kMost);
}

}  // namespace ws::grouped_gemm
