// Idea: rows of 256 columns leave a warpgroup no registers for dk beside dv. Two that own the same
//   64 keys make one each: one has the weights, which the other needs for dscores and reads. Above
//   256 columns two blocks of a cluster have half of them each, and trade what these add to scores.
// From backward_wgmma: the kernel of queries is the same up to 256, with keys two tiles ahead and
//   values one; above it is that of keys, where one warpgroup gathers.
// Traffic: a tile of 64 keys reads q and dout of all queries that see it, one of 128 queries (above
//   256 columns 64) k and v: from L2.
// Limits: sm_90a; f16 and bf16; D and Dv multiples of 8 up to 512; rows, heads and batches of all
//   tensors 16-byte aligned; no bias, ALiBi or dscores. Scores are made twice: seven products, not
//   five.
#pragma once

#include <bit>
#include <type_traits>
#include <utility>

#include "kernels/attention/31_backward_wgmma.cuh"
#include "warpsmith/ptx/cluster.hpp"

namespace ws::attention {

// What is met, tile after tile, and the heads whose rows it is.
struct WidePlace {
  int head, row;

  __device__ __forceinline__ explicit WidePlace(const BackwardWalk& walk)
      : head(walk.first_head), row(walk.first) {}
  // Whether there is a next tile.
  __device__ __forceinline__ bool advance(const BackwardWalk& walk, int rows) {
    row += rows;
    if (row >= walk.end) {
      row = walk.first;
      ++head;
    }
    return head < walk.end_head;
  }
};

// ---- Two warpgroups of the same rows ------------------------------------------------------------

// A block owns 64 keys, or queries. Both warpgroups do the same: they multiply rows that they own
// by those of one tile, which are scores or gradients of weights, and gather rows of the other tile
// by what they make of it; of queries only the second one does.
//
// In a cluster of two, each block has kDim columns of all rows, and a part of every score: a thread
// sends its own to the thread of the other block that has the same ones, into 16 KB that no one
// else writes.
//
// Long: the roles and their protocol belong on one page, beside the storage they share.
template <class T, bool kOwnsKeys, int kDim_, int kCluster_, class Grid, bool kCapped>
struct WideRowsKernel {
  using Element = T;
  using Walk = typename Grid::Walk;
  using Cut = WideRowsKernel<T, kOwnsKeys, kDim_, kCluster_, CutBackwardGrid, kCapped>;
  static constexpr bool kCanCut = !kCapped && std::is_same_v<Grid, BackwardGrid>;
  static constexpr bool kOfKeys = kOwnsKeys;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kMinBlocks = 1;
  static constexpr int kDim = kDim_;
  static constexpr int kCluster = kCluster_;
  static constexpr bool kTrades = kCluster > 1;
  static_assert(kCluster <= 2);
  static constexpr int kOwn = 64;
  static constexpr int kMet = 64;
  static constexpr int kWarps = 8;  // that multiply
  static constexpr int kThreads = 32 * kWarps + 128;
  static constexpr int kSumsOfThread = kDim / 2;
  static_assert(QueryFacts::kTogether % kMet == 0);
  using Products = BackwardProducts<T, kDim, kOwn, kMet, Grid>;
  using OwnTile = typename Products::OwnTile;
  using Store = tile::WarpStore<T, 1>;
  static_assert(kWarps / 2 * Store::kElements <= OwnTile::kElements);
  using Arguments = BackwardWgmmaArgumentsOf<Grid>;

  // Tiles that are met are copied, and given back, in parts of these columns: whole ones, but where
  // half a tile more than two fit.
  static constexpr int kPartColumns = !kTrades && kDim == 256 ? 128 : kDim;
  static constexpr int kParts = kDim / kPartColumns;
  using Part = HeadTile<T, kMet, kPartColumns>;
  static constexpr uint32_t kFactsBytes = kOwnsKeys ? kMet * sizeof(float) : 0;  // with the first

