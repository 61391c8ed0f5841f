// The kernel of the Hopper rungs, which differ in its policy: a warp draws tiles, a warp copies
// (TMA), warpgroups of 64 queries multiply (wgmma); scores, weights and what is gathered stay in
// registers. Values of 8 bits, which wgmma wants by columns, two more warps transpose.
#pragma once

#include "kernels/attention/flash_policies.hpp"
#include "kernels/attention/merge.hpp"
#include "kernels/attention/online_softmax.hpp"
#include "kernels/attention/scales.hpp"
#include "kernels/attention/seen.hpp"
#include "kernels/attention/tile_list.hpp"
#include "kernels/attention/value_transpose.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/tile/pipeline.hpp"
#include "warpsmith/tile/warp_store.hpp"

namespace ws::attention {

// Long: the roles and their protocol belong on one page, beside the storage they share. q, k and v
// of T, the output of Out. kMerges: the output is f32 and holds attention over keys met before,
// with which these are merged, from registers.
template <class T, class Policy, class Out = T, bool kMerges = false>
struct FlashKernel : Policy {
  static_assert(!kMerges || std::is_same_v<Out, float>);
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kMinBlocks = Policy::kBlocks;
  static constexpr int kDim = Policy::kDim;
  static constexpr int kKeys = Policy::kKeys;
  static constexpr int kStages = Policy::kStages;
  static constexpr int kConsumers = Policy::kConsumers;
  static constexpr int kThreads = 128 * (kConsumers + 1);
  using QTile = HeadTile<T, 64, kDim>;  // of a warpgroup
  using KTile = HeadTile<T, kKeys, kDim>;
  using VTile = KTile;
  static constexpr bool kTransposes = sizeof(T) == 1;
  static constexpr int kTransposers = kTransposes ? 2 : 0;  // warps
  using Transpose = ValueTranspose<T, kKeys, kDim>;
  using Softmax = OnlineSoftmax<T, Policy::has(kLazy)>;
  static constexpr int kWeights = kKeys / 2 * static_cast<int>(sizeof(T)) / 4;  // registers
  // Where it fits, the output is staged in memory of its own, and the next queries can come while
  // it is stored; else where the queries were.
  static constexpr int kBufferBytes = 16 * 64 * sizeof(Out);
  static constexpr int kInputBytes = static_cast<int>(
      kConsumers * QTile::kBytes + (kTransposes ? 3 : 2) * kStages * KTile::kBytes);
  static constexpr int kMostBytes = 228 * 1024 / kMinBlocks - 1024;
  static constexpr int kFreeBytes = kMostBytes - kInputBytes - 1024;
  static constexpr int kWantedBytes = kMerges ? 0 : kConsumers * 4 * kBufferBytes;
  static constexpr bool kOwnOutput = kWantedBytes <= kFreeBytes;
  static_assert(kOwnOutput || !kTransposes);
  using WarpStore =
      tile::WarpStore<Out, !kOwnOutput || kDim / 64 * kWantedBytes <= kFreeBytes ? kDim / 64 : 1>;
  struct NoStore {
    static constexpr int kElements = 0;
    Out* buffers;
    __device__ __forceinline__ void finish() const {}
  };
  using Store = std::conditional_t<kMerges, NoStore, WarpStore>;
  using Position = tile::PipelinePosition<kStages>;

  struct MergedRows : Heads {
    int columns;
  };
  struct Arguments {
    ptx::TensorMap q, k, v;
    std::conditional_t<kMerges, MergedRows, ptx::TensorMap> out;
    float* lse;
    int64_t lse_batch, lse_head, lse_row;
    TileList tiles;
    float scale_log2;
    int left, right;  // of the window; below zero: open
    ScalesOf<T> scales;
  };
  struct Transposed {
    SharedArray<T, kStages * VTile::kElements, 1024> values;
    tile::Pipeline<kStages> values_ring;
  };
  struct Untransposed {};
  struct SharedStorage : std::conditional_t<kTransposes, Transposed, Untransposed> {
    SharedArray<T, kConsumers * QTile::kElements, 1024> q;
    SharedArray<T, kStages * KTile::kElements, 1024> k;
    SharedArray<T, kStages * VTile::kElements, 1024> v;
    SharedArray<Out, kOwnOutput && !kMerges ? kConsumers * 4 * Store::kElements : 8, 1024> out;
    SharedArray<FlashTile, 1> tile;
    SharedArray<FlashTile, kConsumers * 4> kept;  // a warp's
    tile::Pipeline<kConsumers> q_ring;            // a stage a warpgroup
    tile::Pipeline<kStages> k_ring;
    tile::Pipeline<kStages> v_ring;
    tile::Pipeline<1> tile_ring;
  };
  static_assert(sizeof(SharedStorage) <= kMostBytes, "shared memory of a block");

