// Idea: sums in f16: a lane's 128 registers hold what one warp gathers of 512 columns.
// From mma_tiling_qkv: four warps with rows of their own up to D = 512, no exchange; two that share
//   rows at 1024.
// Traffic: as mma_tiling_qk.
// Limits: as mma_split_q, D up to 512, swizzle_qkv_acc_f16 up to 1024. Sums are rounded to 11 bits
//   for each 16 of K. Never chosen.
#include "kernels/attention/mma_policies.hpp"

namespace ws::attention {

constexpr Seed kMmaTilingQkvAccF16Seeds[] = {{.name = "flash_attn_mma_stages_split_q_tiling_qkv"}};
extern const Rung kMmaTilingQkvAccF16;
constinit const Rung kMmaTilingQkvAccF16 =
    rung_of<MmaRung<AccF16<TilingAll<half>>, kF16Only, 256, 512>, kF16Only, Attention>({
        .name = "mma_tiling_qkv_acc_f16",
        .from = "mma_tiling_qkv",
        .idea = "sums of half the registers",
        .accumulate = DType::kF16,
        .seeds = kMmaTilingQkvAccF16Seeds,
        .file = "14_mma_tiling_qkv_acc_f16.cu",
    });

constexpr Seed kMmaTilingQkvSwizzleQAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_tiling_qkv_swizzle_q"}};
extern const Rung kMmaTilingQkvSwizzleQAccF16;
constinit const Rung kMmaTilingQkvSwizzleQAccF16 =
    rung_of<MmaRung<SwizzlingQ<AccF16<TilingAll<half>>>, kF16Only, 512>, kF16Only, Attention>({
        .name = "mma_tiling_qkv_swizzle_q_acc_f16",
        .from = "mma_tiling_qkv_acc_f16",
        .idea = "Q swizzled, not padded",
        .accumulate = DType::kF16,
        .seeds = kMmaTilingQkvSwizzleQAccF16Seeds,
        .file = "14_mma_tiling_qkv_acc_f16.cu",
    });

constexpr Seed kMmaTilingQkvSwizzleQkAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_tiling_qkv_swizzle_qk"}};
extern const Rung kMmaTilingQkvSwizzleQkAccF16;
constinit const Rung kMmaTilingQkvSwizzleQkAccF16 =
    rung_of<MmaRung<SwizzlingQk<AccF16<TilingAll<half>>>, kF16Only, 512>, kF16Only, Attention>({
        .name = "mma_tiling_qkv_swizzle_qk_acc_f16",
        .from = "mma_tiling_qkv_swizzle_q_acc_f16",
        .idea = "Q and K swizzled",
        .accumulate = DType::kF16,
        .seeds = kMmaTilingQkvSwizzleQkAccF16Seeds,
        .file = "14_mma_tiling_qkv_acc_f16.cu",
    });

constexpr Seed kMmaTilingQkvSwizzleQkvAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_tiling_qkv_swizzle_qkv"}};
extern const Rung kMmaTilingQkvSwizzleQkvAccF16;
constinit const Rung kMmaTilingQkvSwizzleQkvAccF16 =
    rung_of<MmaRung<SwizzlingQkv<AccF16<TilingAll<half>>>, kF16Only, 256, 512, 1024>, kF16Only,
            Attention>({
        .name = "mma_tiling_qkv_swizzle_qkv_acc_f16",
        .from = "mma_tiling_qkv_swizzle_qk_acc_f16",
        .idea = "Q, K and V swizzled: no byte of padding",
        .accumulate = DType::kF16,
        .seeds = kMmaTilingQkvSwizzleQkvAccF16Seeds,
        .file = "14_mma_tiling_qkv_acc_f16.cu",
    });

}  // namespace ws::attention