  // Rows that are met; of queries a number of each, too: q with lse, dout with delta.
  template <int kStages_>
  struct Ring {
    static constexpr int kStages = kStages_;  // parts
    static constexpr int kElements = kStages * Part::kElements;
    using Position = tile::PipelinePosition<kStages>;
    struct Storage {
      SharedArray<float, kOwnsKeys ? kStages * kMet : 4> facts;
      tile::Pipeline<kStages> pipeline;
    };
    T* parts;
    SharedArray<float, kOwnsKeys ? kStages * kMet : 4>& facts;
    tile::Pipeline<kStages>& pipeline;

    __device__ __forceinline__ Ring(T* parts, Storage& storage)
        : parts(parts), facts(storage.facts), pipeline(storage.pipeline) {}

    // The stage `parts` behind another, fewer than there are.
    __device__ __forceinline__ static int stage_behind(int stage, int parts) {
      return stage + parts < kStages ? stage + parts : stage + parts - kStages;
    }
    __device__ __forceinline__ static void advance(Position& at) {
#pragma unroll
      for (int i = 0; i < kParts; ++i) at.advance();
    }
    __device__ __forceinline__ T* part(int stage) const { return parts + stage * Part::kElements; }
    // For the whole tile at `at`.
    __device__ __forceinline__ void wait(Position at) const {
#pragma unroll
      for (int i = 0; i < kParts; ++i, at.advance()) pipeline.wait(at);
    }
    __device__ __forceinline__ void release(int stage) const {
#pragma unroll
      for (int i = 0; i < kParts; ++i) pipeline.release(stage_behind(stage, i));
    }
  };
  // Two tiles; of q a part more, since it is multiplied first and gathered last: a copy that waited
  // for all of the tile before would not be there in time.
  using ScoredRing = Ring<2 * kParts + (kTrades ? 0 : 1)>;
  using ValuedRing = Ring<2 * kParts + (!kTrades && kDim < 256 ? 1 : 0)>;
  // What threads pass on lies in pieces, 16 bytes of a thread side by side.
  static constexpr int kPiece = 128 * 4;                  // words
  static constexpr int kWeightPieces = kMet / 16;         // of a tile's weights, of 16 bits
  static constexpr int kScorePieces = 2 * kWeightPieces;  // of a part of its scores
  static constexpr int kWeights = kWeightPieces * kPiece;
  static constexpr int kScores = kScorePieces * kPiece;
  // Where scores are traded, weights lie where the other block's part of them was.
  static constexpr int kWeightStages = kTrades ? 1 : 2;
  using WeightsPosition = tile::PipelinePosition<kWeightStages>;
  using PartsPosition = tile::PipelinePosition<1>;
  struct SharedStorage {
    // k, v; or q, dout. In the end rows of sums on their way to memory.
    SharedArray<T, OwnTile::kElements, 1024> own[2];
    SharedArray<T, ScoredRing::kElements, 1024> scored_parts;  // q; or k
    SharedArray<T, ValuedRing::kElements, 1024> valued_parts;  // dout; or v
    SharedArray<uint32_t, kTrades ? 2 * kScores : kWeightStages * kWeights, 16> passed;
    typename ScoredRing::Storage scored;
    typename ValuedRing::Storage valued;
    tile::Pipeline<1> own_ring[2];
    tile::Pipeline<kWeightStages> weights_ring;
    tile::Pipeline<1> parts_ring[2];
    SharedArray<Walk, Products::kPacked ? kWarps : 1> walks;
  };
  static_assert(sizeof(SharedStorage) <= 227 * 1024, "shared memory of a block");
  __device__ __forceinline__ static ScoredRing scored_of(SharedStorage& shared) {
    return {shared.scored_parts.pointer(0), shared.scored};
  }
  __device__ __forceinline__ static ValuedRing valued_of(SharedStorage& shared) {
    return {shared.valued_parts.pointer(0), shared.valued};
  }