  __device__ __forceinline__ static int least(int a, int b) { return a < b ? a : b; }

  // The blocks of keys that some of a tile's queries see, and which of them all of these see whole.
  struct Blocks {
    int first, last;              // exclusive
    int whole_first, whole_last;  // exclusive
  };
  __device__ __forceinline__ static Seen<int> seen_of(const Arguments& g, const FlashTile& tile) {
    return {tile.keys - tile.queries, tile.keys, g.left, g.right};
  }
  // Of `rows` queries from `first_row` on.
  __device__ __forceinline__ static Blocks blocks_of(const Arguments& g, const FlashTile& tile,
                                                     int first_row, int rows) {
    const int last_row = least(first_row + rows, tile.queries) - 1;
    const SeenTogether seen = seen_of(g, tile).together(first_row, last_row);
    return {seen.first / kKeys, divide_up(seen.end, kKeys), divide_up(seen.whole_first, kKeys),
            seen.whole_end / kKeys};
  }
  // Of all the tile's queries: what is copied.
  __device__ __forceinline__ static Blocks blocks_of(const Arguments& g, const FlashTile& tile) {
    return blocks_of(g, tile, tile.first, tile.rows);
  }

  // Calls f(tile) for each of this block's, by whole warps. The next is drawn when all have let go
  // of this one: those who compute as soon as they know it, who copies only when he is done with
  // it, so that no block holds a tile that another could begin.
  template <bool kHolds, class F>
  __device__ __forceinline__ static void for_each_tile(SharedStorage& shared, F&& f) {
    for (tile::PipelinePosition<1> at;; at.advance()) {
      shared.tile_ring.wait(at);
      // Read by each lane from one place, which tells the compiler that all have the same; and each
      // lets go, for compute-sanitizer does not see that one could do so for all.
      const FlashTile tile = shared.tile[0];
      if (!kHolds) shared.tile_ring.release(0);
      ptx::syncwarp();
      if (tile.batch < 0) return;
      f(tile);
      if (kHolds) shared.tile_ring.release(0);
    }
  }

  // ---- The warp that draws tiles ---------------------------------------------------------------

  __device__ __forceinline__ static void draw(SharedStorage& shared, const Arguments& g) {
    const int lane = lane_index();
    bool first = true;
    for (tile::PipelinePosition<1> at;; at.advance(), first = false) {
      shared.tile_ring.wait_free(at);
      auto index = static_cast<uint32_t>(block_index());
      if constexpr (Policy::has(kPersistent)) {
        if (lane == 0) index = g.tiles.draw();
        index = warp::shuffle(index, 0);
      }
      uint32_t tiles = 0;
      FlashTile tile{};
      if (Policy::has(kPersistent) || first) tile = g.tiles.at(index, tiles);
      if (lane == 0) {
        shared.tile[0] = tile;
        shared.tile_ring.fill(0);
        if (Policy::has(kPersistent) && tile.batch < 0) g.tiles.put_back(index, tiles);
      }
      ptx::syncwarp();
      if (tile.batch < 0) return;
    }
  }

  // ---- The warp that copies --------------------------------------------------------------------

  __device__ __forceinline__ static void copy(SharedStorage& shared, const Arguments& g) {
    Position at_k;
    Position at_v;
    uint32_t q_parity = 0;
    for_each_tile<true>(shared, [&](const FlashTile& tile) {
      if (ptx::elect_sync()) copy_tile(shared, g, tile, at_k, at_v, q_parity);
      ptx::syncwarp();
    });
  }

