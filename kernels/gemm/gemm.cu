// The GEMM family: its operation and its ladder.
#include "catalogue/peers/cublaslt.hpp"
#include "kernels/gemm/01_naive.cuh"
#include "kernels/gemm/02_mma_pipeline.cuh"
#include "kernels/gemm/03_warp_specialized.cuh"

namespace ws::gemm {
namespace {

constexpr Parameter kParameters[] = {
    {.name = "a", .doc = "[M, K], or [K, M] where layout is tn or tt"},
    {.name = "b", .doc = "[K, N], or [N, K] where layout is nt or tt; dtype of a"},
    {.name = "c", .output = true, .doc = "[M, N], dtype of a"},
};

constexpr Attribute kAttributes[] = {
    {.name = "layout",
     .kind = Attribute::Kind::kChoice,
     .standard = 0,
     .choices = kLayouts,
     .doc = "how a and b are stored: n as they are multiplied, t transposed"},
};

constexpr std::string_view kExtentNames[] = {"M", "N", "K"};

constexpr Peer kPeers[] = {peers::kCublasLt};

constexpr Operation kOperations[] = {{
    .name = "gemm",
    .summary = "matrix product, accumulated in f32",
    .source = "Dongarra et al., A Set of Level 3 Basic Linear Algebra Subprograms, 1990",
    .formula = "c[i, j] = sum over k of a[i, k] * b[k, j]",
    .parameters = kParameters,
    .attributes = kAttributes,
    .extent_names = kExtentNames,
    .dtypes = kFloats,
    .torch = "torch.matmul(a.t() if layout[0] == 't' else a, b.t() if layout[1] == 't' else b)",
    .infer = infer,
    .make = make,
    .cost = cost,
    .tolerance = tolerance,
    .items = items,
    .reference = reference,
    .smoke = kSmoke,
    .verify = kVerify,
    .bench = kBench,
    .peers = kPeers,
}};
static_assert(well_formed(kOperations));

constexpr Seed kNaiveSeeds[] = {
    {.name = "sgemm_naive_f32", .dtypes = {DType::kF32}},
    {.name = "hgemm_naive_f16", .dtypes = {DType::kF16}},
};

// Theirs accumulate in f16; ours in f32, at no loss of speed on these rungs. Those with stages but
// no swizzle are answered by the rung that has both. Their "tn" is layout nt.
constexpr Seed kMmaPipelineSeeds[] = {
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_dsmem", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_dsmem_tn", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4x2_stages_dsmem", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4x2_stages_dsmem_rr", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_swizzle", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4x2_stages_dsmem_swizzle", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4x2_stages_dsmem_tn_swizzle_x4",
     .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_stages_block_swizzle_tn_cute", .dtypes = {DType::kF16}},
};

constexpr Rung kRungs[] = {
    {.name = "naive",
     .idea = "a thread computes one element of C",
     .dtypes = kFloats,
     .run = run_naive,
     .seeds = kNaiveSeeds},
    {.name = "mma_pipeline",
     .idea = "mma.sync tensor cores, cp.async stages, swizzled shared memory",
     .dtypes = kHalves,
     .run = run_mma_pipeline,
     .supports = mma_pipeline_supports,
     .seeds = kMmaPipelineSeeds},
    {.name = "warp_specialized",
     .idea = "TMA and wgmma, warpgroups with roles, persistent, clusters of two with multicast",
     .dtypes = kHalves,
     .arch = Arch::kSm90a,
     .run = run_warp_specialized,
     .supports = warp_specialized_supports},
};
static_assert(well_formed(kRungs));

}  // namespace

extern const Family kFamily;
constinit const Family kFamily{
    .name = "gemm",
    .summary = "matrix product C = op(A) op(B)",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::gemm
