// Idea: keys and values share a ring of buffers: a tile goes where one was that nobody reads any
//   more, whichever it was.
// From mma_split_q: three buffers where there were two of each, with copies as far ahead as softmax
//   and a product take. One buffer is the least there can be; then blocks wait for what they read.
// Traffic: as mma_split_q.
// Limits: as mma_split_q; of one_buffer D up to 64.
#include "kernels/attention/mma_policies.hpp"

namespace ws::attention {

constexpr Seed kMmaSharedKvSeeds[] = {{.name = "flash_attn_mma_stages_split_q_shared_kv_acc_f32"}};
extern const Rung kMmaSharedKv;
constinit const Rung kMmaSharedKv =
    rung_of<MmaRung<SharedKeysValues, kF16Only, 64, 128>, kF16Only, Attention>({
        .name = "mma_shared_kv",
        .from = "mma_split_q",
        .idea = "K and V share a ring of three buffers",
        .seeds = kMmaSharedKvSeeds,
        .file = "08_mma_shared_kv.cu",
    });

constexpr Seed kMmaSharedKvRrSeeds[] = {
    {.name = "flash_attn_mma_stages_split_q_shared_kv_acc_f32_rr"}};
// Without it a tile's product has registers of its own.
extern const Rung kMmaSharedKvRr;
constinit const Rung kMmaSharedKvRr =
    rung_of<MmaRung<ReusingSums<SharedKeysValues>, kF16Only, 64, 128>, kF16Only, Attention>({
        .name = "mma_shared_kv_rr",
        .from = "mma_shared_kv",
        .idea = "what is gathered is rescaled in place, and products are added to it there",
        .seeds = kMmaSharedKvRrSeeds,
        .file = "08_mma_shared_kv.cu",
    });

// What it is worth that copies are ahead.
extern const Rung kMmaSharedKvOneBuffer;
constinit const Rung kMmaSharedKvOneBuffer =
    rung_of<MmaRung<OneBuffer<ReusingSums<SharedKeysValues>>, kF16Only, 64>, kF16Only, Attention>({
        .name = "mma_shared_kv_one_buffer",
        .from = "mma_shared_kv_rr",
        .idea = "a single buffer: no copy lands while a block multiplies",
        .file = "08_mma_shared_kv.cu",
    });

}  // namespace ws::attention
