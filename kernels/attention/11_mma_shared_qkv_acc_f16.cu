// Idea: sums in f16, two in a register; swizzled tiles; and the output through shared memory, which
//   neighbouring lanes write in whole lines, 16 bytes each.
// From mma_shared_qkv_rr: half the registers of sums; one more change a row.
// Traffic: as mma_split_q.
// Limits: as mma_split_q; of swizzle_q and swizzle_qk D up to 64. Sums are rounded to 11 bits for
//   each 16 of K. Never chosen.
#include "kernels/attention/mma_policies.hpp"

namespace ws::attention {

constexpr Seed kMmaSharedQkvAccF16Seeds[] = {{.name = "flash_attn_mma_stages_split_q_shared_qkv"}};
extern const Rung kMmaSharedQkvAccF16;
constinit const Rung kMmaSharedQkvAccF16 =
    rung_of<MmaRung<AccF16<SharedQueriesKeysValues>, kF16Only, 64, 128>, kF16Only, Attention>({
        .name = "mma_shared_qkv_acc_f16",
        .from = "mma_shared_qkv_rr",
        .idea = "sums of half the registers",
        .accumulate = DType::kF16,
        .seeds = kMmaSharedQkvAccF16Seeds,
        .file = "11_mma_shared_qkv_acc_f16.cu",
    });

constexpr Seed kMmaSharedQkvSwizzleQAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_shared_qkv_swizzle_q"}};
extern const Rung kMmaSharedQkvSwizzleQAccF16;
constinit const Rung kMmaSharedQkvSwizzleQAccF16 =
    rung_of<MmaRung<SwizzlingQ<AccF16<SharedQueriesKeysValues>>, kF16Only, 64>, kF16Only,
            Attention>({
        .name = "mma_shared_qkv_swizzle_q_acc_f16",
        .from = "mma_shared_qkv_acc_f16",
        .idea = "Q swizzled, not padded",
        .accumulate = DType::kF16,
        .seeds = kMmaSharedQkvSwizzleQAccF16Seeds,
        .file = "11_mma_shared_qkv_acc_f16.cu",
    });

constexpr Seed kMmaSharedQkvSwizzleQkAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_shared_qkv_swizzle_qk"}};
extern const Rung kMmaSharedQkvSwizzleQkAccF16;
constinit const Rung kMmaSharedQkvSwizzleQkAccF16 =
    rung_of<MmaRung<SwizzlingQk<AccF16<SharedQueriesKeysValues>>, kF16Only, 64>, kF16Only,
            Attention>({
        .name = "mma_shared_qkv_swizzle_qk_acc_f16",
        .from = "mma_shared_qkv_swizzle_q_acc_f16",
        .idea = "Q and K swizzled",
        .accumulate = DType::kF16,
        .seeds = kMmaSharedQkvSwizzleQkAccF16Seeds,
        .file = "11_mma_shared_qkv_acc_f16.cu",
    });

constexpr Seed kMmaSharedQkvSwizzleQkvAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_shared_qkv_swizzle_qkv"}};
extern const Rung kMmaSharedQkvSwizzleQkvAccF16;
constinit const Rung kMmaSharedQkvSwizzleQkvAccF16 =
    rung_of<MmaRung<SwizzlingQkv<AccF16<SharedQueriesKeysValues>>, kF16Only, 64, 128>, kF16Only,
            Attention>({
        .name = "mma_shared_qkv_swizzle_qkv_acc_f16",
        .from = "mma_shared_qkv_swizzle_qk_acc_f16",
        .idea = "Q, K and V swizzled: no byte of padding",
        .accumulate = DType::kF16,
        .seeds = kMmaSharedQkvSwizzleQkvAccF16Seeds,
        .file = "11_mma_shared_qkv_acc_f16.cu",
    });

constexpr Seed kMmaSharedQkvOutAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_shared_qkv_Os2g"}};
extern const Rung kMmaSharedQkvOutAccF16;
constinit const Rung kMmaSharedQkvOutAccF16 =
    rung_of<MmaRung<OutThroughShared<AccF16<SharedQueriesKeysValues>>, kF16Only, 64, 128>, kF16Only,
            Attention>({
        .name = "mma_shared_qkv_out_acc_f16",
        .from = "mma_shared_qkv_acc_f16",
        .idea = "the output through shared memory: 16 bytes a lane",
        .accumulate = DType::kF16,
        .seeds = kMmaSharedQkvOutAccF16Seeds,
        .file = "11_mma_shared_qkv_acc_f16.cu",
    });

}  // namespace ws::attention
