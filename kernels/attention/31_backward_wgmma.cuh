// Idea: wgmma. A warp copies what is met (TMA); warpgroups own 64 rows each, and what they make of
//   scores stays in registers, where it lies as the left operand of their sums does.
// From backward_mma: tensor cores read rows where the copies landed. The next scores are multiplied
//   before the sums of these are done.
// Traffic: a tile of 128 keys reads q and dout of all queries that see it, one of queries k and v:
//   from L2.
// Limits: sm_90a; f16 and bf16; D and Dv multiples of 8 up to 128; rows, heads and batches of all
//   tensors 16-byte aligned; no bias, ALiBi or dscores. Scores are made twice: seven products, not
//   five.
#pragma once

#include "kernels/attention/backward_cut.hpp"
#include "kernels/attention/backward_products.hpp"
#include "kernels/attention/dq_sums.hpp"
#include "kernels/attention/nobodys_rows.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic_vector.hpp"
#include "warpsmith/ptx/mul_bf16x2.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/tile/pipeline.hpp"
#include "warpsmith/tile/warp_store.hpp"

namespace ws::attention {

// What can be chosen.
struct BackwardWgmmaShape {
  int dim;                   // D and Dv up to this, 64 or 128
  int met;                   // rows of the other side, copied and multiplied together
  int stages;                // of these under way
  bool early;                // sums of values are begun before the gradients of scores are there
  bool waits_first = false;  // for the next tile, before it adds to dq
  bool in_pairs = false;     // of bf16 gradients of scores are products of pairs of bf16
};

// Of a block that owns keys: dk and dv; of one that owns queries: dq. kAdds: who owns keys adds its
// part of dq to memory.
//
// Long: the roles and their protocol belong on one page, beside the storage they share.
template <class T, bool kOwnsKeys, BackwardWgmmaShape kShape, bool kAdds = false,
          class Grid = BackwardGrid, bool kCapped = false>
struct BackwardWgmmaKernel {
  static_assert(kOwnsKeys || !kAdds);
  using Element = T;
  using Walk = typename Grid::Walk;
  using Cut = BackwardWgmmaKernel<T, kOwnsKeys, kShape, kAdds, CutBackwardGrid, kCapped>;
  static constexpr bool kCanCut = !kCapped && std::is_same_v<Grid, BackwardGrid>;
  static constexpr bool kOfKeys = kOwnsKeys;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kMinBlocks = 1;
  static constexpr int kCluster = 1;
  static constexpr int kDim = kShape.dim;
  static constexpr int kMet = kShape.met;
  static constexpr int kStages = kShape.stages;
  static constexpr int kGroups = 2;  // warpgroups that multiply
  static constexpr int kOwn = 64 * kGroups;
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kWarps = 4 * kGroups;
  static_assert(QueryFacts::kTogether % (kOwnsKeys ? kMet : kOwn) == 0);
  // A warpgroup has a part of dq of its own: of 64 columns, or of 64 queries.
  static_assert(!kAdds || kDim * kMet == 2 * DqSums::kPart);
  // Not of f16, whose range gradients of weights may leave before they are multiplied.
  static constexpr bool kInPairs = kShape.in_pairs && std::is_same_v<T, bf16>;
  static_assert(!kInPairs || (kOwnsKeys && !kCapped));
  using Products = BackwardProducts<T, kDim, kOwn, kMet, Grid>;
  using OwnTile = typename Products::OwnTile;
  using MetTile = typename Products::MetTile;
  using Gradients = HeadTile<T, kAdds ? kMet : 64, kOwn>;  // queries down
  using Store = tile::WarpStore<T, 1>;
  using Position = tile::PipelinePosition<kStages>;
  using GradientsPosition = tile::PipelinePosition<2>;
  using Arguments = BackwardWgmmaArgumentsOf<Grid>;
  static constexpr uint32_t kFactsBytes = kOwnsKeys ? kMet * sizeof(float) : 0;  // with a tile
  static constexpr int kFactsOfTiles = kOwnsKeys ? kStages * kMet : 4;

