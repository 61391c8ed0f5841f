// The table of the GEMM family.
#include "kernels/gemm/01_naive.cuh"
#include "kernels/gemm/02_any_layout.cuh"
#include "kernels/gemm/03_sliced_k.cuh"
#include "kernels/gemm/04_register_tile.cuh"
#include "kernels/gemm/05_conflict_free.cuh"
#include "kernels/gemm/06_double_buffer.cuh"
#include "kernels/gemm/07_async_copy.cuh"
#include "kernels/gemm/10_wide_load.cuh"
#include "kernels/gemm/11_async_convert.cuh"
#include "kernels/gemm/12_acc_f16.cuh"
#include "kernels/gemm/13_wmma_naive.cuh"
#include "kernels/gemm/14_wmma_shared.cuh"
#include "kernels/gemm/15_wmma_tile.cuh"
#include "kernels/gemm/16_wmma_stages.cuh"
#include "kernels/gemm/17_wmma_tall.cuh"
#include "kernels/gemm/18_wmma_acc_f16.cuh"
#include "kernels/gemm/19_wmma_tf32.cuh"
#include "kernels/gemm/20_mma_naive.cuh"
#include "kernels/gemm/21_mma_tile.cuh"
#include "kernels/gemm/22_mma_ldmatrix.cuh"
#include "kernels/gemm/23_mma_stages.cuh"
#include "kernels/gemm/24_mma_swizzle.cuh"
#include "kernels/gemm/25_mma_bands.cuh"
#include "kernels/gemm/27_mma_acc_f16.cuh"
#include "kernels/gemm/29_wgmma_tile.cuh"
#include "kernels/gemm/30_wgmma_stages.cuh"
#include "kernels/gemm/31_wgmma_roles.cuh"
#include "kernels/gemm/32_wgmma_wide.cuh"
#include "kernels/gemm/33_wgmma_persistent.cuh"
#include "kernels/gemm/34_wgmma_multicast.cuh"
#include "kernels/gemm/41_batched_naive.cuh"
#include "kernels/gemm/42_batched_any_layout.cuh"
#include "kernels/gemm/batched_plan.hpp"
#include "kernels/gemm/direct_plan.hpp"
#include "kernels/gemm/operations.hpp"
#include "kernels/gemm/plan.hpp"