  // One thread: queries, keys and values.
  __device__ __forceinline__ static void copy_tile(SharedStorage& shared, const Arguments& g,
                                                   const FlashTile& tile, Position& at_k,
                                                   Position& at_v, uint32_t& q_parity) {
    const Blocks blocks = blocks_of(g, tile);
    if (blocks.first >= blocks.last) return;
    const bool packed = g.tiles.sequences.packed;
    const auto copy_k = [&](int block) {
      ptx::Mbarrier& full = shared.k_ring.acquire(at_k, KTile::kBytes);
      KTile::load(shared.k.pointer(at_k.stage * KTile::kElements), g.k, full, packed, tile.kv,
                  block * kKeys);
      at_k.advance();
    };
    // The queries wait for those before them; on their way from DRAM they need not.
#pragma unroll
    for (int consumer = 0; consumer < kConsumers; ++consumer) {
      const TileList::Share share = g.tiles.share_of(tile, consumer);
      QTile::prefetch(g.q, packed, {tile.q.row, share.head, tile.q.last}, share.first);
    }
    copy_k(blocks.first);
#pragma unroll
    for (int consumer = 0; consumer < kConsumers; ++consumer) {
      ptx::Mbarrier& full = shared.q_ring.acquire({consumer, q_parity}, QTile::kBytes);
      const TileList::Share share = g.tiles.share_of(tile, consumer);
      QTile::load(shared.q.pointer(consumer * QTile::kElements), g.q, full, packed,
                  {tile.q.row, share.head, tile.q.last}, share.first);
    }
    q_parity ^= 1;
    for (int block = blocks.first; block < blocks.last; ++block) {
      if (block + 1 < blocks.last) copy_k(block + 1);
      ptx::Mbarrier& full = shared.v_ring.acquire(at_v, VTile::kBytes);
      VTile::load(shared.v.pointer(at_v.stage * VTile::kElements), g.v, full, packed, tile.kv,
                  block * kKeys);
      at_v.advance();
    }
  }

  // ---- The warps that transpose values of 8 bits -----------------------------------------------

  __device__ __forceinline__ static void transpose(SharedStorage& shared, const Arguments& g,
                                                   int part) {
    Position at;
    for_each_tile<false>(shared, [&](const FlashTile& tile) {
      const Blocks blocks = blocks_of(g, tile);
      for (int block = blocks.first; block < blocks.last; ++block, at.advance()) {
        shared.v_ring.wait(at);
        shared.values_ring.wait_free(at);
        Transpose::tile(shared.v.pointer(at.stage * VTile::kElements),
                        shared.values.pointer(at.stage * VTile::kElements), part, kTransposers);
        ptx::fence_proxy_async();
        ptx::syncwarp();
        if (lane_index() == 0) {
          shared.v_ring.release(at.stage);
          shared.values_ring.fill(at.stage);
        }
      }
    });
  }

  // ---- A warpgroup of 64 queries ---------------------------------------------------------------

  // Named barriers: 1 ... for turns, 4 ... for a warpgroup to meet.
  __device__ __forceinline__ static void take_turn(int consumer) {
    if constexpr (Policy::has(kTakesTurns)) ptx::barrier_sync(1 + consumer, 256);
  }
  __device__ __forceinline__ static void pass_turn(int consumer) {
    if constexpr (Policy::has(kTakesTurns)) {
      ptx::barrier_arrive(consumer + 1 == kConsumers ? 1 : 2 + consumer, 256);
    }
  }

  struct Consumer {
    SharedStorage& shared;
    const Arguments& g;
    int index;  // of the warpgroup
    Position at_k{};
    Position at_v{};
    uint32_t q_parity = 0;