  struct SharedStorage {
    SharedArray<T, OwnTile::kElements, 1024> own_scored;
    SharedArray<T, OwnTile::kElements, 1024> own_valued;
    SharedArray<T, kStages * MetTile::kElements, 1024> met_scored;
    SharedArray<T, kStages * MetTile::kElements, 1024> met_valued;
    SharedArray<T, kAdds ? 2 * Gradients::kElements : 8, 1024> gradients;
    SharedArray<T, kWarps * Store::kElements, 1024> sums;
    SharedArray<float, kFactsOfTiles> lse;
    SharedArray<float, kFactsOfTiles> deltas;
    SharedArray<SeenTogether, kWarps> seen;  // by a warp: not held in registers
    tile::Pipeline<1> own_scored_ring, own_valued_ring;
    tile::Pipeline<kStages> scored_ring, valued_ring;
    tile::Pipeline<2> gradients_ring;
  };
  static_assert(sizeof(SharedStorage) <= 227 * 1024, "shared memory of a block");

  __device__ __forceinline__ static Walk walk_of(const Arguments& a) {
    return a.grid.template walk<kOwnsKeys, kOwn, kMet>();
  }
  // ---- The warp that copies --------------------------------------------------------------------

  // One thread.
  __device__ __forceinline__ static void copy(SharedStorage& shared, const Arguments& a) {
    const Walk walk = walk_of(a);
    const auto& of_queries = a.grid.facts_in(walk, a.facts);
    const auto copy_own = [&](auto& ring, auto& to, const ptx::TensorMap& map) {
      OwnTile::load(to.pointer(0), map, ring.acquire({}, OwnTile::kBytes), Products::kPacked,
                    Products::own_place(walk), walk.row);
    };
    const auto copy_met = [&](auto& ring, auto& to, const ptx::TensorMap& map, auto& facts,
                              const float* from, int head, int row, const Position& at) {
      ptx::Mbarrier& full = ring.acquire(at, MetTile::kBytes + kFactsBytes);
      MetTile::load(to.pointer(at.stage * MetTile::kElements), map, full, Products::kPacked,
                    Products::met_place(walk, head), row);
      if constexpr (kOwnsKeys) {
        const int64_t of_head = int64_t{walk.batch} * a.grid.met_heads + head;
        ptx::bulk_load(facts.pointer(at.stage * kMet), from + of_head * a.facts.rows + row,
                       kFactsBytes, full);
      }
    };
    Position at;
    bool first = true;
    for (int head = walk.first_head; head < walk.end_head; ++head) {
      for (int row = walk.first; row < walk.end; row += kMet, at.advance(), first = false) {
        if (first) copy_own(shared.own_scored_ring, shared.own_scored, a.own_scored);
        copy_met(shared.scored_ring, shared.met_scored, a.met_scored, shared.lse, of_queries.lse,
                 head, row, at);
        if (first) copy_own(shared.own_valued_ring, shared.own_valued, a.own_valued);
        copy_met(shared.valued_ring, shared.met_valued, a.met_valued, shared.deltas,
                 of_queries.deltas, head, row, at);
      }
    }
  }

  // ---- A warpgroup of 64 rows ------------------------------------------------------------------

  using Scores = typename Products::Scores;
  using Packed = typename Products::Packed;
  using Sums = typename Products::Sums;
  static constexpr int kSumsOfThread = (kOwnsKeys ? 2 : 1) * kDim / 2;

  // What there is of the queries that this thread has numbers of: of keys two of each eight
  // columns, of which some are loaded ahead; of queries its two rows.
  static constexpr int kAhead = kOwnsKeys ? 32 : kMet;  // columns
  struct Facts {
    float of[kOwnsKeys ? kAhead / 4 : 2];
  };

  struct Consumer {
    SharedStorage& shared;
    const Arguments& a;
    int index;  // of the warpgroup
    Walk walk;
    int head, row;  // of the tile that is met
    Position at{};
    GradientsPosition at_gradients{};

    // The first of the 64 rows that are the warpgroup's.
    __device__ __forceinline__ int own_row() const { return walk.row + index * 64; }

    __device__ __forceinline__ void multiply(Scores& scores, const T* own_tile,
                                             const T* met_tile) const {
      Products::multiply(scores, own_tile + index * 64 * OwnTile::kPanel, met_tile);
    }
    __device__ __forceinline__ void multiply_scored(Scores& scores, int stage) const {
      multiply(scores, shared.own_scored.pointer(0),
               shared.met_scored.pointer(stage * MetTile::kElements));
    }

