// A warp's part of a tile product on the CUDA cores: operands from shared memory, f32 sums in
// registers. For rungs whose stages hold f32 operands as tensor copies write them.
//
// Every instruction that is no multiply-add takes a slot from one, so a lane reads 16 bytes at a
// time, of runs along either dimension: four steps of K of one row or column, or four rows or
// columns at one step. kCount loads are then four steps of K of kCount rows or columns, either way.
#pragma once

#include "kernels/gemm/operations.hpp"
#include "warpsmith/ptx/swizzle.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::gemm {

// kOuter rows of A or columns of B by kK of f32 in shared memory. Runs along K are swizzled, for
// lanes that read the same place of neighbouring runs; the others are read as they lie.
template <bool kAlongK, int kOuter, int kK>
struct FloatTile {
  static_assert(kK == 16 || kK == 32, "a run along K is one swizzle row");
  static constexpr bool kRunsAlongK = kAlongK;
  static constexpr int kRuns = kAlongK ? kOuter : kK;
  static constexpr int kRunLength = kAlongK ? kK : kOuter;
  static constexpr int kElements = kOuter * kK;
  static constexpr ptx::Swizzle kSwizzle = !kAlongK   ? ptx::Swizzle::kNone
                                           : kK == 16 ? ptx::Swizzle::k64
                                                      : ptx::Swizzle::k128;
  __host__ __device__ static constexpr int offset(int run, int element) {
    const auto plain = static_cast<uint32_t>(run * kRunLength + element);
    return static_cast<int>(ptx::swizzled(kSwizzle, plain * 4) / 4);
  }
};

// What a lane reads of an operand: kCount of its rows or columns, beside those of kLanes - 1 other
// lanes.
template <class Tile, int kLanes, int kCount>
struct LaneShare {
  static_assert(kCount % 4 == 0 && (kLanes == 4 || kLanes == 8));

  // Row or column i of lane `lane` of kLanes, from the warp's first on.
  __device__ __forceinline__ static int outer(int lane, int i) {
    return Tile::kRunsAlongK ? lane + i * kLanes : (lane + i / 4 * kLanes) * 4 + i % 4;
  }
  // Which row or column, and which step of four of K, element e of load `piece` belongs to.
  __device__ __forceinline__ static constexpr int index(int piece, int e) {
    return Tile::kRunsAlongK ? piece : piece % (kCount / 4) * 4 + e;
  }
  __device__ __forceinline__ static constexpr int step(int piece, int e) {
    return Tile::kRunsAlongK ? e : piece / (kCount / 4);
  }
  // The same, asked the other way round.
  __device__ __forceinline__ static float value(const Vec<float, 4> (&pieces)[kCount], int i,
                                                int step) {
    return Tile::kRunsAlongK ? pieces[i][step] : pieces[step * (kCount / 4) + i / 4][i % 4];
  }

  // Of the tile in stage `stage` of `memory`; `first` is the warp's first row or column there, a
  // multiple of 32.
  __device__ __forceinline__ LaneShare(SharedSpan<float> memory, int stage, int first, int lane)
      : stages(memory),
        base(stage * Tile::kElements +
             (Tile::kRunsAlongK ? Tile::offset(first + lane, 0) : first + lane * 4)) {}

  // Load `piece` of kCount for the four steps of K from k on.
  __device__ __forceinline__ Vec<float, 4> load(int piece, int k) const {
    if constexpr (Tile::kRunsAlongK) {
      // The swizzle of runs further on is another xor, the distance of whole runs another constant.
      const int run = piece * kLanes;
      const int swizzle = Tile::offset(run, 0) % Tile::kRunLength;
      return stages.template load<4>((base ^ k ^ swizzle) + run * Tile::kRunLength);
    } else {
      const int column = piece % (kCount / 4) * kLanes * 4;
      return stages.template load<4>(base + (k + piece / (kCount / 4)) * Tile::kRunLength + column);
    }
  }

  SharedSpan<float> stages;
  int base;
};

// A lane's kThreadM x kThreadN sums. The warp's tile is four lanes down and eight across.
template <class Policy, bool kARunsAlongK, bool kBRunsAlongK>
struct ThreadTile {
  static constexpr int kDown = Policy::kThreadM;
  static constexpr int kAcross = Policy::kThreadN;
  using TileA = FloatTile<kARunsAlongK, Policy::kTileM, Policy::kTileK>;
  using TileB = FloatTile<kBRunsAlongK, Policy::kTileN, Policy::kTileK>;
  using ShareA = LaneShare<TileA, 4, kDown>;
  using ShareB = LaneShare<TileB, 8, kAcross>;

