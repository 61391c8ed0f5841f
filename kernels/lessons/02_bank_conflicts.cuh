// Idea: shared memory has 32 banks of 4 bytes; lanes that want different words of one bank are
//   served one after the other. A column of a 32 x 32 tile lies in one bank, unless rows are moved.
// From by_column to padded: rows begin 33 words apart, each in the next bank.
// From padded to swizzled: no word is wasted: the words of a row trade places instead.
// Traffic: every element once. A round: 8 requests of a warp to shared memory for its 4 rows, half
//   of them by columns: 32 passes each, or one.
// Limits: rounds are many, so that shared memory is what takes the time.
#pragma once

#include "kernels/lessons/launch_each.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::lessons {

inline constexpr int kTile = BankConflicts::kTile;

// Where element (row, column) of the tile stands.
struct InRows {
  static constexpr int kWords = kTile * kTile;
  __device__ static int at(int row, int column) { return row * kTile + column; }
};
struct InPaddedRows {
  static constexpr int kWords = kTile * (kTile + 1);
  __device__ static int at(int row, int column) { return row * (kTile + 1) + column; }
};
struct InSwizzledRows {
  static constexpr int kWords = kTile * kTile;
  __device__ static int at(int row, int column) { return row * kTile + (column ^ row); }
};

// A warp has whole rows of the tile, writes them, and reads as many columns.
template <class Place>
struct TransposingKernel {
  static constexpr int kThreads = 256;
  static constexpr int kPerBlock = kTile * kTile;
  static constexpr int kRows = kPerBlock / kThreads;  // of a warp
  using Arguments = Call;
  struct SharedStorage {
    SharedArray<float, Place::kWords> tile;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t tile = block_index() * kPerBlock;
    const int lane = lane_index();
    float values[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) values[k] = thread::load(a.x + tile + row(k) * kTile + lane);
    for (int round = 0; round < a.rounds; ++round) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) shared.tile[Place::at(row(k), lane)] = values[k];
      ptx::barrier_sync();
#pragma unroll
      for (int k = 0; k < kRows; ++k) values[k] = shared.tile[Place::at(lane, row(k))];
      ptx::barrier_sync();
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) thread::store(a.y + tile + row(k) * kTile + lane, values[k]);
  }

  __device__ static int row(int k) { return k * (kThreads / kTile) + warp_index(); }
};

inline constexpr Rung kByColumn = rung_of<LaunchEach<TransposingKernel<InRows>>, BankConflicts>({
    .name = "by_column",
    .idea = "lanes read a column of the tile: 32 words of one bank",
    .file = "02_bank_conflicts.cuh",
});
inline constexpr Rung kPadded =
    rung_of<LaunchEach<TransposingKernel<InPaddedRows>>, BankConflicts>({
        .name = "padded",
        .from = "by_column",
        .idea = "rows 33 words apart: a column lies in 32 banks",
        .file = "02_bank_conflicts.cuh",
    });
inline constexpr Rung kSwizzled =
    rung_of<LaunchEach<TransposingKernel<InSwizzledRows>>, BankConflicts>({
        .name = "swizzled",
        .from = "padded",
        .idea = "column ^ row instead of padding: no word is wasted",
        .file = "02_bank_conflicts.cuh",
    });

}  // namespace ws::lessons
