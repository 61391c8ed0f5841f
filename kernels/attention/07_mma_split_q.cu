// Idea: a warp has whole rows. Its 16 queries meet all keys of a tile: a row of scores lies in four
//   lanes, whose maximum two shuffles find, and scores become the left operand of the second
//   product in the registers where they are.
// From mma_split_kv: no weights in shared memory and no barriers but those of the copies.
// Traffic: as mma_split_kv; each warp reads all of K and V from shared memory, 512 bytes for two
//   products of 16 x 8 x 16.
// Limits: as mma_split_kv.
#include "kernels/attention/mma_policies.hpp"

namespace ws::attention {

constexpr Seed kMmaSplitQSeeds[] = {{.name = "flash_attn_mma_stages_split_q_acc_f32"}};
extern const Rung kMmaSplitQ;
constinit const Rung kMmaSplitQ =
    rung_of<MmaRung<SplitQueries, kF16Only, 64, 128>, kF16Only, Attention>({
        .name = "mma_split_q",
        .from = "mma_split_kv",
        .idea = "a warp has 16 rows: softmax by shuffles, weights stay in registers",
        .seeds = kMmaSplitQSeeds,
        .file = "07_mma_split_q.cu",
    });

constexpr Seed kMmaSplitQAccF16Seeds[] = {{.name = "flash_attn_mma_stages_split_q"}};
extern const Rung kMmaSplitQAccF16;
constinit const Rung kMmaSplitQAccF16 =
    rung_of<MmaRung<AccF16<SplitQueries>, kF16Only, 64, 128>, kF16Only, Attention>({
        .name = "mma_split_q_acc_f16",
        .from = "mma_split_q",
        .idea = "sums of half the registers",
        .accumulate = DType::kF16,
        .seeds = kMmaSplitQAccF16Seeds,
        .file = "07_mma_split_q.cu",
    });

}  // namespace ws::attention
