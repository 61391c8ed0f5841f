// Idea: five products on tensor cores, and no weight leaves the registers: a warp owns rows of one
//   side of all pairs, and what it makes with rows of the other is the left operand of its sums.
// From backward_any: one kernel for either side: of keys, scores are made transposed. Lse and delta
//   of queries come from a first kernel, tiles by cp.async, the next while this one is used; only
//   tiles that hold an edge of what is seen compare rows with it. A sum has one owner and one
//   order. Of packed sequences a block reads its own; a first kernel clears rows that none owns.
// Traffic: a tile of keys reads q and dout of all queries that see it, one of queries k and v: from
//   L2. Shared memory gives 170 to 288 bytes a product, and has 128 a clock (README.md).
// Limits: f16 and bf16; D and Dv up to 128; rows of q, k, v and dout that begin at multiples of 16
//   bytes; no bias, ALiBi, softcap or dscores. Scores are made twice: seven products, not five.
#pragma once

#include "kernels/attention/backward_grid.hpp"
#include "kernels/attention/careful_products.hpp"
#include "kernels/attention/mma_products.hpp"
#include "kernels/attention/query_facts.hpp"
#include "kernels/attention/row_tile.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic_vector.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::attention {

// One side of all pairs: keys with their values, or queries with the gradients of what they gave.
struct BackwardSide {
  Heads scored;  // k or q: scores are their products
  Heads valued;  // v or dout: gradients of weights are theirs
};

// Grid: BackwardGrid, or of packed sequences PackedBackwardGrid.
template <class Grid>
struct BackwardMmaArgumentsOf {
  BackwardSide own, met;
  Heads scored_sums;       // dk or dq
  Heads valued_sums = {};  // dv
  Grid grid;
  QueryFacts facts;
  int dim, value_dim;
  float scale;
  float* dq_sums =
      nullptr;  // [batch, heads, facts.rows, head dim of the kernel], where a block adds to dq
  bool scored_aligned = false;  // 16 bytes of a row of sums at a time
  bool valued_aligned = false;
};
using BackwardMmaArguments = BackwardMmaArgumentsOf<BackwardGrid>;

// What can be chosen.
struct BackwardMmaShape {
  int dim;         // D and Dv up to this, a multiple of 16
  int warps;       // of a block
  int row_blocks;  // of 16 rows, of a warp
  int tile;        // rows of the other side, copied together
  int step;        // of these, whose scores are held together
  int blocks;      // that share an SM
};

// Of a block that owns keys: dk and dv; of one that owns queries: dq. kAdds: who owns keys adds its
// part of dq to memory.
template <class T, bool kOwnsKeys, BackwardMmaShape kShape, bool kAdds = false,
          class Grid = BackwardGrid, template <class, int> class ProductsOf = MmaProducts>
struct BackwardMmaKernel {
  static_assert(kOwnsKeys || !kAdds);
  static constexpr int kDim = kShape.dim;
  static constexpr int kThreads = kShape.warps * kWarpSize;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kWarpRows = kShape.row_blocks * 16;
  static constexpr int kOwn = kShape.warps * kWarpRows;
  static constexpr int kMet = kShape.tile;
  static constexpr int kStep = kShape.step;
  static_assert(QueryFacts::kTogether % (kOwnsKeys ? kMet : kOwn) == 0 && kMet % kStep == 0);
  using OwnRows = RowTile<T, kOwn, kDim, kThreads>;
  using MetRows = RowTile<T, kMet, kDim, kThreads>;
  using Scores = MmaScores<kShape.row_blocks, kStep>;
  using Products = ProductsOf<T, kShape.row_blocks>;
  using Careful = CarefulProducts<Products, kThreads>;
  using Sums = typename Products::template Sums<kDim>;
  using Gradients = RowTile<T, kOwn, kMet, kThreads>;
  using Arguments = BackwardMmaArgumentsOf<Grid>;
  using Walk = typename Grid::Walk;
  // Of keys the facts of the queries of two tiles, of queries their own: lse, then deltas.
  static constexpr int kFacts = kOwnsKeys ? kMet : kOwn;
  struct SharedStorage {
    SharedArray<T, OwnRows::kElements, 128> own_scored;  // then their sums
    SharedArray<T, OwnRows::kElements, 128> own_valued;
    SharedArray<T, 2 * MetRows::kElements, 128> met_scored;
    SharedArray<T, 2 * MetRows::kElements, 128> met_valued;
    SharedArray<float, (kOwnsKeys ? 4 : 2) * kFacts> facts;
    // What is seldom asked for: registers are dear.
    SharedArray<Walk, 1> walk;
    SharedArray<SeenTogether, kThreads / kWarpSize> seen;             // by a warp
    SharedArray<T, kAdds ? Gradients::kElements : 8, 128> gradients;  // of the scores of a tile
    typename Careful::Storage careful;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Careful::run(shared.careful, [&]<class By>() { return attend<By>(shared, a); });
  }

