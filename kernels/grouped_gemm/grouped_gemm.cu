// The table of the grouped GEMM family: its rungs in teaching order, and which to prefer.
#include "kernels/grouped_gemm/01_naive.cuh"
#include "kernels/grouped_gemm/02_any_layout.cuh"
#include "kernels/grouped_gemm/operations.hpp"

namespace ws::grouped_gemm {

extern const Rung kWarpTile;
extern const Rung kMmaPipeline;
extern const Rung kWgmma;
extern const Rung kWgmmaWeight;

namespace {

constexpr Operation kOperations[] = {operation_of<GroupedGemm>(),
                                     operation_of<GroupedGemmWeight>()};

constexpr const Rung* kRungs[] = {
    &kNaive, &kAnyLayout, &kWarpTile, &kMmaPipeline, &kWgmma, &kWgmmaWeight,
};

}  // namespace

std::span<const Rung* const> GroupedGemm::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kOrder[] = {&kWgmma, &kMmaPipeline, &kWarpTile, &kAnyLayout};
  return kOrder;
}

std::span<const Rung* const> GroupedGemmWeight::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kOrder[] = {&kWgmmaWeight, &kMmaPipeline, &kWarpTile, &kAnyLayout};
  return kOrder;
}

extern const Family kFamily;
constinit const Family kFamily{
    .name = "grouped_gemm",
    .summary = "matrix products in groups whose sizes are data",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::grouped_gemm