  __device__ __forceinline__ static int first_column() {
    return kTrades ? cluster_rank() * kDim : 0;
  }
  __device__ __forceinline__ static SharedSpan<uint32_t> parts_of(SharedStorage& shared, int role) {
    return {shared.passed.pointer(role * kScores), kScores};
  }
  // A warp's walk, where it is seldom asked: of packed sequences it is held in shared memory, for
  // registers are dear.
  __device__ __forceinline__ static void keep(SharedStorage& shared, const Walk& walk, int warp) {
    if constexpr (Products::kPacked) {
      if (lane_index() == 0) shared.walks[warp] = walk;
      ptx::syncwarp();
    }
  }
  __device__ __forceinline__ static Walk kept(SharedStorage& shared, const Walk& walk) {
    if constexpr (Products::kPacked) {
      return shared.walks[warp_index() % kWarps];
    } else {
      return walk;
    }
  }
  // Of this thread in a piece.
  __device__ __forceinline__ static int words_at(int piece) {
    return piece * kPiece + thread_index() % 128 * 4;
  }

  // One thread.
  __device__ __forceinline__ static void copy(SharedStorage& shared, const Arguments& a,
                                              const Walk& walk) {
    const int first_column = WideRowsKernel::first_column();
    const auto& of_queries = a.grid.facts_in(walk, a.facts);
    const auto load_own = [&](int i, const ptx::TensorMap& map) {
      OwnTile::load(shared.own[i].pointer(0), map, shared.own_ring[i].acquire({}, OwnTile::kBytes),
                    Products::kPacked, Products::own_place(walk), walk.row, first_column);
    };
    const auto load_met = [&](const auto& ring, auto& at, const ptx::TensorMap& map,
                              const float* facts, const WidePlace& place) {
#pragma unroll
      for (int part = 0; part < kParts; ++part, at.advance()) {
        const bool has_facts = kOwnsKeys && part == 0;
        ptx::Mbarrier& full =
            ring.pipeline.acquire(at, Part::kBytes + (has_facts ? kFactsBytes : 0));
        Part::load(ring.part(at.stage), map, full, Products::kPacked,
                   Products::met_place(walk, place.head), place.row,
                   first_column + part * kPartColumns);
        if (!has_facts) continue;
        const int64_t of_head = int64_t{walk.batch} * a.grid.met_heads + place.head;
        ptx::bulk_load(ring.facts.pointer(at.stage * kMet),
                       facts + of_head * a.facts.rows + place.row, kFactsBytes, full);
      }
    };
    typename ScoredRing::Position at_scored;
    typename ValuedRing::Position at_valued;
    WidePlace place(walk);
    bool first = true;
    do {
      if (first) load_own(0, a.own_scored);
      load_met(scored_of(shared), at_scored, a.met_scored, of_queries.lse, place);
      if (first) load_own(1, a.own_valued);
      load_met(valued_of(shared), at_valued, a.met_valued, of_queries.deltas, place);
      first = false;
    } while (place.advance(walk, kMet));
  }

  // A warpgroup that has scores, and gathers dv; or their gradients, and gathers dk or dq.
  template <bool kHasScores>
  struct Consumer {
    using Scores = typename Products::Scores;
    using Packed = typename Products::Packed;
    static constexpr int kMine = kHasScores ? 0 : 1;  // what it multiplies; it gathers the other's
    static constexpr bool kGathers = kOwnsKeys || !kHasScores;

    SharedStorage& shared;
    const Arguments& a;
    const Walk& walk;

    // The ring of tiles that are multiplied, and of those that are gathered.
    using Multiplied = std::conditional_t<kHasScores, ScoredRing, ValuedRing>;
    using Gathered = std::conditional_t<kHasScores, ValuedRing, ScoredRing>;
    __device__ __forceinline__ Multiplied multiplied() const {
      if constexpr (kHasScores) {
        return scored_of(shared);
      } else {
        return valued_of(shared);
      }
    }
    __device__ __forceinline__ Gathered gathered() const {
      if constexpr (kHasScores) {
        return valued_of(shared);
      } else {
        return scored_of(shared);
      }
    }