 private:
  // Whether all sums of this thread are finite, where somebody asks.
  // Long: copies, four products and what lies between them share the tiles.
  template <class By>
  __device__ __forceinline__ static bool attend(SharedStorage& shared, const Arguments& a) {
    const int warp_row = warp_index() * kWarpRows;
    int met_head;
    int met_tile;
    {
      const Walk walk = a.grid.template walk<kOwnsKeys, kOwn, kMet>();
      if (thread_index() == 0) shared.walk[0] = walk;
      if (lane_index() == 0) {
        shared.seen[warp_index()] = walk.row + warp_row < a.grid.own_rows_in(walk)
                                        ? a.grid.seen_by(walk, walk.row + warp_row, kWarpRows)
                                        : SeenTogether{};
      }
      met_head = walk.first_head;
      met_tile = walk.first;
      if (met_head < walk.end_head) {
        const Grid& grid = a.grid;
        copy_rows<OwnRows>(shared.own_scored.span(), grid.template own_in<T>(walk, a.own.scored),
                           walk.batch, walk.head, walk.row, grid.own_rows_in(walk), a.dim);
        copy_rows<OwnRows>(shared.own_valued.span(), grid.template own_in<T>(walk, a.own.valued),
                           walk.batch, walk.head, walk.row, grid.own_rows_in(walk), a.value_dim);
        if constexpr (!kOwnsKeys) {
          copy_facts(shared.facts.span(), grid.facts_in(walk, a.facts),
                     int64_t{walk.batch} * grid.own_heads + walk.head, walk.row);
        }
        copy(shared, a, 0, walk, met_head, met_tile);
      }
      ptx::barrier_sync();
    }

    const float scale = a.scale * thread::kLog2E;
    const int own = OwnRows::template lane_offset<OwnRows::Order::kDown>(warp_row);
    const int across = By::template keys_offset<MetRows>();
    const int down = By::template values_offset<MetRows>();
    Sums scored_sums = {};
    Sums valued_sums = {};
    for (int i = 0; met_head < static_cast<Walk>(shared.walk[0]).end_head; ++i) {
      ptx::cp_async_wait_group<0>();
      ptx::barrier_sync();  // this tile is there for all, and nobody reads the one before it
      const int this_head = met_head;
      const int this_tile = met_tile;
      const Walk walk = shared.walk[0];
      met_tile += kMet;
      if (met_tile >= walk.end) {
        met_tile = walk.first;
        ++met_head;
      }
      if (met_head < walk.end_head) copy(shared, a, i + 1, walk, met_head, met_tile);
      const SeenTogether by_warp = shared.seen[warp_index()];
#pragma unroll 1
      for (int step = 0; step < kMet; step += kStep) {
        const int met = this_tile + step;
        if (met >= by_warp.end || met + kStep <= by_warp.first) {
          if constexpr (kAdds) stage(shared.gradients.span(), Scores{}, step);
          continue;
        }
        const int in_stage = i % 2 * MetRows::kElements + step * MetRows::Tile::kPitch;
        const int facts = kOwnsKeys ? i % 2 * 2 * kFacts + step : warp_row;
        Scores weights = {};
        multiply<By>(weights, shared.own_scored.span(), own, shared.met_scored.span(),
                     in_stage + across);
        change(weights, shared.facts.span(), facts, [&](int, int, float score, float lse) {
          return thread::exp2(thread::fma(score, scale, -lse));
        });
        if (met < by_warp.whole_first || met + kStep > by_warp.whole_end) {
          const Walk walk = shared.walk[0];
          weights.hide(a.grid.seen_in(walk), walk.row + warp_row, met, 0.0F);
        }
        if constexpr (kAdds) {  // of keys that are not there nothing is added, of infinite weights
                                // NaN
          const int there = a.grid.own_rows - static_cast<Walk>(shared.walk[0]).row - warp_row;
          if (there < kWarpRows) {
            weights.change([&](int i, int /*met*/, float weight) {
              return Scores::row(i) < there ? weight : 0.0F;
            });
          }
        }
        if constexpr (kOwnsKeys) {
          By::template gather<MetRows>(valued_sums, weights, shared.met_valued.span(),
                                       in_stage + down);
        }
        Scores gradients = {};
        multiply<By>(gradients, shared.own_valued.span(), own, shared.met_valued.span(),
                     in_stage + across);
        change(gradients, shared.facts.span(), facts + kFacts,
               [&](int i, int met, float gradient, float delta) {
                 return weights.of(i, met) * (gradient - delta);
               });
        if constexpr (kAdds) stage(shared.gradients.span(), gradients, step);
        By::template gather<MetRows>(scored_sums, gradients, shared.met_scored.span(),
                                     in_stage + down);
      }
      if constexpr (kAdds) {
        ptx::barrier_sync();  // the gradients of all warps are there
        add(shared, a, this_head, this_tile);
      }
    }
    // All lanes have read their own rows; where dq is added to, those of all warps.
    if constexpr (kAdds) ptx::barrier_sync();

    ptx::syncwarp();
    const Walk walk = shared.walk[0];
    write(shared.own_scored.span(), a.grid.template own_in<T>(walk, a.scored_sums), walk,
          a.grid.own_rows_in(walk), a.dim, a.scored_aligned, scored_sums, a.scale);
    if constexpr (kOwnsKeys) {
      write(shared.own_valued.span(), a.grid.template own_in<T>(walk, a.valued_sums), walk,
            a.grid.own_rows_in(walk), a.value_dim, a.valued_aligned, valued_sums, 1.0F);
    }
    return Careful::are_finite(scored_sums) && Careful::are_finite(valued_sums);
  }

