// Idea: no roles. A block is a warpgroup of 64 queries, whose first thread asks for keys and values
//   as many tiles ahead as there is room; several blocks an SM cover one another's waits.
// From wgmma_roles: of a short sequence a tile is all fill and end, of which an SM that one block
//   fills has one at a time; and there are more tiles than SMs to share them.
// Traffic: a block of 64 queries reads all keys and values that they see once, from L2.
// Limits: wgmma_roles', f16 too. Long sequences wait for L2: nobody shares the keys.
#include "kernels/attention/flash.hpp"

namespace ws::attention {
namespace {

template <class T, class Policy>
struct FlashBlocksKernel : FlashKernel<T, Policy> {
  using Base = FlashKernel<T, Policy>;
  using Base::kConsumers, Base::kDim, Base::kKeys, Base::kStages, Base::kWeights;
  using typename Base::Arguments, typename Base::Blocks, typename Base::Consumer,
      typename Base::KTile, typename Base::Position, typename Base::QTile,
      typename Base::SharedStorage, typename Base::Softmax, typename Base::Store,
      typename Base::VTile;
  static constexpr int kThreads = 128 * kConsumers;

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    g.tiles.sequences.report(block_index() * kThreads + thread_index(), grid_blocks() * kThreads);
    uint32_t tiles = 0;
    const FlashTile tile = g.tiles.at(static_cast<uint32_t>(block_index()), tiles);
    if (tile.batch < 0) return;
    Ahead ahead(g, tile);
    if (thread_index() == 0) ahead.begin(shared);
    ptx::barrier_sync();
    const auto warp =
        static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0));
    Consumer consumer{shared, g, warp / 4};
    float gathered[kDim / 2] = {};
    Softmax softmax{.scale_log2 = g.scale_log2};
    attend(consumer, ahead, gathered, softmax);
    T* const staged = Base::kOwnOutput ? shared.out.pointer(0) : shared.q.pointer(0);
    Store store{staged + warp * Store::kElements};
    consumer.store(tile, gathered, softmax, store, false);
    store.finish();
  }

 private:
  // What the first thread copies, which all hold, so that it is nobody's own branch.
  struct Ahead {
    const Arguments& g;
    const FlashTile& tile;
    Blocks blocks;
    int next;
    Position at{};

    __device__ __forceinline__ Ahead(const Arguments& g, const FlashTile& tile)
        : g(g), tile(tile), blocks(Base::blocks_of(g, tile)), next(blocks.first) {}

    __device__ __forceinline__ void begin(SharedStorage& shared) {
      shared.q_ring.init(1);
      shared.k_ring.init(4 * kConsumers);
      shared.v_ring.init(4 * kConsumers);
      ptx::fence_mbarrier_init();
      if (blocks.first >= blocks.last) return;
#pragma unroll
      for (int consumer = 0; consumer < kConsumers; ++consumer) {
        const TileList::Share share = g.tiles.share_of(tile, consumer);
        QTile::load(shared.q.pointer(consumer * QTile::kElements), g.q,
                    shared.q_ring.acquire({consumer, 0}, QTile::kBytes), g.tiles.sequences.packed,
                    {tile.q.row, share.head, tile.q.last}, share.first);
      }
#pragma unroll 1
      for (int stage = 0; stage < kStages; ++stage) copy(shared);
    }
    // The next block of keys and values, if there is one.
    __device__ __forceinline__ void copy(SharedStorage& shared) {
      if (next >= blocks.last) return;
      const bool packed = g.tiles.sequences.packed;
      KTile::load(shared.k.pointer(at.stage * KTile::kElements), g.k,
                  shared.k_ring.acquire(at, KTile::kBytes), packed, tile.kv, next * kKeys);
      VTile::load(shared.v.pointer(at.stage * VTile::kElements), g.v,
                  shared.v_ring.acquire(at, VTile::kBytes), packed, tile.kv, next * kKeys);
      at.advance();
      ++next;
    }
  };

  __device__ __forceinline__ static void attend(Consumer& consumer, Ahead& ahead,
                                                float (&gathered)[kDim / 2], Softmax& softmax) {
    const Blocks all = ahead.blocks;
    if (all.first >= all.last) return;
    const FlashTile& tile = ahead.tile;
    const int first_row = consumer.g.tiles.share_of(tile, consumer.index).first;
    const Blocks mine = Base::blocks_of(consumer.g, tile, first_row, 64);
    const int over = first_row + consumer.row_of_thread() + tile.keys - tile.queries;
    consumer.shared.q_ring.wait({consumer.index, 0});
    for (int block = all.first; block < all.last; ++block) {
      consumer.shared.k_ring.wait(consumer.at_k);
      if (block < mine.first || block >= mine.last) {
        consumer.release_k();
        consumer.shared.v_ring.wait(consumer.at_v);
      } else {
        float scores[kKeys / 2];
        consumer.multiply_qk(scores);
        ptx::wgmma_wait_group<0>(scores);
        consumer.release_k();
        consumer.hide(scores, mine, block, over, tile.keys);
        float rescale[2];
        if (softmax.weigh(scores, rescale)) scale_rows(gathered, rescale);
        uint32_t weights[kWeights];
        pack_weights<T>(scores, weights);
        consumer.shared.v_ring.wait(consumer.at_v);
        consumer.multiply_pv(gathered, weights);
        ptx::wgmma_wait_group<0>(gathered);
      }
      consumer.release_v();
      if (thread_index() == 0) ahead.copy(consumer.shared);
      ptx::syncwarp();
    }
    softmax.finish();
  }
};

// Rule of the rung.
struct WgmmaBlocks {
  static constexpr int64_t kMostDim = 128;
  static bool supports(const auto& call, Why& why) { return flash_supports(call, kMostDim, why); }
  static void run(const auto& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      const auto run = [&]<class Policy>() {
        using Kernel = FlashBlocksKernel<T, Policy>;
        Kernel::template run<Kernel>(call, "attention/wgmma_blocks", context);
      };
      if (columns_of(call) <= 64) {
        run.template operator()<FlashBlocks64>();
      } else {
        run.template operator()<FlashBlocks128>();
      }
    });
  }
};

}  // namespace

extern const Rung kWgmmaBlocks;
constinit const Rung kWgmmaBlocks = rung_of<WgmmaBlocks, kHalves, Attention, AttentionVarlen>({
    .name = "wgmma_blocks",
    .from = "wgmma_roles",
    .idea =
        "no roles: a warpgroup copies for itself, several blocks an SM hide one another's waits",
    .arch = Arch::kSm90a,
});

}  // namespace ws::attention