    // Issues scores = q k^T of the block at at_k.
    __device__ __forceinline__ void multiply_qk(float (&scores)[kKeys / 2]) {
      const uint64_t q = QTile::by_columns(shared.q.pointer(index * QTile::kElements));
      const uint64_t k = KTile::by_columns(shared.k.pointer(at_k.stage * KTile::kElements));
      ptx::wgmma_fence(scores);
#pragma unroll
      for (int column = 0; column < kDim; column += 32 / static_cast<int>(sizeof(T))) {
        ptx::wgmma_32_bytes<kKeys, T, T, ptx::Major::kK, ptx::Major::kK>(
            scores, QTile::column_step(q, column), KTile::column_step(k, column), column > 0);
      }
      ptx::wgmma_commit_group();
    }

    // The lane's own number, which the compiler does not know to be that: so what follows from it
    // is not held in registers from tile to tile.
    __device__ __forceinline__ static int lane_anew() {
      return warp::shuffle(lane_index(), lane_index());
    }

    // The same scores by mma.sync, for one warp alone: where it needs them a second time.
    __device__ __forceinline__ void multiply_again(float (&scores)[kKeys / 2]) const {
      T* const q = shared.q.pointer(index * QTile::kElements);
      T* const k = shared.k.pointer(at_k.stage * KTile::kElements);
      const int lane = lane_anew();
      constexpr int kChunk = 16 / static_cast<int>(sizeof(T));
#pragma unroll
      for (float& score : scores) score = 0;
#pragma unroll 1
      for (int column = 0; column < kDim; column += 2 * kChunk) {
        uint32_t a[4];
        ptx::ldmatrix_x4(
            a, QTile::chunk(q, warp_index() % 4 * 16 + lane % 16, column + lane / 16 * kChunk));
#pragma unroll
        for (int key = 0; key < kKeys; key += 16) {
          ptx::syncwarp();   // no more of them in registers than one
          uint32_t pair[4];  // two times 8 keys
          ptx::ldmatrix_x4(pair, KTile::chunk(k, key + lane / 16 * 8 + lane % 8,
                                              column + lane / 8 % 2 * kChunk));
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            auto& sums = reinterpret_cast<float (&)[4]>(scores[key / 2 + half * 4]);
            const uint32_t b[2] = {pair[half * 2], pair[half * 2 + 1]};
            if constexpr (sizeof(T) == 1) {
              ptx::mma_m16n8k32<T>(sums, a, b, sums);
            } else {
              ptx::mma_m16n8k16<T>(sums, a, b, sums);
            }
          }
        }
      }
      ptx::syncwarp();  // the keys are released by one lane
    }

    // Issues gathered += weights v of the block at at_v.
    __device__ __forceinline__ void multiply_pv(float (&gathered)[kDim / 2],
                                                uint32_t (&weights)[kWeights]) {
      ptx::wgmma_fence(gathered, weights);
      if constexpr (kTransposes) {
        using Tile = typename Transpose::To;
        const uint64_t v = Tile::by_columns(shared.values.pointer(at_v.stage * Tile::kElements));
#pragma unroll
        for (int key = 0; key < kKeys; key += 32) {
          const auto& a = reinterpret_cast<const uint32_t (&)[4]>(weights[key / 8]);
          ptx::wgmma_m64k32<kDim, T, T>(gathered, a, Tile::column_step(v, key), true);
        }
      } else {
        const uint64_t v = VTile::by_rows(shared.v.pointer(at_v.stage * VTile::kElements));
#pragma unroll
        for (int row = 0; row < kKeys; row += 16) {
          const auto& a = reinterpret_cast<const uint32_t (&)[4]>(weights[row / 4]);
          ptx::wgmma_m64k16<kDim, T, ptx::Major::kMN>(gathered, a, VTile::row_step(v, row), true);
        }
      }
      ptx::wgmma_commit_group();
    }

    // By each warp: one may multiply keys again when the others have done so, or pass by a block
    // that the others have passed long ago.
    __device__ __forceinline__ void release_k() {
      if (lane_index() == 0) shared.k_ring.release(at_k.stage);
      at_k.advance();
    }
    // Of the values as they are multiplied.
    __device__ __forceinline__ auto& values_ring() const {
      if constexpr (kTransposes) {
        return shared.values_ring;
      } else {
        return shared.v_ring;
      }
    }
    __device__ __forceinline__ void release_v() {
      if (lane_index() == 0) values_ring().release(at_v.stage);
      at_v.advance();
    }

