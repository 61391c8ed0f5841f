// The last wave of a gradient's grid, whose blocks are all alike, cut along what they meet, so that
// all multiprocessors end together. Pieces of a block leave their sums in memory; the one whose
// turn comes last adds them to its own. It waits for blocks of a lower index, which GPUs begin
// first.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/backward_grid.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::attention {

// Tiles first ... end - 1 of those that the nth of the blocks that are cut meets. It leaves its
// sums at `place`, or adds those of `others` from there on, or is alone.
struct BackwardPiece {
  static constexpr uint8_t kLeaves = 0xff;  // `others` of a piece that does
  uint16_t first, end;
  uint8_t nth;
  uint8_t others;
  uint16_t place;
};

// Made on the host. All tiles that the last wave's blocks meet are one line, of which each worker
// gets as many as any other; where a share goes over a block's end, it is two pieces. The longest
// come first: who has had the shortest first piece goes on with the longest of the second ones.
struct BackwardPieces {
  static constexpr int kMost = 264;       // kernels take up to 4 KB of arguments
  static constexpr int kMostOfBlock = 8;  // shares
  static constexpr int kLeast = 4;        // tiles: about as long as a piece takes to begin and end

  int whole = 0;  // blocks that come before
  int count = 0;
  int places = 0;
  BackwardPiece of[kMost] = {};

  BackwardPieces() = default;
  // Of `blocks` that meet `tiles` each.
  BackwardPieces(int64_t blocks, int64_t tiles, int multiprocessors)
      : whole(static_cast<int>(blocks)) {
    const int64_t cut = blocks % multiprocessors;
    if (cut == 0 || cut > UINT8_MAX || tiles > UINT16_MAX) return;
    const int64_t line = cut * tiles;
    const int64_t workers =
        std::min({int64_t{multiprocessors}, kMost - cut, cut * kMostOfBlock, line / kLeast});
    // What is gained should be more than what pieces cost.
    if (workers <= cut || divide_up(line, workers) + 2 * kLeast > tiles) return;
    whole -= static_cast<int>(cut);
    int pieces[UINT8_MAX] = {};  // of a block
    int64_t share = 1;
    for (int64_t block = 0; block < cut; ++block) {
      for (int64_t first = 0; first < tiles; ++count, ++pieces[block]) {
        const auto share_end = [&] { return line * share / workers - block * tiles; };
        while (share < workers && share_end() < first + kLeast) ++share;
        const int64_t end = share < workers && share_end() + kLeast <= tiles ? share_end() : tiles;
        of[count] = {.first = static_cast<uint16_t>(first),
                     .end = static_cast<uint16_t>(end),
                     .nth = static_cast<uint8_t>(block),
                     .others = 0,
                     .place = 0};
        first = end;
      }
    }
    std::sort(of, of + count, [](const BackwardPiece& a, const BackwardPiece& b) {
      const int longer = (a.end - a.first) - (b.end - b.first);
      if (longer != 0) return longer > 0;
      return a.nth != b.nth ? a.nth < b.nth : a.first < b.first;
    });
    uint16_t free_places[UINT8_MAX] = {};
    bool has_last[UINT8_MAX] = {};
    for (int i = count - 1; i >= 0; --i) {
      BackwardPiece& piece = of[i];
      const int others = pieces[piece.nth] - 1;
      uint16_t& place = free_places[piece.nth];
      if (has_last[piece.nth]) {
        piece.others = BackwardPiece::kLeaves;
        piece.place = place++;
      } else {
        has_last[piece.nth] = true;
        piece.others = static_cast<uint8_t>(others);
        piece.place = place = static_cast<uint16_t>(places);
        places += others;
      }
    }
  }
  int64_t blocks() const { return whole + count; }
};

// Where pieces leave sums, a warp by itself: flags[] is zero before and after.
struct SumsOfPieces {
  float* sums = nullptr;
  uint32_t* flags = nullptr;
};

