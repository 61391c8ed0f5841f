// The table of the products with an epilogue.
#include "kernels/gemm/batched_plan.hpp"
#include "kernels/gemm/plan.hpp"
#include "kernels/linear/01_naive.cuh"
#include "kernels/linear/02_any_layout.cuh"
#include "kernels/linear/09_realigned.cuh"
#include "kernels/linear/12_batched_any_layout.cuh"
#include "kernels/linear/operations.hpp"
#include "kernels/linear/wgmma.hpp"

namespace ws::linear {

extern const Rung kWarpTile;
extern const Rung kMmaPipeline;
extern const Rung kWgmma;
extern const Rung kWgmmaGated;
extern const Rung kCopyEngineAdds;
extern const Rung kThreeTf32;
extern const Rung kRealigned;
extern const Rung kThreeTf32Gated;
extern const Rung kRealignedGated;
extern const Rung kBatchedPingpong;
extern const Rung kBatchedRealigned;
extern const Rung kBatchedThreeTf32;
extern const Rung kBatchedThreeTf32Rs;
extern const Rung kBatchedTf32;
extern const Rung kBatchedWarpTile;
extern const Rung kBatchedMma;
extern const Rung kTf32;
extern const Rung kSplitK;

bool three_tf32_gated_pays(const GatedCall& call);       // 10_three_tf32_gated.cu
double batched_pingpong_time(const BatchedCall& call);   // 13_batched_pingpong.cu
double batched_realigned_time(const BatchedCall& call);  // 14_batched_realigned.cu

namespace {

constexpr Operation kOperations[] = {operation_of<Addmm>(), operation_of<Baddbmm>(),
                                     operation_of<SwigluLinear>(), operation_of<GemmAccumulate>()};

constexpr const Rung* kRungs[] = {
    &kNaive,           &kAnyLayout,        &kWarpTile,         &kMmaPipeline,
    &kWgmma,           &kWgmmaGated,       &kCopyEngineAdds,   &kThreeTf32,
    &kRealigned,       &kThreeTf32Gated,   &kRealignedGated,   &kBatchedAnyLayout,
    &kBatchedPingpong, &kBatchedRealigned, &kBatchedThreeTf32, &kBatchedThreeTf32Rs,
    &kBatchedTf32,     &kBatchedWarpTile,  &kBatchedMma,       &kTf32,
    &kSplitK,
};

// gemm's choices, whose products these are: whether f32 is multiplied on the tensor cores, and
// whether copies of unaligned rows are.
bool by_three_tf32(const Call& call) { return gemm::three_tf32_time(call) < gemm::simt_time(call); }
bool by_copies(const Call& call) {
  return Realigned::time(call) < std::min(gemm::small_mma_time(call), gemm::tiny_mma_time(call));
}

// Whether K of a product of 16 bits is divided among blocks.
bool by_parts_of_k(const Call& call) {
  if (call.k == 0 || gemm::copy_bytes_of(call) < 16) return false;
  const gemm::WgmmaPlan whole = call.out_dtype == DType::kF32
                                    ? gemm::plan_whole_tiles<WidePolicies>(call)
                                    : gemm::plan_whole_tiles<AddmmPolicies>(call);
  // As gemm has it.
  return 0.95 * plan_parts_of_k(call).time <= whole.time;
}

// Each takes what those before it leave. `kAligned`: of 16 bits, where rows are aligned.
template <const Rung& kAligned>
std::span<const Rung* const> by_worth_behind(const Call& call) {
  static constexpr const Rung* kF32[] = {&kThreeTf32, &kWarpTile, &kAnyLayout};
  static constexpr const Rung* kLarge[] = {&kAligned, &kRealigned, &kMmaPipeline, &kAnyLayout};
  static constexpr const Rung* kSmall[] = {&kAligned, &kMmaPipeline, &kAnyLayout};
  if (call.dtype == DType::kF32) {
    return std::span<const Rung* const>(kF32).subspan(by_three_tf32(call) ? 0 : 1);
  }
  return by_copies(call) ? std::span<const Rung* const>(kLarge) : kSmall;
}

}  // namespace

std::span<const Rung* const> Addmm::by_worth(const Call& call) {
  static constexpr const Rung* kCut[] = {&kTf32, &kWarpTile, &kAnyLayout};
  // In the order of gemm::ByF32.
  static constexpr const Rung* kF32[] = {&kSplitK, &kThreeTf32, &kWarpTile, &kAnyLayout};
  static constexpr const Rung* kSplit[] = {&kSplitK, &kWgmma, &kMmaPipeline, &kAnyLayout};
  static constexpr const Rung* kSplitTf32[] = {&kSplitK, &kTf32, &kWarpTile, &kAnyLayout};
  if (call.tf32) {
    const double parts = gemm::split_tf32_time(call);
    const double whole = gemm::wgmma_tf32_time(call);
    const double simt = gemm::simt_time(call);
    if (parts < std::min(whole, simt)) return kSplitTf32;
    if (whole < simt) return kCut;
  } else if (call.dtype == DType::kF32) {
    return std::span<const Rung* const>(kF32).subspan(
        static_cast<size_t>(gemm::least_of_f32(call)));
  } else if (by_parts_of_k(call)) {
    return kSplit;
  }
  return by_worth_behind<kWgmma>(call);
}
// gemm's choices for bmm.
std::span<const Rung* const> Baddbmm::by_worth(const Call& call) {
  static constexpr const Rung* kTf32[] = {&kBatchedTf32, &kBatchedWarpTile, &kBatchedAnyLayout};
  // In the order of gemm::ByBatchedF32.
  static constexpr const Rung* kF32[] = {&kBatchedThreeTf32Rs, &kBatchedThreeTf32,
                                         &kBatchedWarpTile, &kBatchedAnyLayout};
  static constexpr const Rung* kHalf[] = {&kBatchedPingpong, &kBatchedRealigned, &kBatchedMma,
                                          &kBatchedAnyLayout};
  const double by_elements = gemm::batched_naive_time(call);
  if (call.dtype == DType::kF32 && call.tf32) {
    const double by_tiles = gemm::batched_simt_time(call);
    const double by_tf32 = gemm::batched_tf32_time(call);
    const std::span<const Rung* const> rungs = kTf32;
    if (by_elements < std::min(by_tiles, by_tf32)) return rungs.subspan(2);
    return rungs.subspan(by_tf32 < by_tiles ? 0 : 1);
  }
  if (call.dtype == DType::kF32) {
    const auto [by, time] = gemm::least_of_batched_f32(call);
    return std::span<const Rung* const>(kF32).subspan(by_elements < time ? 3
                                                                         : static_cast<size_t>(by));
  }
  const std::span<const Rung* const> rungs = kHalf;
  const double by_mma = gemm::batched_mma_time(call);
  const double large = std::min(batched_pingpong_time(call), batched_realigned_time(call));
  if (by_elements < std::min(by_mma, large)) return rungs.subspan(3);
  return rungs.subspan(by_mma < large ? 2 : 0);
}
std::span<const Rung* const> SwigluLinear::by_worth(const Call& call) {
  static constexpr const Rung* kF32[] = {&kThreeTf32Gated, &kAnyLayout};
  static constexpr const Rung* kHalf[] = {&kWgmmaGated, &kRealignedGated, &kAnyLayout};
  static constexpr const Rung* kWithoutCopies[] = {&kWgmmaGated, &kAnyLayout};
  if (call.dtype != DType::kF32) {
    const bool fits = gemm::realigning_time(call) < gemm::kNever;
    return fits ? std::span<const Rung* const>(kHalf) : kWithoutCopies;
  }
  return std::span<const Rung* const>(kF32).subspan(three_tf32_gated_pays(call) ? 0 : 1);
}
std::span<const Rung* const> GemmAccumulate::by_worth(const Call& call) {
  return by_worth_behind<kCopyEngineAdds>(call);
}

extern const Family kFamily;
constinit const Family kFamily{
    .name = "linear",
    .summary = "products with an epilogue: bias, activation, gate, accumulation",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::linear
