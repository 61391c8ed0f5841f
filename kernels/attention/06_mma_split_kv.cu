// Idea: tensor cores. Four warps share 64 queries and split the keys of a tile among them: each has
//   the scores of 64 x 16, and then its columns of what is gathered.
// From tiled: both products by mma.sync; tiles come by cp.async, two of K and two of V.
// Traffic: K and V once for 64 queries. Weights and maxima cross shared memory in each tile, for no
//   warp has a row of scores: 16 KB written and read, and a barrier more.
// Limits: f16; rows of 16-byte pieces, D and Dv multiples of 8 up to 128, a scale above 0; no bias,
//   ALiBi, sinks or softcap, no window but a causal one.
#include "kernels/attention/mma_policies.hpp"

namespace ws::attention {

constexpr Seed kMmaSplitKvSeeds[] = {{.name = "flash_attn_mma_stages_split_kv_acc_f32"}};
extern const Rung kMmaSplitKv;
constinit const Rung kMmaSplitKv =
    rung_of<MmaRung<SplitKeys, kF16Only, 64, 128>, kF16Only, Attention>({
        .name = "mma_split_kv",
        .from = "tiled",
        .idea = "warps split the keys: maxima and weights pass through shared memory",
        .seeds = kMmaSplitKvSeeds,
        .file = "06_mma_split_kv.cu",
    });

constexpr Seed kMmaSplitKvAccF16Seeds[] = {{.name = "flash_attn_mma_stages_split_kv"}};
extern const Rung kMmaSplitKvAccF16;
constinit const Rung kMmaSplitKvAccF16 =
    rung_of<MmaRung<AccF16<SplitKeys>, kF16Only, 64, 128>, kF16Only, Attention>({
        .name = "mma_split_kv_acc_f16",
        .from = "mma_split_kv",
        .idea = "sums of half the registers",
        .accumulate = DType::kF16,
        .seeds = kMmaSplitKvAccF16Seeds,
        .file = "06_mma_split_kv.cu",
    });

}  // namespace ws::attention