    __device__ __forceinline__ void multiply(Scores& scores, int stage) const {
      const Multiplied ring = multiplied();
      Products::template multiply<kPartColumns>(
          scores, shared.own[kMine].pointer(0),
          [&](int part) { return ring.part(ring.stage_behind(stage, part)); });
    }

    using Sums = typename Products::Sums;
    using PartSums = float[kPartColumns / 2];
    __device__ __forceinline__ static PartSums& part_of(Sums& sums, int part) {
      return reinterpret_cast<PartSums&>(sums[part * kPartColumns / 2]);
    }
    // A group of products for each part.
    template <class Position>
    __device__ __forceinline__ void gather(Sums& sums, Packed& packed, Position at) const {
#pragma unroll
      for (int part = 0; part < kParts; ++part, at.advance()) {
        gathered().pipeline.wait(at);
        Products::template gather<kPartColumns>(part_of(sums, part), packed,
                                                gathered().part(at.stage));
      }
    }
    // ... of which one comes after the other, before scores that are under way.
    __device__ __forceinline__ void give_back(Sums& sums, int stage) const {
      [&]<int... kPart>(std::integer_sequence<int, kPart...>) {
        ((ptx::wgmma_wait_group<kParts - kPart>(part_of(sums, kPart)),
          lane_index() == 0 ? gathered().pipeline.release(gathered().stage_behind(stage, kPart))
                            : void()),
         ...);
      }(std::make_integer_sequence<int, kParts>());
    }

    // scores: what this block's columns make of them, to which the other's part is added.
    __device__ __forceinline__ void trade(Scores& scores, PartsPosition& at) const {
      tile::Pipeline<1>& ring = shared.parts_ring[kMine];
      const SharedSpan<uint32_t> parts = parts_of(shared, kMine);
      const int peer = cluster_rank() ^ 1;
      const uint32_t full = ptx::map_shared_rank(&ring.full[0], peer);
      // Who reads there lets go of it here.
      ptx::mbarrier_wait_parity<kPartsScope<kMine>>(ring.empty[0], at.parity ^ 1);
#pragma unroll
      for (int i = 0; i < kScorePieces; ++i) {
        ptx::st_async(
            ptx::map_shared_rank(parts.pointer(words_at(i)), peer),
            Vec<float, 4>{scores[i * 4], scores[i * 4 + 1], scores[i * 4 + 2], scores[i * 4 + 3]},
            full);
      }
      if (thread_index() % 128 == 0) {
        ptx::mbarrier_arrive_expect_tx(ring.full[0], kScores * sizeof(float));
      }
      ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(ring.full[0], at.parity);
#pragma unroll
      for (int i = 0; i < kScorePieces; ++i) {
        const auto four = parts.template load<4>(words_at(i));
#pragma unroll
        for (int j = 0; j < 4; ++j) scores[i * 4 + j] += std::bit_cast<float>(four[j]);
      }
      if constexpr (!kHasScores) let_go_of_parts<1>();
      at.advance();
    }
    // Where scores were, weights have been written, which the other block has to see.
    template <int kOf>
    static constexpr ptx::Scope kPartsScope = kOf == 0 ? ptx::Scope::kCluster : ptx::Scope::kCta;
    // By the warpgroup of gradients, of its own and, once it has the weights there, of scores'.
    template <int kOf>
    __device__ __forceinline__ void let_go_of_parts() const {
      ptx::syncwarp();
      if (lane_index() == 0) {
        shared.parts_ring[kOf].template release<kPartsScope<kOf>>(0, cluster_rank() ^ 1);
      }
    }

