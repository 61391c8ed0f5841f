// The gradient by wgmma: what a block is given, and what a warpgroup does with the 64 rows that it
// owns and a tile of those that it meets.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/attention/backward_grid.hpp"
#include "kernels/attention/head_tile.hpp"
#include "kernels/attention/online_softmax.hpp"
#include "kernels/attention/query_facts.hpp"
#include "warpsmith/thread/math.hpp"

namespace ws::attention {

template <class Grid>
struct BackwardWgmmaArgumentsOf {
  ptx::TensorMap own_scored, own_valued;    // k and v, or q and dout
  ptx::TensorMap met_scored, met_valued;    // the others
  ptx::TensorMap scored_sums, valued_sums;  // dk and dv; or dq alone
  Grid grid;
  QueryFacts facts;
  float scale;
  float* dq_sums;  // where those who own keys add to dq: DqSums
  int own_total;   // rows of all packed sequences
  float cap;       // of base 2; 0: none
  float factor;    // under a cap from a product to what 2^ is taken of
};

// From products to weights; lse is of base 2.
template <bool kCapped>
struct BackwardScores {
  float scale;  // from a product to its score of base 2

  template <class Arguments>
  __device__ __forceinline__ explicit BackwardScores(const Arguments& a)
      : scale(a.scale * thread::kLog2E) {}

  __device__ __forceinline__ float with_slope(float product, float lse) const {
    return thread::exp2(thread::fma(product, scale, -lse));
  }
  // The gradient of a product, of a weight with its slope and the gradient of the weight.
  __device__ __forceinline__ static float gradient(float with_slope, float of_weight, float delta) {
    return with_slope * (of_weight - delta);
  }
};

// Under a softcap there is also a slope, which the gradient of a score is multiplied by. Where
// weights are large, slopes are small: their product is kLift times as large until it has been
// packed, for f16 has fewer digits below 2^-14.
template <>
struct BackwardScores<true> {
  static constexpr float kLift = 1024;
  float cap, factor;  // as of the arguments

  template <class Arguments>
  __device__ __forceinline__ explicit BackwardScores(const Arguments& a)
      : cap(a.cap), factor(a.factor) {}

  __device__ __forceinline__ float weight(float product, float lse, float& slope) const {
    // tanh(x) = 1 - 2 / (1 + e^2x), off by 2^-23 of the cap; kLift times 1 - tanh^2.
    const float part = thread::reciprocal(1.0F + thread::exp2(product * factor));
    slope = 4 * kLift * thread::fma(-part, part, part);
    return thread::exp2(thread::fma(-2 * cap, part, cap - lse));
  }
  __device__ __forceinline__ float with_slope(float product, float lse) const {
    float slope;
    const float weight = this->weight(product, lse, slope);
    return weight * slope;
  }
  __device__ __forceinline__ static float gradient(float with_slope, float of_weight, float delta) {
    return with_slope * ((of_weight - delta) * (1 / kLift));
  }
};

// A block owns kOwn rows of kDim columns, and meets kMet at a time.
template <class T, int kDim, int kOwn, int kMet, class Grid>
struct BackwardProducts {
  using Walk = typename Grid::Walk;
  using Arguments = BackwardWgmmaArgumentsOf<Grid>;
  static constexpr bool kPacked = std::is_same_v<Grid, PackedBackwardGrid>;
  using OwnTile = HeadTile<T, kOwn, kDim>;
  using MetTile = HeadTile<T, kMet, kDim>;
  using Scores = float[kMet / 2];
  using Packed = uint32_t[kMet / 4];
  using Sums = float[kDim / 2];

  // Where row 0 of what is owned is, and of what is met of a head.
  __device__ __forceinline__ static HeadPlace own_place(const Walk& walk) {
    if constexpr (kPacked) {
      return {-walk.own_rows, walk.head, walk.own_first + walk.own_rows};
    } else {
      return {0, walk.head, walk.batch};
    }
  }
  __device__ __forceinline__ static HeadPlace met_place(const Walk& walk, int head) {
    if constexpr (kPacked) {
      return {-walk.met_rows, head, walk.met_first + walk.met_rows};
    } else {
      return {0, head, walk.batch};
    }
  }

