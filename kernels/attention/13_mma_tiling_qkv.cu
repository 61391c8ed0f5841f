// Idea: V comes in slices too: shared memory does not grow with D.
// From mma_tiling_qk: what is gathered, the one thing that still grows, is in registers. From 512
//   columns on two or four warps share rows as in mma_split_kv, so that a lane has 128 of them. A
//   ring of four buffers: as one block fills an SM, nothing else hides the copies.
// Traffic: as mma_tiling_qk.
// Limits: as mma_split_q, D up to 512; swizzle_qkv up to 1024, there 32 queries a block, and bf16.
#include "kernels/attention/mma_policies.hpp"

namespace ws::attention {

constexpr Seed kMmaTilingQkvSeeds[] = {
    {.name = "flash_attn_mma_stages_split_q_tiling_qkv_acc_f32"}};
extern const Rung kMmaTilingQkv;
constinit const Rung kMmaTilingQkv =
    rung_of<MmaRung<TilingAll<float>, kF16Only, 256, 512>, kF16Only, Attention>({
        .name = "mma_tiling_qkv",
        .from = "mma_tiling_qk",
        .idea = "V in slices too: shared memory does not grow with D",
        .seeds = kMmaTilingQkvSeeds,
        .file = "13_mma_tiling_qkv.cu",
    });

constexpr Seed kMmaTilingQkvSwizzleQSeeds[] = {
    {.name = "flash_attn_mma_stages_split_q_tiling_qkv_acc_f32_swizzle_q"}};
extern const Rung kMmaTilingQkvSwizzleQ;
constinit const Rung kMmaTilingQkvSwizzleQ =
    rung_of<MmaRung<SwizzlingQ<TilingAll<float>>, kF16Only, 512>, kF16Only, Attention>({
        .name = "mma_tiling_qkv_swizzle_q",
        .from = "mma_tiling_qkv",
        .idea = "Q swizzled, not padded",
        .seeds = kMmaTilingQkvSwizzleQSeeds,
        .file = "13_mma_tiling_qkv.cu",
    });

constexpr Seed kMmaTilingQkvSwizzleQkSeeds[] = {
    {.name = "flash_attn_mma_stages_split_q_tiling_qkv_acc_f32_swizzle_qk"}};
extern const Rung kMmaTilingQkvSwizzleQk;
constinit const Rung kMmaTilingQkvSwizzleQk =
    rung_of<MmaRung<SwizzlingQk<TilingAll<float>>, kF16Only, 512>, kF16Only, Attention>({
        .name = "mma_tiling_qkv_swizzle_qk",
        .from = "mma_tiling_qkv_swizzle_q",
        .idea = "Q and K swizzled",
        .seeds = kMmaTilingQkvSwizzleQkSeeds,
        .file = "13_mma_tiling_qkv.cu",
    });

constexpr Seed kMmaTilingQkvSwizzleQkvSeeds[] = {
    {.name = "flash_attn_mma_stages_split_q_tiling_qkv_acc_f32_swizzle_qkv", .dtypes = kF16Only}};
extern const Rung kMmaTilingQkvSwizzleQkv;
constinit const Rung kMmaTilingQkvSwizzleQkv =
    rung_of<MmaRung<SwizzlingQkv<TilingAll<float>>, kHalves, 256, 512, 1024>, kHalves, Attention>({
        .name = "mma_tiling_qkv_swizzle_qkv",
        .from = "mma_tiling_qkv_swizzle_qk",
        .idea = "Q, K and V swizzled: no byte of padding",
        .seeds = kMmaTilingQkvSwizzleQkvSeeds,
        .file = "13_mma_tiling_qkv.cu",
    });

}  // namespace ws::attention