    // Numbers of the queries that the thread has scores of: of keys two of each eight columns.
    struct Facts {
      float of[kOwnsKeys ? kMet / 4 : 2];
    };
    __device__ __forceinline__ void load(Facts& facts, int stage) const {
      if constexpr (kOwnsKeys) {
        const SharedSpan<float> of_tile{multiplied().facts.pointer(stage * kMet), kMet};
#pragma unroll
        for (int i = 0; i < kMet / 4; i += 2) {
          const auto two = of_tile.template load<2>(i * 4 + Products::column_of_thread());
          facts.of[i] = two[0];
          facts.of[i + 1] = two[1];
        }
      }
    }
    // f(i, score, number of its query) for all.
    template <class F>
    __device__ __forceinline__ static void change(Scores& scores, const Facts& facts, F&& f) {
#pragma unroll
      for (int i = 0; i < kMet / 2; ++i) {
        scores[i] = f(i, scores[i], facts.of[kOwnsKeys ? i / 4 * 2 + i % 2 : i / 2 % 2]);
      }
    }

    __device__ __forceinline__ SharedSpan<uint32_t> weights_at(int stage) const {
      return {shared.passed.pointer(stage * kWeights), kWeights};
    }
    __device__ __forceinline__ void give(const Packed& packed, const WeightsPosition& at) const {
      shared.weights_ring.wait_free(at);
      const SharedSpan<uint32_t> to = weights_at(at.stage);
#pragma unroll
      for (int i = 0; i < kWeightPieces; ++i) {
        to.template store<4>(words_at(i), Vec<uint32_t, 4>{packed[i * 4], packed[i * 4 + 1],
                                                           packed[i * 4 + 2], packed[i * 4 + 3]});
      }
      shared.weights_ring.fill(at.stage);
    }
    __device__ __forceinline__ void take(Packed& packed, const WeightsPosition& at) const {
      shared.weights_ring.wait(at);
      const SharedSpan<uint32_t> from = weights_at(at.stage);
#pragma unroll
      for (int i = 0; i < kWeightPieces; ++i) {
        const auto four = from.template load<4>(words_at(i));
#pragma unroll
        for (int j = 0; j < 4; ++j) packed[i * 4 + j] = four[j];
      }
      shared.weights_ring.release(at.stage);
      if constexpr (kTrades) let_go_of_parts<0>();
    }

    // What is gathered by: weights, which the other warpgroup is given, under a softcap times the
    // slopes.
    __device__ __forceinline__ void make_weights(Packed& packed, Scores& scores, const Facts& lse,
                                                 int row, const SeenTogether& whole,
                                                 const WeightsPosition& at) const {
      const BackwardScores<kCapped> of_scores(a);
      [[maybe_unused]] Scores slopes;
      change(scores, lse, [&](int i, float score, float of_query) {
        if constexpr (kCapped) return of_scores.weight(score, of_query, slopes[i]);
        return of_scores.with_slope(score, of_query);
      });
      if (row < whole.whole_first || row + kMet > whole.whole_end) {
        Products::hide(scores, a.grid, kept(shared, walk), walk.row, row);
      }
      if constexpr (kCapped) {
        Packed with_slopes;
        Products::pack_both(packed, with_slopes, scores, slopes);
        give(with_slopes, at);
      } else {
        pack_weights<T>(scores, packed);
        give(packed, at);
      }
    }
    // ... or weights times (gradients - deltas).
    __device__ __forceinline__ static void make_gradients(Packed& packed, Scores& gradients,
                                                          const Facts& deltas,
                                                          const Packed& weights) {
      change(gradients, deltas, [&](int i, float gradient, float delta) {
        return BackwardScores<kCapped>::gradient(Products::unpacked(weights, i), gradient, delta);
      });
      pack_weights<T>(gradients, packed);
    }