    // A warp's gradients of scores, for both warpgroups: transposed, queries down.
    __device__ __forceinline__ void stage(const Packed& packed) {
      shared.gradients_ring.wait_free(at_gradients);
      const int lane = lane_index();
      T* const chunk =
          Gradients::chunk(shared.gradients.pointer(at_gradients.stage * Gradients::kElements),
                           lane / 16 * 8 + lane % 8, warp_index() % kWarps * 16 + lane / 8 % 2 * 8);
#pragma unroll
      for (int query = 0; query < kMet; query += 16) {
        ptx::stmatrix_x4<true>(Gradients::further(chunk, query, 0),
                               reinterpret_cast<const uint32_t (&)[4]>(packed[query / 4]));
      }
      ptx::fence_proxy_async();
      ptx::syncwarp();
      if (lane == 0) shared.gradients_ring.fill(at_gradients.stage);
    }

    // Issues the warpgroup's part of dq, of what both have staged at `staged`.
    __device__ __forceinline__ void multiply_dq(float (&dq)[32], const GradientsPosition& staged) {
      shared.gradients_ring.wait(staged);
      constexpr bool kByColumns = kDim > 64;
      const uint64_t left =
          Gradients::by_columns(shared.gradients.pointer(staged.stage * Gradients::kElements) +
                                (kByColumns ? 0 : index * 64 * Gradients::kPanel));
      const uint64_t keys = OwnTile::by_rows(
          shared.own_scored.pointer(kByColumns ? index * OwnTile::kPanelElements : 0));
      ptx::wgmma_fence(dq);
#pragma unroll
      for (int key = 0; key < kOwn; key += 16) {
        ptx::wgmma_m64k16<64, T, ptx::Major::kK, ptx::Major::kMN>(
            dq, Gradients::column_step(left, key), OwnTile::row_step(keys, key), key > 0);
      }
      ptx::wgmma_commit_group();
    }
    // Which tile of all heads' queries this is.
    __device__ __forceinline__ int tile_of_all() const {
      if constexpr (Products::kPacked) {
        return (head * static_cast<int>(a.facts.rows) + walk.facts_first + row) / kMet;
      }
      const int of_head = walk.batch * a.grid.met_heads + head;
      return (of_head * static_cast<int>(a.facts.rows) + row) / kMet;
    }
    // Where it was staged before at_gradients.
    __device__ __forceinline__ GradientsPosition staged() const {
      const int stage = at_gradients.stage ^ 1;
      return {stage, at_gradients.parity ^ static_cast<uint32_t>(stage)};
    }
    __device__ __forceinline__ void add_dq(const float (&dq)[32], int tile,
                                           const GradientsPosition& staged) {
      constexpr bool kByColumns = kDim > 64;
      float* const to =
          a.dq_sums + DqSums::at(int64_t{tile} * kMet + (kByColumns ? 0 : index * 64), kDim,
                                 kByColumns ? index * 64 : 0, thread_index() % 128);
      if (lane_index() == 0) shared.gradients_ring.release(staged.stage);
#pragma unroll
      for (int i = 0; i < 32; i += 4) {
        ptx::red_global_add(to + i / 4 * DqSums::kStep,
                            Vec<float, 4>{dq[i], dq[i + 1], dq[i + 2], dq[i + 3]});
      }
    }

    // Of kAhead columns of the tile at `at`, whose facts are in shared memory where keys are owned.
    __device__ __forceinline__ void load(Facts& facts, SharedArray<float, kFactsOfTiles>& of_tiles,
                                         const float* of_all, int column) const {
      if constexpr (kOwnsKeys) {
        const SharedSpan<float> of_tile{of_tiles.pointer(at.stage * kMet), kMet};
#pragma unroll
        for (int i = 0; i < kAhead / 4; i += 2) {
          const auto two = of_tile.template load<2>(column + i * 4 + Products::column_of_thread());
          facts.of[i] = two[0];
          facts.of[i + 1] = two[1];
        }
      } else {
        Products::load(facts.of, of_all, a, walk, own_row());
      }
    }
    // number = f(i, number, what there is of its query) for all; of the first columns it is there.
    template <class F>
    __device__ __forceinline__ void change(Scores& scores, const Facts& of_first,
                                           SharedArray<float, kFactsOfTiles>& of_tiles,
                                           F&& f) const {
      Facts facts = of_first;
#pragma unroll
      for (int column = 0; column < kMet; column += kAhead) {
        const Facts here = facts;
        if (column + kAhead < kMet) load(facts, of_tiles, nullptr, column + kAhead);
#pragma unroll
        for (int i = column / 2; i < (column + kAhead) / 2; ++i) {
          const int at = kOwnsKeys ? (i - column / 2) / 4 * 2 + i % 2 : i / 2 % 2;
          scores[i] = f(i, scores[i], here.of[at]);
        }
      }
    }

