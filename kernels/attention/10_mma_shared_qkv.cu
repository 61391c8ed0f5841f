// Idea: queries move into registers once, and their shared memory is that of K and V too.
// From mma_shared_kv: a third less shared memory, and one ldmatrix of five less in the first
//   product: that of Q.
// Traffic: as mma_split_q.
// Limits: as mma_split_q; mma_shared_qkv_rr takes bf16 too.
#include "kernels/attention/mma_policies.hpp"

namespace ws::attention {

constexpr Seed kMmaSharedQkvSeeds[] = {
    {.name = "flash_attn_mma_stages_split_q_shared_qkv_acc_f32"}};
extern const Rung kMmaSharedQkv;
constinit const Rung kMmaSharedQkv =
    rung_of<MmaRung<SharedQueriesKeysValues, kF16Only, 64, 128>, kF16Only, Attention>({
        .name = "mma_shared_qkv",
        .from = "mma_shared_kv",
        .idea = "Q in registers; K and V take its place in shared memory",
        .seeds = kMmaSharedQkvSeeds,
        .file = "10_mma_shared_qkv.cu",
    });

constexpr Seed kMmaSharedQkvRrSeeds[] = {
    {.name = "flash_attn_mma_stages_split_q_shared_qkv_acc_f32_rr", .dtypes = kF16Only}};
extern const Rung kMmaSharedQkvRr;
constinit const Rung kMmaSharedQkvRr =
    rung_of<MmaRung<ReusingSums<SharedQueriesKeysValues>, kHalves, 64, 128>, kHalves, Attention>({
        .name = "mma_shared_qkv_rr",
        .from = "mma_shared_qkv",
        .idea = "what is gathered is rescaled in place, and products are added to it there",
        .seeds = kMmaSharedQkvRrSeeds,
        .file = "10_mma_shared_qkv.cu",
    });

}  // namespace ws::attention
