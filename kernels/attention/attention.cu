// The table of the attention family: its rungs in teaching order, and which to prefer.
#include "kernels/attention/01_naive.cuh"
#include "kernels/attention/02_materialized.cuh"
#include "kernels/attention/03_online.cuh"
#include "kernels/attention/04_tiled.cuh"
#include "kernels/attention/05_any.cuh"
#include "kernels/attention/15_mma_flash.cuh"
#include "kernels/attention/22_wide_heads.cuh"
#include "kernels/attention/23_merge_naive.cuh"
#include "kernels/attention/24_merge_vector.cuh"
#include "kernels/attention/26_backward_naive.cuh"
#include "kernels/attention/27_backward_any.cuh"
#include "kernels/attention/33_ring_any.cuh"
#include "kernels/attention/35_append_naive.cuh"
#include "kernels/attention/36_append_vector.cuh"
#include "kernels/attention/operations.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::attention {

extern const Rung kMmaSplitKv, kMmaSplitKvAccF16, kMmaSplitQ, kMmaSplitQAccF16, kMmaSharedKv,
    kMmaSharedKvRr, kMmaSharedKvOneBuffer, kMmaSharedKvAccF16, kMmaSharedKvSwizzleQAccF16,
    kMmaSharedKvSwizzleQkAccF16, kMmaSharedKvSwizzleQkvAccF16, kMmaSharedQkv, kMmaSharedQkvRr,
    kMmaSharedQkvAccF16, kMmaSharedQkvSwizzleQAccF16, kMmaSharedQkvSwizzleQkAccF16,
    kMmaSharedQkvSwizzleQkvAccF16, kMmaSharedQkvOutAccF16, kMmaTilingQk, kMmaTilingQkAccF16,
    kMmaTilingQkSwizzleQAccF16, kMmaTilingQkSwizzleQkAccF16, kMmaTilingQkSwizzleQkvAccF16,
    kMmaTilingQkv, kMmaTilingQkvSwizzleQ, kMmaTilingQkvSwizzleQk, kMmaTilingQkvSwizzleQkv,
    kMmaTilingQkvAccF16, kMmaTilingQkvSwizzleQAccF16, kMmaTilingQkvSwizzleQkAccF16,
    kMmaTilingQkvSwizzleQkvAccF16;
extern const Rung kMmaFlash;
extern const Rung kWgmmaRoles, kWgmmaOverlap, kWgmmaTurns, kWgmmaPersistent, kWgmmaLazy,
    kWgmmaSpeculative;
extern const Rung kWideHeads;
extern const Rung kWgmmaE4m3;
extern const Rung kBackwardMma, kBackwardMmaAtomic, kBackwardWgmma, kBackwardWgmmaAtomic,
    kBackwardWideHeads;
extern const Rung kRingWgmma;
extern const Rung kSplitKv, kSplitKvE4m3, kSplitKvMla, kSplitKvMlaWgmma, kSplitKvTransposed;
extern const Rung kThreeTf32, kBackwardThreeTf32;
extern const Rung kWgmmaBlocks;