  // Neighbouring lanes share a column, the next but one a row: of either operand a half of the warp
  // then reads at most 128 bytes, in pairs of lanes that ask for the same, which is what shared
  // memory answers at once.
  __device__ __forceinline__ static int lane_row() {
    return lane_index() % 2 + lane_index() / 16 * 2;
  }
  __device__ __forceinline__ static int lane_column() { return lane_index() / 2 % 8; }
  __device__ __forceinline__ static int warp_row() {
    return warp_index() / Policy::kWarpsN * Policy::kWarpTileM;
  }
  __device__ __forceinline__ static int warp_column() {
    return warp_index() % Policy::kWarpsN * Policy::kWarpTileN;
  }

  // Adds the product of the tiles in stage `stage` of either memory. Four steps of K of A are held;
  // B streams past, two loads ahead of the 4 * kDown multiply-adds that each is for.
  __device__ __forceinline__ void multiply_add(SharedSpan<float> stages_a,
                                               SharedSpan<float> stages_b, int stage) {
    constexpr int kAhead = 2;
    const ShareA from_a(stages_a, stage, warp_row(), lane_row());
    const ShareB from_b(stages_b, stage, warp_column(), lane_column());
    Vec<float, 4> a[kDown];
    Vec<float, 4> b[2 * kAhead];
#pragma unroll
    for (int i = 0; i < kDown; ++i) a[i] = from_a.load(i, 0);
#pragma unroll
    for (int p = 0; p < kAhead; ++p) b[p] = from_b.load(p, 0);
#pragma unroll Policy::kUnroll
    for (int k = 0; k < Policy::kTileK; k += 4) {
      const int next = (k + 4) % Policy::kTileK;  // the last loads are in vain: cheaper than to ask
#pragma unroll
      for (int p = 0; p < kAcross; ++p) {
        const int ahead = p + kAhead;
        b[ahead % (2 * kAhead)] = from_b.load(ahead % kAcross, ahead < kAcross ? k : next);
        add_piece(a, b[p % (2 * kAhead)], p);
      }
#pragma unroll
      for (int i = 0; i < kDown; ++i) a[i] = from_a.load(i, next);
    }
  }

  // Writes the sums to the tile of C at `c`, of which `rows` x `columns` exist, line by line: rows,
  // or columns where C is stored by those. Lines lie `leading` apart; `aligned`: they start at
  // multiples of 16 bytes.
  __device__ __forceinline__ void write(float* c, int64_t leading, int rows, int columns,
                                        bool aligned) const {
    constexpr bool kByColumns = Policy::kByColumns;
    constexpr int kLines = kByColumns ? kAcross : kDown;
    constexpr int kPlaces = kByColumns ? kDown : kAcross;
    constexpr bool kQuads = kByColumns ? !kARunsAlongK : !kBRunsAlongK;
    const auto row = [](int i) { return warp_row() + ShareA::outer(lane_row(), i); };
    const auto column = [](int j) { return warp_column() + ShareB::outer(lane_column(), j); };
    const auto line = [&](int i) { return kByColumns ? column(i) : row(i); };
    const auto place = [&](int j) { return kByColumns ? row(j) : column(j); };
    const auto sum = [&](int i, int j) { return kByColumns ? sums[j][i] : sums[i][j]; };
    const int lines = kByColumns ? columns : rows;
    const int length = kByColumns ? rows : columns;
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
      if (line(i) >= lines) continue;
      float* const to = c + line(i) * leading;
#pragma unroll
      for (int j = 0; j < kPlaces; j += 4) {
        if (kQuads && aligned && place(j) + 4 <= length) {
          thread::store(to + place(j),
                        Vec<float, 4>{sum(i, j), sum(i, j + 1), sum(i, j + 2), sum(i, j + 3)});
          continue;
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (place(j + e) < length) thread::store(to + place(j + e), sum(i, j + e));
        }
      }
    }
  }

  // f(row, column, sum) for this lane's sums, by their place in the block's tile.
  template <class F>
  __device__ __forceinline__ void for_each_sum(F&& f) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        f(warp_row() + ShareA::outer(lane_row(), i),
          warp_column() + ShareB::outer(lane_column(), j), sums[i][j]);
      }
    }
  }

  float sums[kDown][kAcross] = {};

 private:
  __device__ __forceinline__ void add_piece(const Vec<float, 4> (&a)[kDown], const Vec<float, 4>& b,
                                            int piece) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        sums[i][ShareB::index(piece, e)] += ShareA::value(a, i, ShareB::step(piece, e)) * b[e];
      }
    }
  }
};

}  // namespace ws::gemm
#endif