    __device__ __forceinline__ void gather_all(Sums& sums) {
      Facts facts;

      if constexpr (!kOwnsKeys) {
        const auto& of_queries = a.grid.facts_in(walk, a.facts);
        Products::load(facts.of, kHasScores ? of_queries.lse : of_queries.deltas, a, walk,
                       walk.row);
      }
      const SeenTogether whole = Products::seen_by_all(a.grid, walk, walk.row);
      typename Multiplied::Position at;
      typename Gathered::Position at_gathered;
      WeightsPosition at_weights;
      PartsPosition at_parts;
      WidePlace place(walk);
      Scores scores;
      if constexpr (kGathers) ptx::wgmma_pin(sums);
      shared.own_ring[kMine].wait({});
      multiplied().wait(at);
      multiply(scores, at.stage);
      for (bool more = true; more;) {
        const int stage = at.stage;
        // What is there before the products are.
        load(facts, stage);
        Packed weights;
        if constexpr (!kHasScores && !kTrades) take(weights, at_weights);
        ptx::wgmma_wait_group<0>(scores);
        if constexpr (kTrades) trade(scores, at_parts);
        if constexpr (!kHasScores && kTrades) take(weights, at_weights);
        Packed packed;
        if constexpr (kHasScores) {
          make_weights(packed, scores, facts, place.row, whole, at_weights);
        } else {
          make_gradients(packed, scores, facts, weights);
        }
        multiplied().release(stage);  // each lane, which has read what came with the tile
        if constexpr (kGathers) gather(sums, packed, at_gathered);
        Multiplied::advance(at);
        at_weights.advance();
        more = place.advance(walk, kMet);
        // Behind the last tile any once more, for nobody: what is under way should not depend on a
        // branch, else the compiler lets products wait for each other.
        if (more) multiplied().wait(at);
        multiply(scores, more ? at.stage : stage);
        if constexpr (kGathers) {
          give_back(sums, at_gathered.stage);
          Gathered::advance(at_gathered);
        }
      }
      ptx::wgmma_wait_group<0>(scores);
    }
  };

  template <bool kHasScores>
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& a,
                                                 const Walk& walk, int warp) {
    using Mine = Consumer<kHasScores>;
    keep(shared, walk, warp);
    typename Products::Sums sums = {};
    if (walk.first_head < walk.end_head) Mine{shared, a, walk}.gather_all(sums);
    if constexpr (Mine::kGathers) {
      if constexpr (kIsCut<Grid>) {
        if (!a.grid.template complete<kWarps, kCluster>(warp, sums)) return;
      }
      ptx::barrier_sync(1 + Mine::kMine, 128);  // nobody multiplies own rows any more
      Store store{shared.own[Mine::kMine].pointer(warp % 4 * Store::kElements)};
      const bool is_dv = kOwnsKeys && kHasScores;
      const Walk place = kept(shared, walk);
      Products::store(store, is_dv ? a.valued_sums : a.scored_sums, sums, is_dv ? 1.0F : a.scale, a,
                      place, place.row + warp % 4 * 16, first_column());
      store.finish();
    }
  }

  // The other block's memory is in use: it must have begun, and must not be gone.
  __device__ __forceinline__ static void meet() {
    if constexpr (kTrades) {
      ptx::syncwarp();  // the arrival is one instruction for the warp
      ptx::cluster_arrive_relaxed();
      ptx::cluster_wait();
    } else {
      ptx::barrier_sync();
    }
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    // Broadcast, so that the compiler knows it to be the same in all lanes.
    const auto warp =
        static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0));
    if (thread_index() == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        shared.own_ring[i].init(1);
        shared.parts_ring[i].init(kWarps / 2);
      }
      // Who multiplies lets go by lanes, who gathers by warps.
      shared.scored.pipeline.init(128 + kWarps / 2);
      shared.valued.pipeline.init(kOwnsKeys ? 128 + kWarps / 2 : 128);
      shared.weights_ring.init(128, 128);
      ptx::fence_mbarrier_init();
    }
    meet();
    const Walk walk = a.grid.same_in_all_lanes(
        a.grid.template walk<kOwnsKeys, kOwn, kMet>(block_index() / kCluster));
    if (warp >= kWarps) {
      ptx::setmaxnreg_dec<24>();
      if (warp == kWarps && walk.first_head < walk.end_head && ptx::elect_sync()) {
        copy(shared, a, walk);
      }
    } else {
      ptx::setmaxnreg_inc<240>();
      if (warp < kWarps / 2) {
        consume<true>(shared, a, walk, warp);
      } else {
        consume<false>(shared, a, walk, warp);
      }
    }
    if constexpr (kTrades) meet();
  }
};

