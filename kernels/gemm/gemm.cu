// The table of the GEMM family.
#include "kernels/gemm/01_naive.cuh"
#include "kernels/gemm/02_any_layout.cuh"
#include "kernels/gemm/03_mma_pipeline.cuh"
#include "kernels/gemm/04_warp_specialized.cuh"
#include "kernels/gemm/operations.hpp"

namespace ws::gemm {
namespace {

constexpr Operation kOperations[] = {operation_of<Gemm>()};

constexpr const Rung* kRungs[] = {&kNaive, &kAnyLayout, &kMmaPipeline, &kWarpSpecialized};

}  // namespace

std::span<const Rung* const> Gemm::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kWarpSpecialized, &kMmaPipeline, &kNaive,
                                             &kAnyLayout};
  return kByWorth;
}

extern const Family kFamily;
constinit const Family kFamily{
    .name = "gemm",
    .summary = "matrix product C = op(A) op(B)",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::gemm