namespace ws::gemm {

extern const Rung kWarpTile;
extern const Rung kCopyEngine;
extern const Rung kMmaPipeline;
extern const Rung kWarpSpecialized;
extern const Rung kSplitK;
extern const Rung kStreamK;
extern const Rung kRealigned;
extern const Rung kThin;
extern const Rung kBatchedWarpTile;
extern const Rung kBatchedWgmma;
extern const Rung kWgmmaTf32;
extern const Rung kCute;
extern const Rung kPingpong;
extern const Rung kThreeTf32;
extern const Rung kBatchedThreeTf32;
extern const Rung kBatchedRealigned;
extern const Rung kSplitClusters;
extern const Rung kShifted;
extern const Rung kBatchedTurns;
extern const Rung kBatchedShifted;
extern const Rung kMmaDirect;
extern const Rung kBatchedTf32;
extern const Rung kBatchedMma;
extern const Rung kWgmmaTf32Rs;
extern const Rung kBatchedTf32Rs;
extern const Rung kSplitThreeTf32;
extern const Rung kSplitTf32;
extern const Rung kBatchedThreeTf32Rs;

namespace {

constexpr Operation kOperations[] = {operation_of<Gemm>(), operation_of<Bmm>()};

constexpr const Rung* kRungs[] = {
    &kNaive,        &kAnyLayout,        &kSlicedK,          &kRegisterTile,   &kConflictFree,
    &kDoubleBuffer, &kAsyncCopy,        &kWarpTile,         &kCopyEngine,     &kWideLoad,
    &kAsyncConvert, &kAccF16,           &kWmmaNaive,        &kWmmaShared,     &kWmmaTile,
    &kWmmaStages,   &kWmmaTall,         &kWmmaAccF16,       &kWmmaTf32,       &kMmaNaive,
    &kMmaTile,      &kMmaLdmatrix,      &kMmaStages,        &kMmaSwizzle,     &kMmaBands,
    &kCute,         &kMmaAccF16,        &kMmaPipeline,      &kWgmmaTile,      &kWgmmaStages,
    &kWgmmaRoles,   &kWgmmaWide,        &kWgmmaPersistent,  &kWgmmaMulticast, &kWarpSpecialized,
    &kSplitK,       &kStreamK,          &kRealigned,        &kThin,           &kWgmmaTf32,
    &kBatchedNaive, &kBatchedAnyLayout, &kBatchedWarpTile,  &kBatchedWgmma,   &kPingpong,
    &kThreeTf32,    &kBatchedThreeTf32, &kBatchedRealigned, &kSplitClusters,  &kShifted,
    &kBatchedTurns, &kBatchedShifted,   &kMmaDirect,        &kBatchedTf32,    &kBatchedMma,
    &kWgmmaTf32Rs,  &kBatchedTf32Rs,    &kSplitThreeTf32,   &kSplitTf32,      &kBatchedThreeTf32Rs,
};

}  // namespace

// Each takes what those before it leave: f32 on the CUDA cores, the 16-bit types on tensor cores.
// Plain matrices whose rows start anywhere: double_buffer, 1.27 of warp_tile at 4097 x 4095 x 4099;
// what may be cut to TF32, wgmma_tf32 where its copies pay, or wgmma_tf32_rs, which has fewer.
std::span<const Rung* const> Gemm::by_worth(const Call& call) {
  static constexpr const Rung* kF32[] = {&kThin,     &kThreeTf32, &kCopyEngine, &kDoubleBuffer,
                                         &kWarpTile, &kNaive,     &kAnyLayout};
  static constexpr const Rung* kF32Split[] = {&kThin,       &kSplitThreeTf32, &kThreeTf32,
                                              &kCopyEngine, &kDoubleBuffer,   &kWarpTile,
                                              &kNaive,      &kAnyLayout};
  static constexpr const Rung* kSimt[] = {&kThin,     &kCopyEngine, &kDoubleBuffer,
                                          &kWarpTile, &kNaive,      &kAnyLayout};
  static constexpr const Rung* kTf32[] = {&kThin,     &kWgmmaTf32Rs, &kWgmmaTf32,
                                          &kWmmaTf32, &kCopyEngine,  &kDoubleBuffer,
                                          &kWarpTile, &kNaive,       &kAnyLayout};
  static constexpr const Rung* kTf32Split[] = {
      &kThin,       &kSplitTf32,    &kWgmmaTf32Rs, &kWgmmaTf32, &kWmmaTf32,
      &kCopyEngine, &kDoubleBuffer, &kWarpTile,    &kNaive,     &kAnyLayout};
  static constexpr const Rung* kTf32AsItLies[] = {
      &kThin, &kWmmaTf32, &kCopyEngine, &kDoubleBuffer, &kWarpTile, &kNaive, &kAnyLayout};
  if (call.dtype == DType::kF32) {
    if (call.tf32) {
      const double time = std::min(wgmma_tf32_time(call), wgmma_tf32_rs_time(call));
      if (split_tf32_time(call) < std::min(time, simt_time(call))) return kTf32Split;
      const bool lies_right = copy_bytes_of(call) >= 16 && is_stored_by_boxes(call);
      if (lies_right ? time < kNever : time < simt_time(call)) return kTf32;
      return kTf32AsItLies;
    }
    switch (least_of_f32(call)) {
      case ByF32::kSplitThreeTf32: return kF32Split;
      case ByF32::kThreeTf32: return kF32;
      default: return kSimt;
    }
  }
#define WS_OTHERS &kMmaPipeline, &kNaive, &kAnyLayout
  static constexpr const Rung* kThinOrSplit[] = {&kThin, &kSplitK, WS_OTHERS};
  static constexpr const Rung* kSplit[] = {&kSplitK, WS_OTHERS};
  static constexpr const Rung* kClusters[] = {&kSplitClusters, &kRealigned, WS_OTHERS};
  static constexpr const Rung* kStream[] = {&kStreamK, &kRealigned, WS_OTHERS};
  static constexpr const Rung* kWhole[] = {&kWarpSpecialized, &kRealigned, WS_OTHERS};
  static constexpr const Rung* kInTurns[] = {&kPingpong, &kRealigned, WS_OTHERS};
  // Of GPUs behind Hopper, which have no `realigned`, the second decides.
  static constexpr const Rung* kUnaligned[] = {&kRealigned, WS_OTHERS};
  static constexpr const Rung* kUnalignedOrStraight[] = {&kRealigned, &kShifted, WS_OTHERS};
  static constexpr const Rung* kStraight[] = {&kShifted, &kRealigned, WS_OTHERS};
  static constexpr const Rung* kDirect[] = {&kMmaDirect, WS_OTHERS};
  static constexpr const Rung* kOthers[] = {WS_OTHERS};
#undef WS_OTHERS
  if (call.k == 0) return kOthers;
  if (copy_bytes_of(call) < 16) {
    const double as_it_is = std::min(small_mma_time(call), tiny_mma_time(call));
    const double copied = realigned_time(call);
    const double shifted = plan_shifted(call.m > call.n ? transposed(call) : call).time;
    if (plan_direct(call).time < std::min({as_it_is, copied, shifted})) return kDirect;
    if (shifted < std::min(as_it_is, copied)) return kStraight;
    if (as_it_is < copied) return kOthers;
    return shifted < as_it_is ? std::span<const Rung* const>(kUnalignedOrStraight) : kUnaligned;
  }
  // A warp a row: enough of them for all SMs.
  constexpr int64_t kWarpsOfSm = 4;
  const auto [thin, wide] = std::minmax(call.m, call.n);
  if (thin <= 2 && wide >= kWarpsOfSm * device_facts().multiprocessors) return kThinOrSplit;
  // The model is some 5 % too high for split_k where both are near.
  const double split = 0.95 * plan_split_k(call).time;
  const double stream = stream_k_time(call);
  const double together = plan_wgmma(call).time;
  const double in_turns = plan_pingpong(call).time;
  const double clusters = plan_split_clusters(call).time;
  const double whole = std::min({together, in_turns, clusters});
  if (split <= std::min(stream, whole)) return kSplit;
  if (stream < whole) return kStream;
  if (clusters < std::min(together, in_turns)) return kClusters;
  return in_turns < together ? std::span<const Rung* const>(kInTurns) : kWhole;
}

std::span<const Rung* const> Bmm::by_worth(const Call& call) {
  // In the order of ByBatchedF32.
  static constexpr const Rung* kF32[] = {&kBatchedThreeTf32Rs, &kBatchedThreeTf32,
                                         &kBatchedWarpTile, &kBatchedAnyLayout};
  static constexpr const Rung* kTf32[] = {&kBatchedTf32Rs, &kBatchedTf32, &kBatchedWarpTile,
                                          &kBatchedAnyLayout};
  if (call.dtype == DType::kF32) {
    const double cut = std::min(batched_tf32_time(call), batched_tf32_rs_time(call));
    if (call.tf32 && cut < batched_simt_time(call)) return kTf32;
    return std::span<const Rung* const>(kF32).subspan(
        static_cast<size_t>(least_of_batched_f32(call).by));
  }
  const int multiprocessors = device_facts().multiprocessors;
  const double copied = batched_realigned_time(call);
  const double by_mma = batched_mma_time(call);
  const double by_elements = batched_naive_time(call);
  const double in_turns = plan_batched<BatchedTurnPolicies>(call, multiprocessors).time;
  Why nobody;
  const bool is_aligned =
      operands_can_be_copied(call, nobody) && is_stored_by_boxes(call, call.out_dtype);
  if (call.out_dtype != call.dtype) {
    static constexpr const Rung* kSmall[] = {&kBatchedMma, &kBatchedAnyLayout};
    static constexpr const Rung* kLarge[] = {&kBatchedTurns, &kBatchedRealigned, &kBatchedMma,
                                             &kBatchedAnyLayout};
    const bool is_small = by_mma < (is_aligned ? in_turns : copied);
    return is_small ? std::span<const Rung* const>(kSmall) : kLarge;
  }
  // Aligned products by two warpgroups together or in turns, then what takes the others.
#define WS_ORDERS(...)                                                                             \
  {                                                                                                \
    {&kBatchedWgmma, &kBatchedTurns, __VA_ARGS__}, { &kBatchedTurns, &kBatchedWgmma, __VA_ARGS__ } \
  }
#define WS_SMALL &kBatchedMma, &kBatchedNaive, &kBatchedAnyLayout
  static constexpr const Rung* kAsTheyLie[2][5] = WS_ORDERS(WS_SMALL);
  static constexpr const Rung* kShifted[2][6] = WS_ORDERS(&kBatchedShifted, WS_SMALL);
  static constexpr const Rung* kCopied[2][6] = WS_ORDERS(&kBatchedRealigned, WS_SMALL);
  static constexpr const Rung* kElements[] = {&kBatchedNaive, &kBatchedAnyLayout};
#undef WS_SMALL
#undef WS_ORDERS
  const double together = plan_batched<BatchedPolicies>(call, multiprocessors).time;
  const int order = in_turns < together ? 1 : 0;
  const double shifted = batched_shifted_time(call);
  const double large = is_aligned ? std::min(together, in_turns) : std::min(copied, shifted);
  if (by_elements < std::min(by_mma, large)) return kElements;
  if (by_mma < large) return std::span<const Rung* const>(kAsTheyLie[order]).subspan(2);
  return copied < shifted ? kCopied[order] : kShifted[order];
}

extern const Family kFamily;
constinit const Family kFamily{
    .name = "gemm",
    .summary = "matrix products, one or a batch",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::gemm