// Made on the host: BackwardGrid, its last wave in pieces.
struct CutBackwardGrid : BackwardGrid {
  BackwardPieces pieces;
  SumsOfPieces left;

#if WS_DEVICE_CODE
  template <bool kOwnsKeys, int kOwn, int kMet>
  __device__ __forceinline__ BackwardWalk walk(int64_t block = block_index()) const {
    const bool is_whole = block < pieces.whole;
    const BackwardPiece piece = pieces.of[is_whole ? 0 : block - pieces.whole];
    BackwardWalk walk =
        BackwardGrid::walk<kOwnsKeys, kOwn, kMet>(is_whole ? block : pieces.whole + piece.nth);
    if (is_whole) return walk;
    const int end = walk.first + piece.end * kMet;
    walk.end = end < walk.end ? end : walk.end;
    walk.first += piece.first * kMet;
    return walk;
  }

  // By whole warps. Pieces are looked up by index, which the compiler does in each lane: the loops
  // over tiles would have more registers for it.
  __device__ __forceinline__ static BackwardWalk same_in_all_lanes(const BackwardWalk& walk) {
    const auto same = [](int number) {
      return static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(number), 0));
    };
    return {same(walk.batch), same(walk.head),       same(walk.row),     same(walk.first),
            same(walk.end),   same(walk.first_head), same(walk.end_head)};
  }

  // By a warp of kWarps, behind its last product: whether it has the sums of its whole block, those
  // of the other pieces added.
  template <int kWarps, int kCluster, int... kSums>
  __device__ __forceinline__ bool complete(int warp, float (&... sums)[kSums]) const {
    const int64_t block = block_index() / kCluster;
    if (block < pieces.whole) return true;
    const BackwardPiece piece = pieces.of[block - pieces.whole];
    const int rank = kCluster > 1 ? cluster_rank() : 0;
    const int place = (piece.place * kCluster + rank) * kWarps + warp;
    if (piece.others == BackwardPiece::kLeaves) {
      leave(place, sums...);
      return false;
    }
    for (int i = 0; i < piece.others; ++i) add(place + i * kCluster * kWarps, sums...);
    return true;
  }

 private:
  // Four of a lane at a time.
  template <int... kSums>
  __device__ __forceinline__ float* at(int place) const {
    return left.sums + int64_t{place} * (kSums + ...) * kWarpSize + lane_index() * 4;
  }
  template <int... kSums>
  __device__ __forceinline__ void leave(int place, const float (&... sums)[kSums]) const {
    float* to = at<kSums...>(place);
    const auto store = [&]<int kCount>(const float (&some)[kCount]) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4, to += 4 * kWarpSize) {
        thread::store(to, Vec<float, 4>{some[i], some[i + 1], some[i + 2], some[i + 3]});
      }
    };
    (store(sums), ...);
    ptx::syncwarp();
    if (lane_index() == 0) ptx::st_release<ptx::Scope::kGpu>(left.flags + place, 1u);
  }
  template <int... kSums>
  __device__ __forceinline__ void add(int place, float (&... sums)[kSums]) const {
    while (ptx::ld_acquire<ptx::Scope::kGpu>(left.flags + place) == 0) {
    }
    const float* from = at<kSums...>(place);
    const auto load = [&]<int kCount>(float (&some)[kCount]) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4, from += 4 * kWarpSize) {
        const auto more = thread::load<4>(from);
#pragma unroll
        for (int j = 0; j < 4; ++j) some[i + j] += more[j];
      }
    };
    (load(sums), ...);
    ptx::syncwarp();  // all lanes have seen the flag
    if (lane_index() == 0) ptx::st_relaxed<ptx::Scope::kGpu>(left.flags + place, 0u);
  }
#endif
};

template <class Grid>
inline constexpr bool kIsCut = std::is_same_v<Grid, CutBackwardGrid>;

}  // namespace ws::attention