  // Issues scores = own met^T, where columns lie in tiles of kColumns: met_tile(i) is the i-th.
  template <int kColumns, class Tile>
  __device__ __forceinline__ static void multiply(Scores& scores, const T* own_rows,
                                                  Tile&& met_tile) {
    using Met = HeadTile<T, kMet, kColumns>;
    const uint64_t own = OwnTile::by_columns(own_rows);
    ptx::wgmma_fence(scores);
#pragma unroll
    for (int part = 0; part < kDim; part += kColumns) {
      const uint64_t met = Met::by_columns(met_tile(part / kColumns));
#pragma unroll
      for (int column = 0; column < kColumns; column += 16) {
        ptx::wgmma_m64k16<kMet, T>(scores, OwnTile::column_step(own, part + column),
                                   Met::column_step(met, column), part + column > 0);
      }
    }
    ptx::wgmma_commit_group();
  }
  __device__ __forceinline__ static void multiply(Scores& scores, const T* own_rows,
                                                  const T* met_tile) {
    multiply<kDim>(scores, own_rows, [&](int) { return met_tile; });
  }
  // Issues sums += packed met, of kColumns columns, which are a tile's.
  template <int kColumns>
  __device__ __forceinline__ static void gather(float (&sums)[kColumns / 2], Packed& packed,
                                                const T* met_tile) {
    using Tile = HeadTile<T, kMet, kColumns>;
    const uint64_t met = Tile::by_rows(met_tile);
    ptx::wgmma_fence(sums, packed);
#pragma unroll
    for (int row = 0; row < kMet; row += 16) {
      const auto& left = reinterpret_cast<const uint32_t (&)[4]>(packed[row / 4]);
      ptx::wgmma_m64k16<kColumns, T, ptx::Major::kMN>(sums, left, Tile::row_step(met, row), true);
    }
    ptx::wgmma_commit_group();
  }

  // Where this thread's elements of an accumulator stand.
  __device__ __forceinline__ static int row_of_thread() {
    return warp_index() % 4 * 16 + lane_index() / 4;
  }
  __device__ __forceinline__ static int column_of_thread() { return lane_index() % 4 * 2; }

  // Weights, and the same times their slopes.
  __device__ __forceinline__ static void pack_both(Packed& weights, Packed& with_slopes,
                                                   Scores& scores, const Scores& slopes) {
    pack_weights<T>(scores, weights);
#pragma unroll
    for (int i = 0; i < kMet / 2; ++i) scores[i] *= slopes[i];
    pack_weights<T>(scores, with_slopes);
  }

  // The i-th of what was packed.
  __device__ __forceinline__ static float unpacked(const Packed& packed, int i) {
    Vec<T, 2> two;
    memcpy(&two, &packed[i / 2], sizeof(two));
    return to_float(two[i % 2]);
  }

  // What all of the 64 rows from `own` on see; nothing where some are missing.
  __device__ __forceinline__ static SeenTogether seen_by_all(const Grid& grid, const Walk& walk,
                                                             int own) {
    return own + 64 <= grid.own_rows_in(walk) ? grid.seen_by(walk, own, 64) : SeenTogether{};
  }
  // Hides what the thread's two rows, of the 64 from `own` on, do not see of the tile at `met`, or
  // are not there to see.
  __device__ __forceinline__ static void hide(Scores& scores, const Grid& grid, const Walk& walk,
                                              int own, int met) {
    SeenColumns columns[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int here = own + row_of_thread() + i * 8;
      const int first = met + column_of_thread();
      columns[i] = {grid.seen_in(walk).first(here) - first,
                    here < grid.own_rows_in(walk) ? grid.seen_in(walk).end(here) - first : 0};
    }
    OnlineSoftmax<T, false>::hide(scores, columns, 0.0F);
  }

  // What there is of the thread's two queries, of 64 from `own` on.
  __device__ __forceinline__ static void load(float (&facts)[2], const float* of_all,
                                              const Arguments& a, const Walk& walk, int own) {
    const int64_t of_head = int64_t{walk.batch} * a.grid.own_heads + walk.head;
    const int row = own + row_of_thread();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      facts[i] = thread::load(of_all + of_head * a.facts.rows + row + i * 8);
    }
  }

  // The warp's 16 rows of sums, times `factor`, to those from `row` on and columns from `first` on.
  template <class Store>
  __device__ __forceinline__ static void store(Store& store, const ptx::TensorMap& map, Sums& sums,
                                               float factor, const Arguments& a, const Walk& walk,
                                               int row, int first = 0) {
    scale_rows(sums, {factor, factor});
#pragma unroll
    for (int column = 0; column < kDim; column += 64) {
      store.stage_and(sums + column / 2, [&](const T* staged) {
        const HeadPlace place = own_place(walk);
        ptx::tensor_store_4d(map, first + column, (kPacked ? a.own_total : 0) + place.row + row,
                             place.head, place.last, staged);
      });
    }
  }
};

}  // namespace ws::attention