// ---- Two warpgroups of 64 queries each ----------------------------------------------------------

// Of up to 256 columns: each has the sums of dq alone.
template <class T, int kDim_, class Grid, bool kCapped>
struct WideQueriesKernel {
  using Element = T;
  using Walk = typename Grid::Walk;
  using Cut = WideQueriesKernel<T, kDim_, CutBackwardGrid, kCapped>;
  static constexpr bool kCanCut = !kCapped && std::is_same_v<Grid, BackwardGrid>;
  static constexpr bool kOfKeys = false;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kMinBlocks = 1;
  static constexpr int kCluster = 1;
  static constexpr int kDim = kDim_;
  static constexpr int kOwn = 128;
  static constexpr int kMet = 64;
  static constexpr int kWarps = 8;  // that multiply
  static constexpr int kThreads = 32 * kWarps + 128;
  static constexpr int kSumsOfThread = kDim / 2;
  static_assert(QueryFacts::kTogether % kOwn == 0);
  using Products = BackwardProducts<T, kDim, kOwn, kMet, Grid>;
  using OwnTile = typename Products::OwnTile;
  using MetTile = typename Products::MetTile;
  using Store = tile::WarpStore<T, 1>;
  // k is read when scores are made and again when they are gathered; v once.
  using KeysPosition = tile::PipelinePosition<2>;
  using ValuesPosition = tile::PipelinePosition<1>;
  using Arguments = BackwardWgmmaArgumentsOf<Grid>;

  struct SharedStorage {
    SharedArray<T, OwnTile::kElements, 1024> own[2];  // q, dout
    union {
      SharedArray<T, 2 * MetTile::kElements, 1024> keys;
      SharedArray<T, kWarps * Store::kElements, 1024> sums;  // in the end
    };
    SharedArray<T, MetTile::kElements, 1024> values;
    tile::Pipeline<1> own_ring[2];
    tile::Pipeline<2> keys_ring;
    tile::Pipeline<1> values_ring;
  };
  static_assert(sizeof(SharedStorage) <= 227 * 1024, "shared memory of a block");

  // One thread.
  __device__ __forceinline__ static void copy(SharedStorage& shared, const Arguments& a,
                                              const Walk& walk) {
    const auto copy_own = [&](int i, const ptx::TensorMap& map) {
      OwnTile::load(shared.own[i].pointer(0), map, shared.own_ring[i].acquire({}, OwnTile::kBytes),
                    Products::kPacked, Products::own_place(walk), walk.row);
    };
    KeysPosition of_keys;
    ValuesPosition of_values;
    WidePlace place(walk);
    bool first = true;
    do {
      const HeadPlace head = Products::met_place(walk, place.head);
      if (first) copy_own(0, a.own_scored);
      MetTile::load(shared.keys.pointer(of_keys.stage * MetTile::kElements), a.met_scored,
                    shared.keys_ring.acquire(of_keys, MetTile::kBytes), Products::kPacked, head,
                    place.row);
      if (first) copy_own(1, a.own_valued);
      MetTile::load(shared.values.pointer(0), a.met_valued,
                    shared.values_ring.acquire(of_values, MetTile::kBytes), Products::kPacked, head,
                    place.row);
      of_keys.advance();
      of_values.advance();
      first = false;
    } while (place.advance(walk, kMet));
  }