    // Hides what a query does not see of a block that not all see whole. `over` is the key that
    // this thread's first row stands over.
    __device__ __forceinline__ void hide(float (&scores)[kKeys / 2], const Blocks& blocks,
                                         int block, int over, int keys) const {
      if (block >= blocks.whole_first && block < blocks.whole_last) return;
      const Seen<int> seen{0, keys, g.left, g.right};
      const int column = lane_anew() % 4 * 2 + block * kKeys;
      SeenColumns columns[2];
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const int here = over + row * 8;
        columns[row] = {seen.first(here) - column, seen.end(here) - column};
      }
      Softmax::hide(scores, columns);
    }
    __device__ __forceinline__ int row_of_thread() const {
      return warp_index() % 4 * 16 + lane_anew() / 4;
    }

    __device__ __forceinline__ auto scales_of(const FlashTile& tile) const {
      return g.scales.of(tile.batch, g.tiles.share_of(tile, index).head, tile.kv.head);
    }

    // The tile's blocks that this warpgroup sees; others of the tile see more. False: there are
    // none at all.
    __device__ __forceinline__ bool attend(const FlashTile& tile, float (&gathered)[kDim / 2],
                                           Softmax& softmax) {
      const Blocks all = blocks_of(g, tile);
      if (all.first >= all.last) return false;
      const int first_row = g.tiles.share_of(tile, index).first;
      Blocks mine = blocks_of(g, tile, first_row, 64);
      if (first_row >= tile.queries || mine.first >= mine.last) mine.first = mine.last = all.first;
      if (g.left >= 0) pass_by(mine.first - all.first);
      shared.q_ring.wait({index, q_parity});
      q_parity ^= 1;
      if (mine.first < mine.last) {
        const int over = first_row + row_of_thread() + tile.keys - tile.queries;
        attend(mine, over, tile.keys, gathered, softmax);
      } else {
        release_q();
      }
      pass_by(all.last - mine.last);
      return true;
    }
    // Lets go of so many blocks, each when it has come, so that phases stay in step.
    __device__ __forceinline__ void pass_by(int blocks) {
      for (; blocks > 0; --blocks) {
        take_turn(index);
        pass_turn(index);
        shared.k_ring.wait(at_k);
        release_k();
        values_ring().wait(at_v);
        release_v();
      }
    }

    __device__ __forceinline__ void attend(const Blocks& blocks, int over, int keys,
                                           float (&gathered)[kDim / 2], Softmax& softmax) {
      float scores[kKeys / 2];
      uint32_t weights[kWeights];
      float rescale[2];
      int block = blocks.first;
      shared.k_ring.wait(at_k);
      take_turn(index);
      multiply_qk(scores);
      pass_turn(index);
      ptx::wgmma_wait_group<0>(scores);
      release_k();
      hide(scores, blocks, block, over, keys);
      softmax.weigh(scores, rescale);
      pack_weights<T>(scores, weights);
      while (++block < blocks.last) {
        shared.k_ring.wait(at_k);
        take_turn(index);
        if constexpr (Policy::has(kOverlaps)) {
          multiply_qk(scores);
          values_ring().wait(at_v);
          multiply_pv(gathered, weights);
          pass_turn(index);
          ptx::wgmma_wait_group<1>(scores);
        } else {
          values_ring().wait(at_v);
          multiply_pv(gathered, weights);
          multiply_qk(scores);
          pass_turn(index);
          ptx::wgmma_wait_group<0>(scores);
        }
        bool weighed = false;
        if constexpr (Policy::has(kSpeculates)) {
          if (block > blocks.whole_first && block < blocks.whole_last) {
            weighed = softmax.weigh_as_before(scores);
            if (!weighed) {
              ptx::wgmma_wait_group<0>(gathered);  // so that the old weights need no registers
              multiply_again(scores);
            }
          }
        }
        if (!weighed) {
          hide(scores, blocks, block, over, keys);
          const bool moves = softmax.weigh(scores, rescale);
          ptx::wgmma_wait_group<0>(gathered);
          if (moves) scale_rows(gathered, rescale);
        }
        release_k();
        if (block == blocks.last - 1) release_q();
        ptx::wgmma_wait_group<0>(gathered);
        release_v();
        pack_weights<T>(scores, weights);
      }
      if (blocks.last - blocks.first == 1) release_q();
      values_ring().wait(at_v);
      multiply_pv(gathered, weights);
      ptx::wgmma_wait_group<0>(gathered);
      release_v();
      softmax.finish();
    }