    // All that is met. Scores of the next tile are under way while this one is added up.
    __device__ __forceinline__ void gather_all(Sums& scored_sums, Sums& valued_sums) {
      {
        const SeenTogether mine = Products::seen_by_all(a.grid, walk, own_row());
        if (lane_index() == 0) shared.seen[warp_index() % kWarps] = mine;
        ptx::syncwarp();
      }
      const BackwardScores<kCapped> of_scores(a);
      int adds_to = -1;  // the tile of queries before
      Facts lse;
      Facts deltas;
      if constexpr (!kOwnsKeys) {
        load(lse, shared.lse, a.grid.facts_in(walk, a.facts).lse, 0);
        load(deltas, shared.deltas, a.grid.facts_in(walk, a.facts).deltas, 0);
      }
      Scores scores;
      ptx::wgmma_pin(scored_sums);
      ptx::wgmma_pin(valued_sums);
      shared.own_scored_ring.wait({});
      shared.scored_ring.wait(at);
      multiply_scored(scores, at.stage);
      shared.own_valued_ring.wait({});
      for (bool more = true; more;) {
        T* const scored = shared.met_scored.pointer(at.stage * MetTile::kElements);
        T* const valued = shared.met_valued.pointer(at.stage * MetTile::kElements);
        if constexpr (kOwnsKeys) load(lse, shared.lse, nullptr, 0);
        shared.valued_ring.wait(at);
        ptx::wgmma_wait_group<0>(scores);
        Scores gradients;
        multiply(gradients, shared.own_valued.pointer(0), valued);
        [[maybe_unused]] Scores slopes;
        change(scores, lse, shared.lse, [&](int i, float score, float of_query) {
          if constexpr (kCapped && kOwnsKeys) return of_scores.weight(score, of_query, slopes[i]);
          return of_scores.with_slope(score, of_query);
        });
        const SeenTogether mine = shared.seen[warp_index() % kWarps];
        if (row < mine.whole_first || row + kMet > mine.whole_end) {
          Products::hide(scores, a.grid, walk, own_row(), row);
        }
        if constexpr (kOwnsKeys) load(deltas, shared.deltas, nullptr, 0);
        Packed weights;
        Packed with_slopes;  // the same, but under a softcap
        if constexpr (kOwnsKeys && kCapped) {
          Products::pack_both(weights, with_slopes, scores, slopes);
        } else if constexpr (kOwnsKeys) {
          pack_weights<T>(scores, weights);
        }
        if constexpr (kOwnsKeys && kShape.early) {
          Products::template gather<kDim>(valued_sums, weights, valued);
        }

        ptx::wgmma_wait_group<kOwnsKeys && kShape.early ? 1 : 0>(gradients);
        change(gradients, deltas, shared.deltas, [&](int i, float gradient, float delta) {
          if constexpr (kInPairs) {
            return gradient - delta;
          } else {
            const float weight = weight_of(scores, kCapped ? with_slopes : weights, i);
            return of_scores.gradient(weight, gradient, delta);
          }
        });
        ptx::syncwarp();  // all lanes have read what came with the tiles, of which one lets go
        Packed packed;
        pack_weights<T>(gradients, packed);
        if constexpr (kInPairs) {
#pragma unroll
          for (int i = 0; i < kMet / 4; ++i) packed[i] = ptx::mul_rn_bf16x2(packed[i], weights[i]);
        }
        float dq[32];
        if constexpr (kAdds) stage(packed);
        // They are done by now; and the compiler wants their registers.
        if constexpr (kAdds && kShape.early) ptx::wgmma_wait_group<0>(valued_sums);
        if constexpr (kOwnsKeys && !kShape.early) {
          Products::template gather<kDim>(valued_sums, weights, valued);
        }
        // Of the tile before; of the first, before which there is none, its own for nobody.
        if constexpr (kAdds) multiply_dq(dq, adds_to >= 0 ? staged() : at_gradients);
        Products::template gather<kDim>(scored_sums, packed, scored);

        const int stage = at.stage;
        [[maybe_unused]] const int tile = tile_of_all();
        if constexpr (kAdds) ptx::wgmma_wait_group<1>(dq);
        if constexpr (kShape.waits_first) more = advance_and_wait();
        if constexpr (kAdds) {
          if (adds_to >= 0) add_dq(dq, adds_to, staged());
          adds_to = tile;
          at_gradients.advance();
        }
        if constexpr (kOwnsKeys) ptx::wgmma_wait_group<1>(valued_sums);
        if (lane_index() == 0) shared.valued_ring.release(stage);
        if constexpr (!kShape.waits_first) more = advance_and_wait();
        // Behind the last tile its own once more, for nobody: what is under way should not depend
        // on a branch, else the compiler lets products wait for each other.
        multiply_scored(scores, more ? at.stage : stage);
        ptx::wgmma_wait_group<1>(scored_sums);
        if (lane_index() == 0 && more) shared.scored_ring.release(stage);
      }
      ptx::wgmma_wait_group<0>(scores);
      if constexpr (kAdds) {
        float dq[32];
        multiply_dq(dq, staged());
        ptx::wgmma_wait_group<0>(dq);
        add_dq(dq, adds_to, staged());
      }
    }
    // Where sums of values are under way, rounded as they have it: registers are dear.
    __device__ __forceinline__ static float weight_of(const Scores& scores, const Packed& weights,
                                                      int i) {
      if constexpr (kOwnsKeys && kShape.early) {
        return Products::unpacked(weights, i);
      } else {
        return scores[i];
      }
    }
    // Whether there is a next tile; until it is there to be multiplied.
    __device__ __forceinline__ bool advance_and_wait() {
      at.advance();
      row += kMet;
      if (row >= walk.end) {
        row = walk.first;
        ++head;
      }
      const bool more = head < walk.end_head;
      if (more) shared.scored_ring.wait(at);
      return more;
    }
  };

  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& a,
                                                 int warp) {
    const Walk walk = a.grid.same_in_all_lanes(walk_of(a));
    Consumer consumer{shared, a, warp / 4, walk, walk.first_head, walk.first};
    Sums scored_sums = {};
    Sums valued_sums = {};
    if (walk.first_head < walk.end_head) {
      consumer.gather_all(scored_sums, valued_sums);
    }
    static_assert(sizeof(Sums) * (kOwnsKeys ? 2 : 1) == kSumsOfThread * sizeof(float));
    if constexpr (kIsCut<Grid> && kOwnsKeys) {
      if (!a.grid.template complete<kWarps, kCluster>(warp, scored_sums, valued_sums)) return;
    } else if constexpr (kIsCut<Grid>) {
      if (!a.grid.template complete<kWarps, kCluster>(warp, scored_sums)) return;
    }
    Store store{shared.sums.pointer(warp * Store::kElements)};
    const int row = walk.row + warp_index() % kWarps * Store::kRows;
    if constexpr (kOwnsKeys) Products::store(store, a.valued_sums, valued_sums, 1.0F, a, walk, row);
    Products::store(store, a.scored_sums, scored_sums, a.scale, a, walk, row);
    store.finish();
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    // Broadcast, so that the compiler knows it to be the same in all lanes.
    const auto warp =
        static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0));
    if (thread_index() == 0) {
      shared.own_scored_ring.init(1);
      shared.own_valued_ring.init(1);
      shared.scored_ring.init(kWarps);
      shared.valued_ring.init(kWarps);
      shared.gradients_ring.init(kWarps, kWarps);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp < kWarps) {
      ptx::setmaxnreg_inc<240>();
      consume(shared, a, warp);
    } else {
      ptx::setmaxnreg_dec<24>();
      if (warp == kWarps && ptx::elect_sync()) copy(shared, a);
    }
  }
};