namespace {

constexpr Operation kOperations[] = {
    operation_of<Attention>(),         operation_of<AttentionVarlen>(),
    operation_of<ScaledAttention>(),   operation_of<MergeAttnStates>(),
    operation_of<AttentionBackward>(), operation_of<AttentionVarlenBackward>(),
    operation_of<RingAttentionStep>(), operation_of<AppendKv>()};

constexpr const Rung* kRungs[] = {
    &kNaive,
    &kMaterialized,
    &kOnline,
    &kTiled,
    &kAny,
    &kMmaSplitKv,
    &kMmaSplitKvAccF16,
    &kMmaSplitQ,
    &kMmaSplitQAccF16,
    &kMmaSharedKv,
    &kMmaSharedKvRr,
    &kMmaSharedKvOneBuffer,
    &kMmaSharedKvAccF16,
    &kMmaSharedKvSwizzleQAccF16,
    &kMmaSharedKvSwizzleQkAccF16,
    &kMmaSharedKvSwizzleQkvAccF16,
    &kMmaSharedQkv,
    &kMmaSharedQkvRr,
    &kMmaSharedQkvAccF16,
    &kMmaSharedQkvSwizzleQAccF16,
    &kMmaSharedQkvSwizzleQkAccF16,
    &kMmaSharedQkvSwizzleQkvAccF16,
    &kMmaSharedQkvOutAccF16,
    &kMmaTilingQk,
    &kMmaTilingQkAccF16,
    &kMmaTilingQkSwizzleQAccF16,
    &kMmaTilingQkSwizzleQkAccF16,
    &kMmaTilingQkSwizzleQkvAccF16,
    &kMmaTilingQkv,
    &kMmaTilingQkvSwizzleQ,
    &kMmaTilingQkvSwizzleQk,
    &kMmaTilingQkvSwizzleQkv,
    &kMmaTilingQkvAccF16,
    &kMmaTilingQkvSwizzleQAccF16,
    &kMmaTilingQkvSwizzleQkAccF16,
    &kMmaTilingQkvSwizzleQkvAccF16,
    &kMmaFlash,
    &kWgmmaRoles,
    &kWgmmaOverlap,
    &kWgmmaTurns,
    &kWgmmaPersistent,
    &kWgmmaLazy,
    &kWgmmaSpeculative,
    &kWideHeads,
    &kMergeNaive,
    &kMergeVector,
    &kWgmmaE4m3,
    &kBackwardNaive,
    &kBackwardAny,
    &kBackwardMma,
    &kBackwardMmaAtomic,
    &kBackwardWgmma,
    &kBackwardWgmmaAtomic,
    &kBackwardWideHeads,
    &kRingAny,
    &kRingWgmma,
    &kSplitKv,
    &kAppendNaive,
    &kAppendVector,
    &kSplitKvE4m3,
    &kSplitKvMla,
    &kSplitKvMlaWgmma,
    &kSplitKvTransposed,
    &kThreeTf32,
    &kBackwardThreeTf32,
    &kWgmmaBlocks,
};

// Whether keys are what there is to read: their rows are read once or twice, and queries fill no
// tile of the rungs that share out queries.
bool is_few(const Call& call) { return call.queries * call.group() <= 64; }

// Whether so many sequences and heads have a block for each SM that their keys, of one tile or a
// few, need not be shared out. H200 2026-12-02, bf16, us, by wgmma_speculative and by split_kv: 64
// x 8 heads of 64 queries and 512 keys 32.6, 44.4; 64 keys 22.3, 27.0; 128 x 16 of 128 columns 74,
// 143; 4 x 32 heads over 8 of 16 queries and keys 10.8, 12.2; 8 of 17 8.6, 9.8. Of 16 x 8 heads and
// 2048 keys 27.3, 28.3.
bool has_short_keys(const Call& call) {
  constexpr int64_t kTile = 128;
  const bool fills = call.group() == 1 && call.batch * call.heads >= device_facts().multiprocessors;
  return call.queries >= 16 && (call.keys <= kTile || (fills && call.keys <= 8 * kTile));
}

// Whether a block has done all that it has to do before another would have begun to overlap it.
// H200 2026-12-03, us, by wgmma_blocks and by wgmma_speculative: 32 x 12 heads of 197, 64 columns,
// 33.1, 37.5; 16 x 16 of 256 24.3, 26.3; 16 x 12 of 512 48.5, 41.9; causal, 8 x 12 of 256 13.1,
// 16.5, 16 x 12 of 512 35.4, 34.7. 128 columns: 8 x 16 of 256 20.3, 23.4; causal, 8 x 32 over 8 of
// 256 26.3, 25.6.
bool is_short(const Call& call) {
  const bool wide = std::max(call.head_dim, call.value_dim) > 64;
  return call.keys <= (wide && call.window.is_causal() ? 128 : 256);
}

// Whether rows are wide, and tiles of 64 queries of a head, as wide_heads has, nearly empty.
bool is_few_and_wide(const Call& call) {
  return std::max(call.head_dim, call.value_dim) > 256 && call.queries <= 16;
}

}  // namespace