  // Of 64 queries from `own` on.
  __device__ __forceinline__ static void gather_all(SharedStorage& shared, const Arguments& a,
                                                    const Walk& walk, int own,
                                                    typename Products::Sums& sums) {
    const BackwardScores<kCapped> of_scores(a);
    float lse[2];
    float deltas[2];
    const auto& of_queries = a.grid.facts_in(walk, a.facts);
    Products::load(lse, of_queries.lse, a, walk, own);
    Products::load(deltas, of_queries.deltas, a, walk, own);
    const SeenTogether whole = Products::seen_by_all(a.grid, walk, own);
    const int own_rows = (own - walk.row) * OwnTile::kPanel;
    const T* const queries = shared.own[0].pointer(own_rows);
    const T* const gradients_of_out = shared.own[1].pointer(own_rows);
    const auto keys = [&](int stage) { return shared.keys.pointer(stage * MetTile::kElements); };
    KeysPosition of_keys;
    ValuesPosition of_values;
    WidePlace place(walk);
    typename Products::Scores scores;
    ptx::wgmma_pin(sums);
    shared.own_ring[0].wait({});
    shared.keys_ring.wait(of_keys);
    Products::multiply(scores, queries, keys(0));
    shared.own_ring[1].wait({});
    for (bool more = true; more;) {
      shared.values_ring.wait(of_values);
      ptx::wgmma_wait_group<0>(scores);
      typename Products::Scores gradients;
      Products::multiply(gradients, gradients_of_out, shared.values.pointer(0));
#pragma unroll
      for (int i = 0; i < kMet / 2; ++i) {
        scores[i] = of_scores.with_slope(scores[i], lse[i / 2 % 2]);
      }
      if (place.row < whole.whole_first || place.row + kMet > whole.whole_end) {
        Products::hide(scores, a.grid, walk, own, place.row);
      }
      typename Products::Packed packed;
      ptx::wgmma_wait_group<0>(gradients);
      if (lane_index() == 0) shared.values_ring.release(0);
#pragma unroll
      for (int i = 0; i < kMet / 2; ++i) {
        gradients[i] = of_scores.gradient(scores[i], gradients[i], deltas[i / 2 % 2]);
      }
      pack_weights<T>(gradients, packed);
      const int stage = of_keys.stage;
      Products::template gather<kDim>(sums, packed, keys(stage));
      of_keys.advance();
      of_values.advance();
      more = place.advance(walk, kMet);
      // As above.
      if (more) shared.keys_ring.wait(of_keys);
      Products::multiply(scores, queries, keys(more ? of_keys.stage : stage));
      ptx::wgmma_wait_group<1>(sums);
      if (lane_index() == 0 && more) shared.keys_ring.release(stage);
    }
    ptx::wgmma_wait_group<0>(scores);
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto warp =
        static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0));
    if (thread_index() == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) shared.own_ring[i].init(1);
      shared.keys_ring.init(kWarps);
      shared.values_ring.init(kWarps);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    const Walk walk = a.grid.same_in_all_lanes(a.grid.template walk<false, kOwn, kMet>());
    const bool sees = walk.first_head < walk.end_head;
    if (warp >= kWarps) {
      ptx::setmaxnreg_dec<24>();
      if (warp == kWarps && sees && ptx::elect_sync()) copy(shared, a, walk);
    } else {
      ptx::setmaxnreg_inc<240>();
      typename Products::Sums sums = {};
      if (sees) gather_all(shared, a, walk, walk.row + warp / 4 * 64, sums);
      if constexpr (kIsCut<Grid>) {
        if (!a.grid.template complete<kWarps, kCluster>(warp, sums)) return;
      }
      // Where keys were, to which the other warpgroup may still be.
      ptx::barrier_sync(1, 32 * kWarps);
      Store store{shared.sums.pointer(warp * Store::kElements)};
      Products::store(store, a.scored_sums, sums, a.scale, a, walk, walk.row + warp * 16);
      store.finish();
    }
  }
};

}  // namespace ws::attention
