// Idea: no roles. A block is a warpgroup of 64 queries, or two, of which a thread asks for keys and
//   values as many tiles ahead as there is room; several blocks an SM cover one another's waits.
// From wgmma_roles: of a short sequence a tile is all fill and end, of which an SM that one block
//   fills has one at a time; and there are more tiles than SMs to share them.
// Traffic: a block of 64 queries reads all keys and values that they see once, from L2.
// Limits: wgmma_roles', f16 too. Long sequences wait for L2: nobody shares the keys.
#include "kernels/attention/flash.hpp"

namespace ws::attention {
namespace {

// Long: copies, two products and the write of the rows share the tile.
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
    if (thread_index() == 0) {
      ptx::prefetch_tensor_map(g.q);
      ptx::prefetch_tensor_map(g.k);
      ptx::prefetch_tensor_map(g.v);
      ptx::prefetch_tensor_map(g.out);
    }
    const int warp = warp_index();
    uint32_t tiles = 0;
    const FlashTile tile = g.tiles.at(static_cast<uint32_t>(block_index()), tiles);
    if (tile.batch < 0) return;
    if (lane_index() == 0) shared.kept[warp] = tile;  // and not in registers
    const Blocks blocks = Base::blocks_of(g, tile);
    if (thread_index() == 0) begin(shared, g, tile, blocks);
    ptx::barrier_sync();
    Consumer consumer{shared, g, index()};
    float gathered[kDim / 2] = {};
    Softmax softmax{.scale_log2 = g.scale_log2};
    if (blocks.first < blocks.last) attend(consumer, blocks, gathered, softmax);
    T* const staged = Base::kOwnOutput ? shared.out.pointer(0) : shared.q.pointer(0);
    Store store{staged + warp * Store::kElements};
    consumer.store(shared.kept[warp], gathered, softmax, store, false);
    store.finish();
  }

 private:
  // Of the warpgroup, the same in all lanes as the compiler knows.
  __device__ __forceinline__ static int index() {
    if constexpr (kConsumers == 1) return 0;
    return static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0)) /
           4;
  }

  // By one thread: all that there is room for.
  __device__ __forceinline__ static void begin(SharedStorage& shared, const Arguments& g,
                                               const FlashTile& tile, const Blocks& blocks) {
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
#pragma unroll
    for (int i = 0; i < kStages; ++i) {
      if (blocks.first + i < blocks.last) copy(shared, g, tile, blocks.first + i, {i, 0});
    }
  }
  __device__ __forceinline__ static void copy(SharedStorage& shared, const Arguments& g,
                                              const FlashTile& tile, int block,
                                              const Position& at) {
    const bool packed = g.tiles.sequences.packed;
    KTile::load(shared.k.pointer(at.stage * KTile::kElements), g.k,
                shared.k_ring.acquire(at, KTile::kBytes), packed, tile.kv, block * kKeys);
    VTile::load(shared.v.pointer(at.stage * VTile::kElements), g.v,
                shared.v_ring.acquire(at, VTile::kBytes), packed, tile.kv, block * kKeys);
  }

  __device__ __forceinline__ static void attend(Consumer& consumer, const Blocks& blocks,
                                                float (&gathered)[kDim / 2], Softmax& softmax) {
    SharedStorage& shared = consumer.shared;
    const Arguments& g = consumer.g;
    const FlashTile& tile = shared.kept[warp_index()];
    const int keys = tile.keys;
    const int first_row = g.tiles.share_of(tile, consumer.index).first;
    const Blocks mine = Base::blocks_of(g, tile, first_row, 64);
    const int over = first_row + consumer.row_of_thread() + keys - tile.queries;
    shared.q_ring.wait({consumer.index, 0});
    Position at;
    for (int block = blocks.first; block < blocks.last; ++block, at.advance()) {
      consumer.at_k = consumer.at_v = at;
      shared.k_ring.wait(at);
      if (block < mine.first || block >= mine.last) {
        shared.v_ring.wait(at);
        if (lane_index() == 0) shared.k_ring.release(at.stage);
      } else {
        float scores[kKeys / 2];
        consumer.multiply_qk(scores);
        ptx::wgmma_wait_group<0>(scores);
        if (lane_index() == 0) shared.k_ring.release(at.stage);
        consumer.hide(scores, mine, block, over, keys);
        float rescale[2];
        if (softmax.weigh(scores, rescale)) scale_rows(gathered, rescale);
        uint32_t weights[kWeights];
        pack_weights<T>(scores, weights);
        shared.v_ring.wait(at);
        consumer.multiply_pv(gathered, weights);
        ptx::wgmma_wait_group<0>(gathered);
      }
      if (lane_index() == 0) shared.v_ring.release(at.stage);
      // The stage is that of the block that comes kStages later.
      if (thread_index() == 0 && block + kStages < blocks.last) {
        copy(shared, g, shared.kept[0], block + kStages, {at.stage, at.parity ^ 1});
      }
      ptx::syncwarp();
    }
    softmax.finish();
  }
};

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
      } else if (call.queries * call.group() <= 64) {
        run.template operator()<FlashBlocksShort128>();
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