std::span<const Rung* const> Attention::by_worth(const Call& call) {
  static constexpr const Rung* kOrder[] = {
      &kWgmmaSpeculative, &kWideHeads, &kMmaFlash, &kMmaTilingQkvSwizzleQkv,
      &kThreeTf32,        &kTiled,     &kAny};
  static constexpr const Rung* kFew[] = {&kSplitKvTransposed, &kSplitKv,  &kWgmmaSpeculative,
                                         &kWideHeads,         &kMmaFlash, &kMmaTilingQkvSwizzleQkv,
                                         &kThreeTf32,         &kTiled,    &kAny};
  static constexpr const Rung* kFewWide[] = {
      &kSplitKvMlaWgmma, &kSplitKvMla, &kWideHeads, &kMmaTilingQkvSwizzleQkv,
      &kThreeTf32,       &kTiled,      &kAny};
  static constexpr const Rung* kBlocks[] = {&kWgmmaBlocks,
                                            &kWgmmaSpeculative,
                                            &kWideHeads,
                                            &kMmaFlash,
                                            &kMmaTilingQkvSwizzleQkv,
                                            &kThreeTf32,
                                            &kTiled,
                                            &kAny};
  if (is_few_and_wide(call)) return kFewWide;
  if (is_few(call) && !has_short_keys(call)) return kFew;
  if (is_few(call) || is_short(call)) return kBlocks;
  return kOrder;
}

std::span<const Rung* const> AttentionVarlen::by_worth(const Call& call) {
  static constexpr const Rung* kOrder[] = {&kWgmmaSpeculative, &kMmaFlash,  &kSplitKvMlaWgmma,
                                           &kSplitKvMla,       &kThreeTf32, &kAny};
  static constexpr const Rung* kFew[] = {
      &kSplitKvTransposed, &kSplitKv,    &kWgmmaSpeculative, &kMmaFlash,
      &kSplitKvMlaWgmma,   &kSplitKvMla, &kThreeTf32,        &kAny};
  static constexpr const Rung* kOf8Bits[] = {&kSplitKvTransposed, &kSplitKvE4m3, &kAny};
  if (call.has_kv_of_8_bits) return kOf8Bits;
  return is_few(call) ? std::span<const Rung* const>(kFew) : kOrder;
}

std::span<const Rung* const> ScaledAttention::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kOrder[] = {&kWgmmaE4m3, &kAny};
  return kOrder;
}

std::span<const Rung* const> AttentionBackward::by_worth(const Call& call) {
  // H200 2026-12-03, us, by backward_mma and by backward_wgmma_atomic: 64 x 8 heads of 64, 64
  // columns, 39.6, 44.5; 256 x 4 of 49, 32 columns, 66.2, 74.4; 128 x 16 of 64, 128 columns, 178.9,
  // 210.9. Of 128 53.4, 40.6.
  static constexpr const Rung* kOneTile[] = {&kBackwardMma, &kBackwardWgmma, &kBackwardWideHeads,
                                             &kBackwardThreeTf32, &kBackwardAny};
  if (std::max(call.queries, call.keys) <= 64) return kOneTile;
  static constexpr const Rung* kOrder[] = {&kBackwardWgmmaAtomic, &kBackwardWgmma,
                                           &kBackwardWideHeads,   &kBackwardMma,
                                           &kBackwardThreeTf32,   &kBackwardAny};
  return std::span(kOrder).subspan(call.deterministic ? 1 : 0);
}

std::span<const Rung* const> AttentionVarlenBackward::by_worth(const Call& call) {
  static constexpr const Rung* kOrder[] = {&kBackwardWgmmaAtomic, &kBackwardWgmma,
                                           &kBackwardWideHeads,   &kBackwardMma,
                                           &kBackwardThreeTf32,   &kBackwardAny};
  return std::span(kOrder).subspan(call.deterministic ? 1 : 0);
}

std::span<const Rung* const> RingAttentionStep::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kOrder[] = {&kRingWgmma, &kRingAny};
  return kOrder;
}

std::span<const Rung* const> AppendKv::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kOrder[] = {&kAppendVector, &kAppendNaive};
  return kOrder;
}

extern const Family kFamily;
constinit const Family kFamily{
    .name = "attention",
    .summary = "softmax(q k^T) v, with the softmax never in memory",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::attention