// ---- Calls --------------------------------------------------------------------------------------

// What the rungs of this kernel take.
struct BackwardWgmmaCalls {
  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return takes(call, 128, why);
  }
  // D and Dv up to `most`.
  static bool takes(const BackwardCall& call, int64_t most, Why& why);
  static bool takes(const VarlenBackwardCall& call, int64_t most, Why& why);

  static constexpr const char* kName = "attention/backward_wgmma";
  template <class Kernel>
  static BackwardGrid grid_of(const BackwardCall& call) {
    return Kernel::kOfKeys ? BackwardGrid::of_keys(call, Kernel::kOwn)
                           : BackwardGrid::of_queries(call, Kernel::kOwn);
  }
  template <class Kernel>
  static PackedBackwardGrid grid_of(const VarlenBackwardCall& call) {
    return Kernel::kOfKeys ? PackedBackwardGrid::of_keys(call, kName, Kernel::kOwn)
                           : PackedBackwardGrid::of_queries(call, kName, Kernel::kOwn);
  }
  // Of blocks of Kernel: that own keys, or queries.
  template <class Kernel, class AnyCall, class Grid>
  static typename Kernel::Arguments arguments_of(const AnyCall& call, const QueryFacts& facts,
                                                 const Grid& grid);
  // Kernel's last wave in pieces: none where it is not worth cutting, or blocks are not alike.
  template <class Kernel, class AnyCall>
  static BackwardPieces pieces_of(const AnyCall& call) {
    if constexpr (Kernel::kCanCut) {
      const BackwardGrid grid = grid_of<Kernel>(call);
      if (call.window.is_open()) {
        return {grid.tiles.count(), divide_up(grid.met_rows, Kernel::kMet),
                std::max(1, device_facts().multiprocessors / Kernel::kCluster)};
      }
    }
    return {};
  }
  // What pieces of either kernel want of a workspace, before all else.
  template <class... Kernels, class AnyCall>
  static Workspace room_for_pieces(const AnyCall& call) {
    Workspace room;
    const auto add = [&]<class Kernel>() {
      const int places = pieces_of<Kernel>(call).places * Kernel::kCluster * Kernel::kWarps;
      constexpr size_t kBytes = kWarpSize * Kernel::kSumsOfThread * sizeof(float);
      room.zeroed = std::max(room.zeroed, round_up(places * sizeof(uint32_t), size_t{256}));
      room.bytes = std::max(room.bytes, places * kBytes);
    };
    (add.template operator()<Kernels>(), ...);
    room.bytes += room.zeroed;
    return room;
  }
  static SumsOfPieces pieces_in(void* workspace, const Workspace& room) {
    auto* const flags = static_cast<std::byte*>(workspace);
    return {reinterpret_cast<float*>(flags + room.zeroed), reinterpret_cast<uint32_t*>(flags)};
  }

  // Kernel, or Kernel::Cut where there are pieces.
  template <class Kernel, class AnyCall>
  static void launch_of(const AnyCall& call, const QueryFacts& facts, const SumsOfPieces& left,
                        Stream stream, float* dq_sums = nullptr) {
    const auto launch_by = [&]<class Any>(const auto& grid, int64_t blocks) {
      typename Any::Arguments a = arguments_of<Any>(call, facts, grid);
      a.dq_sums = dq_sums;
      launch<Any>(
          {.blocks = blocks * Any::kCluster, .threads = Any::kThreads, .cluster = Any::kCluster},
          stream, a);
    };
    const auto grid = grid_of<Kernel>(call);
    if (grid.tiles.count() == 0) return;
    if constexpr (Kernel::kCanCut) {
      const BackwardPieces pieces = pieces_of<Kernel>(call);
      if (pieces.count > 0) {
        launch_by.template operator()<typename Kernel::Cut>(CutBackwardGrid{grid, pieces, left},
                                                            pieces.blocks());
        return;
      }
    }
    launch_by.template operator()<Kernel>(grid, grid.tiles.count());
  }
  // f.template operator()<kCapped>().
  template <class F>
  static void with_cap(const BackwardCall& call, F&& f) {
    if (call.softcap > 0) {
      f.template operator()<true>();
    } else {
      f.template operator()<false>();
    }
  }
  // What blocks of either side want to know of queries, in `memory`; and zeros in nobody's rows,
  // and in sums of dq.
  template <class T, class AnyCall>
  static QueryFacts facts_of(const AnyCall& call, const char* rung, void* memory, Stream stream,
                             const DqSumsToClear& cleared = {}) {
    const QueryFacts facts = QueryFacts::in(call, memory);
    if constexpr (kIsPacked<AnyCall>) clear_nobodys<T>(call, {call, rung}, stream);
    launch_facts<T>(call, facts, stream, cleared);
    return facts;
  }
  // By blocks that own keys, then by those that own queries.
  template <class OfKeys, class OfQueries, class AnyCall>
  static Workspace workspace_of(const AnyCall& call) {
    const Workspace room = room_for_pieces<OfKeys, OfQueries>(call);
    return {.bytes = room.bytes + QueryFacts::workspace(call).bytes, .zeroed = room.zeroed};
  }
  template <class OfKeys, class OfQueries, class AnyCall>
  static void run_as(const AnyCall& call, const char* rung, const Context& context) {
    using T = typename OfKeys::Element;
    const Workspace room = room_for_pieces<OfKeys, OfQueries>(call);
    const SumsOfPieces left = pieces_in(context.workspace, room);
    const QueryFacts facts = facts_of<T>(
        call, rung, static_cast<std::byte*>(context.workspace) + room.bytes, context.stream);
    launch_of<OfKeys>(call, facts, left, context.stream);
    launch_of<OfQueries>(call, facts, left, context.stream);
  }
};

