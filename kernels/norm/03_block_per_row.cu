// The rows of block_per_row and its variants: see 03_block_per_row.cuh.
#include "kernels/norm/03_block_per_row.cuh"

namespace ws::norm {
namespace {

constexpr DTypes kF32Only = {DType::kF32};
constexpr DTypes kF16Only = {DType::kF16};
constexpr std::string_view kFile = "03_block_per_row.cuh";

constexpr Seed kSeeds[] = {
    {.name = "layer_norm_f32", .operation = "layer_norm", .dtypes = kF32Only},
    {.name = "layer_norm_f16_f32", .operation = "layer_norm", .dtypes = kF16Only},
    {.name = "rms_norm_f32", .operation = "rms_norm", .dtypes = kF32Only},
    {.name = "rms_norm_f16_f32", .operation = "rms_norm", .dtypes = kF16Only}};
constexpr Seed kX4Seeds[] = {
    {.name = "layer_norm_f32x4", .operation = "layer_norm", .dtypes = kF32Only},
    {.name = "rms_norm_f32x4", .operation = "rms_norm", .dtypes = kF32Only}};
constexpr Seed kX8Seeds[] = {
    {.name = "rms_norm_f16x8_f32", .operation = "rms_norm", .dtypes = kF16Only}};
constexpr Seed kX8PackSeeds[] = {
    {.name = "layer_norm_f16x8_pack_f32", .operation = "layer_norm", .dtypes = kF16Only},
    {.name = "rms_norm_f16x8_pack_f32", .operation = "rms_norm", .dtypes = kF16Only}};
constexpr Seed kF16Seeds[] = {{.name = "layer_norm_f16_f16", .operation = "layer_norm"},
                              {.name = "rms_norm_f16_f16", .operation = "rms_norm"}};
constexpr Seed kX2F16Seeds[] = {{.name = "layer_norm_f16x2_f16", .operation = "layer_norm"},
                                {.name = "rms_norm_f16x2_f16", .operation = "rms_norm"}};
constexpr Seed kX8F16Seeds[] = {{.name = "layer_norm_f16x8_f16", .operation = "layer_norm"},
                                {.name = "rms_norm_f16x8_f16", .operation = "rms_norm"}};
constexpr Seed kX8PackF16Seeds[] = {
    {.name = "layer_norm_f16x8_pack_f16", .operation = "layer_norm"},
    {.name = "rms_norm_f16x8_pack_f16", .operation = "rms_norm"}};

}  // namespace

extern const Rung kBlockPerRow, kBlockPerRowX4, kBlockPerRowX8, kBlockPerRowX8Pack;
extern const Rung kBlockPerRowAccF16, kBlockPerRowX2AccF16, kBlockPerRowX8AccF16,
    kBlockPerRowX8PackAccF16;

const Rung kBlockPerRow = rung_of<BlockPerRow<1, 1>, LayerNorm, RmsNorm>({
    .name = "block_per_row",
    .from = "warp_per_row",
    .idea = "a block a row, warps merged through shared memory; 1 element an access",
    .seeds = kSeeds,
});
const Rung kBlockPerRowX4 = rung_of<BlockPerRow<4, 4>, LayerNorm, RmsNorm>({
    .name = "block_per_row_x4",
    .from = "block_per_row",
    .idea = "block_per_row with 4 elements an access: 16 bytes of f32",
    .seeds = kX4Seeds,
    .file = kFile,
});
const Rung kBlockPerRowX8 = rung_of<BlockPerRow<8, 2>, kHalves, LayerNorm, RmsNorm>({
    .name = "block_per_row_x8",
    .from = "block_per_row",
    .idea = "block_per_row with 8 elements at a time, in pairs",
    .seeds = kX8Seeds,
    .file = kFile,
});
const Rung kBlockPerRowX8Pack = rung_of<BlockPerRow<8, 8>, kHalves, LayerNorm, RmsNorm>({
    .name = "block_per_row_x8_pack",
    .from = "block_per_row_x8",
    .idea = "block_per_row with 8 elements an access: 16 bytes of f16 or bf16",
    .seeds = kX8PackSeeds,
    .file = kFile,
});
const Rung kBlockPerRowAccF16 = rung_of<BlockPerRow<1, 1, InF16>, kF16Only, LayerNorm, RmsNorm>({
    .name = "block_per_row_acc_f16",
    .from = "block_per_row",
    .idea = "block_per_row that adds up in f16: for callers who accept its errors",
    .seeds = kF16Seeds,
    .file = kFile,
});
const Rung kBlockPerRowX2AccF16 = rung_of<BlockPerRow<2, 2, InF16>, kF16Only, LayerNorm, RmsNorm>({
    .name = "block_per_row_x2_acc_f16",
    .from = "block_per_row_acc_f16",
    .idea = "the same with 2 elements an access",
    .seeds = kX2F16Seeds,
    .file = kFile,
});
const Rung kBlockPerRowX8AccF16 = rung_of<BlockPerRow<8, 2, InF16>, kF16Only, LayerNorm, RmsNorm>({
    .name = "block_per_row_x8_acc_f16",
    .from = "block_per_row_x2_acc_f16",
    .idea = "the same with 8 elements at a time, in pairs",
    .seeds = kX8F16Seeds,
    .file = kFile,
});
const Rung kBlockPerRowX8PackAccF16 =
    rung_of<BlockPerRow<8, 8, InF16>, kF16Only, LayerNorm, RmsNorm>({
        .name = "block_per_row_x8_pack_acc_f16",
        .from = "block_per_row_x8_acc_f16",
        .idea = "the same with 8 elements an access",
        .seeds = kX8PackF16Seeds,
        .file = kFile,
    });

}  // namespace ws::norm