    // All products with the queries are done: where they are not in the output's way, the next may
    // come.
    __device__ __forceinline__ void release_q() {
      if (kOwnOutput && lane_index() == 0) shared.q_ring.release(index);
    }

    // Merges both rows of a thread with what is there: 4 threads have 32 bytes of a row side by
    // side, which is what memory moves.
    __device__ __forceinline__ void merge(const FlashTile& tile, const float (&gathered)[kDim / 2],
                                          const Softmax& softmax) const {
      const TileList::Share share = g.tiles.share_of(tile, index);
      const int lane = lane_anew();
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int query = share.first + row_of_thread() + i * 8;
        float* const lse =
            g.lse + tile.batch * g.lse_batch + share.head * g.lse_head + query * g.lse_row;
        float met = 0;
        if (query < tile.queries) met = thread::load(lse);
        ptx::syncwarp();  // all four have read it before one writes
        if (query >= tile.queries) continue;
        const float own = softmax.log_sum(i);
        if (own == -thread::kInfinity && met > own) continue;  // there is nothing new
        const MergeWeights weights = MergeWeights::of(met, own);
        const float of_own = weights.b * softmax.share(i);
        const int column = lane % 4 * 2;
        float* const out = g.out.template at<float>(tile.batch, share.head, query) + column;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          if (n * 8 + column >= g.out.columns) continue;
          Vec<float, 2> both{};
          if (weights.a != 0) both = thread::load<2>(out + n * 8);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            both[e] = both[e] * weights.a + gathered[n * 4 + i * 2 + e] * of_own;
          }
          thread::store(out + n * 8, both);
        }
        if (lane % 4 == 0) thread::store(lse, weights.lse);
      }
    }

    __device__ __forceinline__ void store(const FlashTile& tile, float (&gathered)[kDim / 2],
                                          const Softmax& softmax, Store& store, bool copied) {
      float of_values = 1;
      if constexpr (kTransposes) {
        const auto scales = scales_of(tile);
        if (!scales.are_right) return;
        of_values = scales.values;
      }
      scale_rows(gathered, {softmax.share(0) * of_values, softmax.share(1) * of_values});
      if (!kOwnOutput)
        ptx::barrier_sync(4 + index, 128);  // all warps have multiplied their queries
      const TileList::Share share = g.tiles.share_of(tile, index);
      const int origin = g.tiles.sequences.packed ? static_cast<int>(g.tiles.sequences.queries) : 0;
      const int row = origin + tile.q.row + share.first + warp_index() % 4 * 16;
#pragma unroll
      for (int column = 0; column < kDim; column += 64) {
        store.stage_and(gathered + column / 2, [&](const Out* staged) {
          ptx::tensor_store_4d(g.out, column, row, share.head, tile.q.last, staged);
        });
      }
      if (!kOwnOutput && copied && lane_index() == 0) {
        ptx::bulk_wait_group_read<0>();
        shared.q_ring.release(index);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int query = share.first + row_of_thread() + i * 8;
        if (lane_index() % 4 != 0 || query >= tile.queries) continue;
        thread::store(g.lse + tile.batch * g.lse_batch + share.head * g.lse_head +
                          (tile.lse + query) * g.lse_row,
                      softmax.log_sum(i));
      }
    }
  };

  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& g,
                                                 int warp) {
    Consumer consumer{shared, g, warp / 4};
    Store store{kOwnOutput ? shared.out.pointer(warp * Store::kElements)
                           : reinterpret_cast<Out*>(shared.q.pointer(warp * Store::kElements))};
    if (consumer.index == kConsumers - 1) pass_turn(consumer.index);
    for_each_tile<false>(shared, [&](const FlashTile& tile) {
      if (lane_index() == 0) shared.kept[warp] = tile;  // and not in registers
      ptx::syncwarp();
      float gathered[kDim / 2] = {};
      Softmax softmax{.scale_log2 = g.scale_log2};
      if constexpr (kTransposes) softmax.scale_log2 *= consumer.scales_of(tile).products;
      const bool copied = consumer.attend(tile, gathered, softmax);
      if constexpr (kMerges) {
        consumer.merge(shared.kept[warp], gathered, softmax);
      } else {
        consumer.store(shared.kept[warp], gathered, softmax, store, copied);
      }
    });
    if (consumer.index == 0) take_turn(0);  // nobody leaves a turn behind
    store.finish();
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    // Broadcast, so that the compiler knows it to be the same in all lanes.
    const auto warp =
        static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0));
    if (thread_index() == 0) {
      ptx::prefetch_tensor_map(g.q);
      ptx::prefetch_tensor_map(g.k);
      ptx::prefetch_tensor_map(g.v);
      if constexpr (!kMerges) ptx::prefetch_tensor_map(g.out);
      shared.q_ring.init(4);
      shared.k_ring.init(4 * kConsumers);
      if constexpr (kTransposes) {
        shared.v_ring.init(kTransposers);
        shared.values_ring.init(4 * kConsumers, kTransposers);
      } else {
        shared.v_ring.init(4 * kConsumers);
      }
      shared.tile_ring.init((4 * kConsumers + 1 + kTransposers) * kWarpSize);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp < 4) {
      ptx::setmaxnreg_dec<Policy::template kProducerRegisters<kTransposes>>();
      if (warp == 0) copy(shared, g);
      if (warp == 1) draw(shared, g);
      if (warp == 2) {
        const int64_t index = block_index() * kWarpSize + lane_index();
        const int64_t threads = grid_blocks() * kWarpSize;
        g.tiles.sequences.report(index, threads);
        if constexpr (kTransposes) g.scales.report(index, threads);
      }
      if constexpr (kTransposes) {
        if (warp >= 2) transpose(shared, g, warp - 2);
      }
    } else {
      ptx::setmaxnreg_inc<Policy::template kConsumerRegisters<kTransposes>>();
      consume(shared, g, warp - 4);
    }
  }

  static auto output_of(const Call& call, int64_t queries, bool packed) {
    if constexpr (kMerges) {
      return MergedRows{call.out, static_cast<int>(call.value_dim)};
    } else {
      return head_map<Out>(call.out, call.value_dim, queries, call.heads, call.batch, packed, 16,
                           false);
    }
  }

  // As the kernel of another name, which derives from this.
  template <class Named = FlashKernel, class AnyCall>
  static void run(const AnyCall& call, const char* rung, const Context& context) {
    const TileList list(call, 64, kConsumers, rung, context.workspace);
    const int64_t blocks = Policy::has(kPersistent)
                               ? std::min<int64_t>(list.most(), device_facts().multiprocessors)
                               : list.most();
    const bool packed = list.sequences.packed;
    const int64_t queries = list.sequences.queries;
    const int64_t keys = list.sequences.keys;
    launch<Named>({.blocks = blocks, .threads = Named::kThreads}, context.stream,
                  {.q = head_map<T>(call.q, call.head_dim, queries, call.heads, call.batch, packed,
                                    64, true, kDim),
                   .k = head_map<T>(call.k, call.head_dim, keys, call.kv_heads, call.batch, packed,
                                    kKeys, true, kDim),
                   .v = head_map<T>(call.v, call.value_dim, keys, call.kv_heads, call.batch, packed,
                                    kKeys, true, kDim),
                   .out = output_of(call, queries, packed),
                   .lse = call.lse.template as<float>(),
                   .lse_batch = call.lse.batch,
                   .lse_head = call.lse.head,
                   .lse_row = call.lse.row,
                   .tiles = list,
                   .scale_log2 = call.scale * thread::kLog2E,
                   .left = static_cast<int>(call.window.left),
                   .right = static_cast<int>(call.window.right),
                   .scales = ScalesOf<T>(call, rung)});
  }
};

}  // namespace ws::attention
