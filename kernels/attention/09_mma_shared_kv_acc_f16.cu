// Idea: sums in f16, two in a register; and, one operand after the other, chunks of rows change
//   places, where 16 bytes of padding kept the eight rows of an ldmatrix in different banks.
// From mma_shared_kv_rr: a D of 128 has its sums in 32 registers of a lane, not 64. Swizzled tiles
//   are a ninth smaller at 64 columns, and a permuted place is an address in a register.
// Traffic: as mma_split_q.
// Limits: as mma_split_q; of swizzle_q and swizzle_qk D up to 64. Sums are rounded to 11 bits for
//   each 16 of K. Never chosen.
#include "kernels/attention/mma_policies.hpp"

namespace ws::attention {

constexpr Seed kMmaSharedKvAccF16Seeds[] = {{.name = "flash_attn_mma_stages_split_q_shared_kv"}};
extern const Rung kMmaSharedKvAccF16;
constinit const Rung kMmaSharedKvAccF16 =
    rung_of<MmaRung<AccF16<SharedKeysValues>, kF16Only, 64, 128>, kF16Only, Attention>({
        .name = "mma_shared_kv_acc_f16",
        .from = "mma_shared_kv_rr",
        .idea = "sums of half the registers",
        .accumulate = DType::kF16,
        .seeds = kMmaSharedKvAccF16Seeds,
        .file = "09_mma_shared_kv_acc_f16.cu",
    });

constexpr Seed kMmaSharedKvSwizzleQAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_shared_kv_swizzle_q"}};
extern const Rung kMmaSharedKvSwizzleQAccF16;
constinit const Rung kMmaSharedKvSwizzleQAccF16 =
    rung_of<MmaRung<SwizzlingQ<AccF16<SharedKeysValues>>, kF16Only, 64>, kF16Only, Attention>({
        .name = "mma_shared_kv_swizzle_q_acc_f16",
        .from = "mma_shared_kv_acc_f16",
        .idea = "Q swizzled, not padded",
        .accumulate = DType::kF16,
        .seeds = kMmaSharedKvSwizzleQAccF16Seeds,
        .file = "09_mma_shared_kv_acc_f16.cu",
    });

constexpr Seed kMmaSharedKvSwizzleQkAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_shared_kv_swizzle_qk"}};
extern const Rung kMmaSharedKvSwizzleQkAccF16;
constinit const Rung kMmaSharedKvSwizzleQkAccF16 =
    rung_of<MmaRung<SwizzlingQk<AccF16<SharedKeysValues>>, kF16Only, 64>, kF16Only, Attention>({
        .name = "mma_shared_kv_swizzle_qk_acc_f16",
        .from = "mma_shared_kv_swizzle_q_acc_f16",
        .idea = "Q and K swizzled",
        .accumulate = DType::kF16,
        .seeds = kMmaSharedKvSwizzleQkAccF16Seeds,
        .file = "09_mma_shared_kv_acc_f16.cu",
    });

constexpr Seed kMmaSharedKvSwizzleQkvAccF16Seeds[] = {
    {.name = "flash_attn_mma_stages_split_q_shared_kv_swizzle_qkv"}};
extern const Rung kMmaSharedKvSwizzleQkvAccF16;
constinit const Rung kMmaSharedKvSwizzleQkvAccF16 =
    rung_of<MmaRung<SwizzlingQkv<AccF16<SharedKeysValues>>, kF16Only, 64, 128>, kF16Only,
            Attention>({
        .name = "mma_shared_kv_swizzle_qkv_acc_f16",
        .from = "mma_shared_kv_swizzle_qk_acc_f16",
        .idea = "Q, K and V swizzled: no byte of padding",
        .accumulate = DType::kF16,
        .seeds = kMmaSharedKvSwizzleQkvAccF16Seeds,
        .file = "09_mma_shared_kv_acc_f16.cu",
    });

}  // namespace ws::attention