  // The i-th tile of the other side.
  __device__ __forceinline__ static void copy(SharedStorage& shared, const Arguments& a, int i,
                                              const Walk& walk, int head, int row) {
    const auto at = [&](auto& array) -> SharedSpan<T> {
      return {array.pointer(i % 2 * MetRows::kElements), MetRows::kElements};
    };
    const Grid& grid = a.grid;
    copy_rows<MetRows>(at(shared.met_scored), grid.template met_in<T>(walk, a.met.scored),
                       walk.batch, head, row, grid.met_rows_in(walk), a.dim);
    copy_rows<MetRows>(at(shared.met_valued), grid.template met_in<T>(walk, a.met.valued),
                       walk.batch, head, row, grid.met_rows_in(walk), a.value_dim);
    if constexpr (kOwnsKeys) {
      copy_facts({shared.facts.pointer(i % 2 * 2 * kFacts), 2 * kFacts},
                 grid.facts_in(walk, a.facts), int64_t{walk.batch} * grid.met_heads + head, row);
    }
    ptx::cp_async_commit_group();
  }
  __device__ __forceinline__ static void copy_facts(SharedSpan<float> to, const QueryFacts& facts,
                                                    int64_t head, int row) {
    static_assert(kThreads >= kFacts / 2);
    const int at = thread_index() * 4;
    if (at >= 2 * kFacts) return;
    ptx::cp_async<16>(to.pointer(at), (at < kFacts ? facts.lse : facts.deltas) + head * facts.rows +
                                          row + at % kFacts);
  }
  // number = f(i, row that is met, number, what there is of its query) for all. Queries are columns
  // where keys are owned, and else rows; `from` is the first.
  template <class F>
  __device__ __forceinline__ static void change(Scores& scores, SharedSpan<float> facts, int from,
                                                F&& f) {
    if constexpr (kOwnsKeys) {
#pragma unroll
      for (int n = 0; n < kStep; n += 8) {
        const auto two = facts.template load<2>(from + n + Scores::first_key());
        scores.change(
            n, [&](int i, int met, float number) { return f(i, met, number, two[met % 2]); });
      }
    } else {
      float of_rows[Scores::kRows];
#pragma unroll
      for (int i = 0; i < Scores::kRows; ++i) of_rows[i] = facts[from + Scores::row(i)];
      scores.change([&](int i, int met, float number) { return f(i, met, number, of_rows[i]); });
    }
  }

  // A tile from row `row` of a head on, which has `count`.
  template <class Rows>
  __device__ __forceinline__ static void copy_rows(SharedSpan<T> to, const Heads& heads, int batch,
                                                   int head, int row, int count, int columns) {
    StridedRows<T> rows = Rows::strided(heads.at<const T>(batch, head, row), heads.row);
    Rows::copy(to, rows, heads.as<const T>(), count - row, columns);
  }

