// Idea: Q and K come in slices of 64 columns, again for each tile of keys: their shared memory does
//   not grow with D. V is whole.
// From mma_shared_kv_rr: 16 KB a slice of both, in a ring of two, at any D.
// Traffic: as mma_split_q, and Q again for each 64 keys, from L2.
// Limits: as mma_split_q, D up to 256, of swizzle_q and swizzle_qk 128. What is gathered is in
//   registers, 64 of a lane; of f32 and 256 columns two warps share rows for that.
#include "kernels/attention/mma_policies.hpp"

namespace ws::attention {

constexpr Seed kMmaTilingQkSeeds[] = {{.name = "flash_attn_mma_stages_split_q_tiling_qk_acc_f32"}};
extern const Rung kMmaTilingQk;
constinit const Rung kMmaTilingQk =
    rung_of<MmaRung<TilingQueriesKeys<float>, kF16Only, 128, 256>, kF16Only, Attention>({
        .name = "mma_tiling_qk",
        .from = "mma_shared_kv_rr",
        .idea = "Q and K in slices of 64 columns",
        .seeds = kMmaTilingQkSeeds,
        .file = "12_mma_tiling_qk.cu",
    });

constexpr Seed kMmaTilingQkAccF16Seeds[] = {{.name = "flash_attn_mma_stages_split_q_tiling_qk"}};
extern const Rung kMmaTilingQkAccF16;
constinit const Rung kMmaTilingQkAccF16 =
    rung_of<MmaRung<AccF16<TilingQueriesKeys<half>>, kF16Only, 128, 256>, kF16Only, Attention>({
        .name = "mma_tiling_qk_acc_f16",
        .from = "mma_tiling_qk",
        .idea = "sums of half the registers",
        .accumulate = DType::kF16,
        .seeds = kMmaTilingQkAccF16Seeds,
        .file = "12_mma_tiling_qk.cu",
    });

constexpr Seed kMmaTilingQkSwizzleQAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_tiling_qk_swizzle_q"}};
extern const Rung kMmaTilingQkSwizzleQAccF16;
constinit const Rung kMmaTilingQkSwizzleQAccF16 =
    rung_of<MmaRung<SwizzlingQ<AccF16<TilingQueriesKeys<half>>>, kF16Only, 128>, kF16Only,
            Attention>({
        .name = "mma_tiling_qk_swizzle_q_acc_f16",
        .from = "mma_tiling_qk_acc_f16",
        .idea = "Q swizzled, not padded",
        .accumulate = DType::kF16,
        .seeds = kMmaTilingQkSwizzleQAccF16Seeds,
        .file = "12_mma_tiling_qk.cu",
    });

constexpr Seed kMmaTilingQkSwizzleQkAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_tiling_qk_swizzle_qk"}};
extern const Rung kMmaTilingQkSwizzleQkAccF16;
constinit const Rung kMmaTilingQkSwizzleQkAccF16 =
    rung_of<MmaRung<SwizzlingQk<AccF16<TilingQueriesKeys<half>>>, kF16Only, 128>, kF16Only,
            Attention>({
        .name = "mma_tiling_qk_swizzle_qk_acc_f16",
        .from = "mma_tiling_qk_swizzle_q_acc_f16",
        .idea = "Q and K swizzled",
        .accumulate = DType::kF16,
        .seeds = kMmaTilingQkSwizzleQkAccF16Seeds,
        .file = "12_mma_tiling_qk.cu",
    });

constexpr Seed kMmaTilingQkSwizzleQkvAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_tiling_qk_swizzle_qkv"}};
extern const Rung kMmaTilingQkSwizzleQkvAccF16;
constinit const Rung kMmaTilingQkSwizzleQkvAccF16 =
    rung_of<MmaRung<SwizzlingQkv<AccF16<TilingQueriesKeys<half>>>, kF16Only, 128, 256>, kF16Only,
            Attention>({
        .name = "mma_tiling_qk_swizzle_qkv_acc_f16",
        .from = "mma_tiling_qk_swizzle_qk_acc_f16",
        .idea = "Q, K and V swizzled: no byte of padding",
        .accumulate = DType::kF16,
        .seeds = kMmaTilingQkSwizzleQkvAccF16Seeds,
        .file = "12_mma_tiling_qk.cu",
    });

}  // namespace ws::attention
