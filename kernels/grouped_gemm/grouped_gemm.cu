// The table of the grouped GEMM family: its rungs in teaching order, and which to prefer.
#include "kernels/grouped_gemm/01_naive.cuh"
#include "kernels/grouped_gemm/02_any_layout.cuh"
#include "kernels/grouped_gemm/policies.hpp"

namespace ws::grouped_gemm {

extern const Rung kWarpTile;
extern const Rung kMmaPipeline;
extern const Rung kWgmma;
extern const Rung kWgmmaWeight;
extern const Rung kRealigned;

namespace {

constexpr Operation kOperations[] = {operation_of<GroupedGemm>(),
                                     operation_of<GroupedGemmWeight>()};

constexpr const Rung* kRungs[] = {
    &kNaive, &kAnyLayout, &kWarpTile, &kMmaPipeline, &kWgmma, &kWgmmaWeight, &kRealigned,
};

// `kAligned` takes what is aligned.
template <const Rung& kAligned, class Call>
std::span<const Rung* const> by_worth_behind(const Call& call) {
  static constexpr const Rung* kF32[] = {&kWarpTile, &kAnyLayout};
  static constexpr const Rung* kCopies[] = {&kAligned, &kRealigned, &kMmaPipeline, &kAnyLayout};
  static constexpr const Rung* kCopiesLast[] = {&kAligned, &kMmaPipeline, &kRealigned, &kAnyLayout};
  static constexpr const Rung* kNoCopies[] = {&kAligned, &kMmaPipeline, &kAnyLayout};
  if (call.dtype == DType::kF32) return kF32;
  const double realigned = realigned_time(call, device_facts().multiprocessors);
  if (realigned >= gemm::kNever) return kNoCopies;
  const double pipeline = mma_pipeline_time(call);
  return realigned < pipeline ? std::span<const Rung* const>(kCopies) : kCopiesLast;
}

}  // namespace

std::span<const Rung* const> GroupedGemm::by_worth(const Call& call) {
  return by_worth_behind<kWgmma>(call);
}
std::span<const Rung* const> GroupedGemmWeight::by_worth(const Call& call) {
  return by_worth_behind<kWgmmaWeight>(call);
}

extern const Family kFamily;
constinit const Family kFamily{
    .name = "grouped_gemm",
    .summary = "matrix products in groups whose sizes are data",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::grouped_gemm