  template <class By>
  __device__ __forceinline__ static void multiply(Scores& scores, SharedSpan<T> own, int own_offset,
                                                  SharedSpan<T> met, int met_offset) {
    typename Products::Left left;
    By::template add_scores<MetRows, kDim>(
        scores,
        [&](int k) -> const auto& {
          Products::template load<OwnRows>(left, own, own_offset, k);
          return left;
        },
        met, met_offset);
  }

  // Gradients of scores of the warp's keys, for all warps.
  __device__ __forceinline__ static void stage(SharedSpan<T> to, const Scores& gradients,
                                               int step) {
#pragma unroll
    for (int i = 0; i < Scores::kRows; ++i) {
      Products::template stage<Gradients>(to, warp_index() * kWarpRows, i, gradients.at, 1.0F,
                                          step);
    }
  }

  // Adds the products of a tile's gradients with all keys to dq. A warp has 32 queries, and shares
  // their columns with those that have the same.
  __device__ __forceinline__ static void add(SharedStorage& shared, const Arguments& a, int head,
                                             int tile) {
    constexpr int kDown = kMet / 32;
    constexpr int kColumns = kDim * kDown / kShape.warps;
    static_assert(kMet % 32 == 0 && kShape.warps % kDown == 0 && kColumns % 16 == 0);
    using OfQueries = MmaProducts<T, 2>;
    const int first_row = warp_index() % kDown * 32;
    const int first_column = warp_index() / kDown * kColumns;
    // Gradients lie with keys down, and are the left operand with queries down.
    const int left_at = Gradients::template lane_offset<Gradients::Order::kAcross>(0);
    const int right_at = OwnRows::template lane_offset<OwnRows::Order::kDown>(0);
    typename OfQueries::template Sums<kColumns> sums = {};
#pragma unroll
    for (int k = 0; k < kOwn; k += 16) {
      typename OfQueries::Left left;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        ptx::ldmatrix_x4<true>(
            left[r], shared.gradients.pointer(Gradients::further(left_at ^ first_row, k, r * 16)));
      }
#pragma unroll
      for (int n = 0; n < kColumns; n += 16) {
        uint32_t right[4];
        ptx::ldmatrix_x4<true>(right,
                               shared.own_scored.pointer(OwnRows::further(
                                   (right_at ^ first_column % 64) + first_column / 64 * 64, k, n)));
        OfQueries::multiply_add(sums, n / 8, left, right);
      }
    }
    // Of two lanes that have four columns of two rows, each adds to one row.
    const bool is_odd = lane_index() % 2 != 0;
    const int64_t of_head =
        int64_t{static_cast<Walk>(shared.walk[0]).batch} * a.grid.met_heads + head;
    const int64_t row =
        of_head * a.facts.rows + tile + first_row + lane_index() / 4 + (is_odd ? 8 : 0);
    float* const to = a.dq_sums + row * kDim + first_column + lane_index() % 4 / 2 * 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        const float (&four)[4] = sums[r][n];
        const float low = warp::shuffle_xor(is_odd ? four[0] : four[2], 1);
        const float high = warp::shuffle_xor(is_odd ? four[1] : four[3], 1);
        const Vec<float, 4> mine = is_odd ? Vec<float, 4>{low, high, four[2], four[3]}
                                          : Vec<float, 4>{four[0], four[1], low, high};
        ptx::red_global_add(to + r * 16 * kDim + n * 8, mine);
      }
    }
  }

  // The warp's rows, through shared memory: lanes write 16 bytes of a row that lie together.
  __device__ __forceinline__ static void write(SharedSpan<T> staged, const Heads& to,
                                               const Walk& walk, int count, int columns,
                                               bool aligned, const Sums& sums, float factor) {
    const int warp_row = warp_index() * kWarpRows;
    const int row = walk.row + warp_row;
    if (row >= count) return;
#pragma unroll
    for (int i = 0; i < Scores::kRows; ++i) {
      Products::template stage<OwnRows>(staged, warp_row, i, sums, factor);
    }
    ptx::syncwarp();
    OwnRows::template write<kWarpRows>(
        staged, warp_row, [&](int i) { return to.at<T>(walk.batch, walk.head, row + i); },
        to.column, count - row, columns, aligned);
  }
};

}  // namespace ws::attention