template <class Kernel, class AnyCall, class Grid>
typename Kernel::Arguments BackwardWgmmaCalls::arguments_of(const AnyCall& call,
                                                            const QueryFacts& facts,
                                                            const Grid& grid) {
  // Boxes of whole tiles are loaded, what a warp has of them is stored; of dense tensors a map to
  // load is as one to store.
  constexpr bool kPacked = kIsPacked<AnyCall>;
  constexpr int kStored = Kernel::Store::kRows;
  const Sequences all(call, "");
  const auto map = [&](const Heads& heads, int64_t columns, int64_t rows, int64_t count, int box,
                       bool to_load) {
    return head_map<typename Kernel::Element>(heads, columns, rows, count, batches_of(call),
                                              kPacked, box, to_load);
  };
  const auto keys = [&](const Heads& heads, int64_t columns, int rows, bool to_load = true) {
    return map(heads, columns, all.keys, call.kv_heads, rows, to_load);
  };
  const auto queries = [&](const Heads& heads, int64_t columns, int rows, bool to_load = true) {
    return map(heads, columns, all.queries, call.heads, rows, to_load);
  };
  constexpr int kOfKeys = Kernel::kOfKeys ? Kernel::kOwn : Kernel::kMet;
  constexpr int kOfQueries = Kernel::kOfKeys ? Kernel::kMet : Kernel::kOwn;
  const float cap = call.softcap * thread::kLog2E;
  const float factor = call.softcap > 0 ? 2 * thread::kLog2E * call.scale / call.softcap : 0;
  const ptx::TensorMap k = keys(call.k, call.head_dim, kOfKeys);
  const ptx::TensorMap v = keys(call.v, call.value_dim, kOfKeys);
  const ptx::TensorMap q = queries(call.q, call.head_dim, kOfQueries);
  const ptx::TensorMap dout = queries(call.dout, call.value_dim, kOfQueries);
  if constexpr (Kernel::kOfKeys) {
    return {.own_scored = k,
            .own_valued = v,
            .met_scored = q,
            .met_valued = dout,
            .scored_sums = keys(call.dk, call.head_dim, kStored, !kPacked),
            .valued_sums = keys(call.dv, call.value_dim, kStored, !kPacked),
            .grid = grid,
            .facts = facts,
            .scale = call.scale,
            .dq_sums = nullptr,
            .own_total = static_cast<int>(all.keys),
            .cap = cap,
            .factor = factor};
  } else {
    const ptx::TensorMap dq = queries(call.dq, call.head_dim, kStored, !kPacked);
    return {.own_scored = q,
            .own_valued = dout,
            .met_scored = k,
            .met_valued = v,
            .scored_sums = dq,
            .valued_sums = dq,
            .grid = grid,
            .facts = facts,
            .scale = call.scale,
            .dq_sums = nullptr,
            .own_total = static_cast<int>(all.queries),
            .cap = cap,
            .factor = factor};
  }
}

}  // namespace ws::attention
