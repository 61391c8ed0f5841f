// The table of the products with an epilogue.
#include "kernels/linear/01_naive.cuh"
#include "kernels/linear/02_any_layout.cuh"
#include "kernels/linear/operations.hpp"

namespace ws::linear {

extern const Rung kWarpTile;
extern const Rung kMmaPipeline;
extern const Rung kWgmma;
extern const Rung kWgmmaGated;
extern const Rung kCopyEngineAdds;

namespace {

constexpr Operation kOperations[] = {operation_of<Addmm>(), operation_of<SwigluLinear>(),
                                     operation_of<GemmAccumulate>()};

constexpr const Rung* kRungs[] = {
    &kNaive, &kAnyLayout, &kWarpTile, &kMmaPipeline, &kWgmma, &kWgmmaGated, &kCopyEngineAdds,
};

}  // namespace

// Each takes what those before it leave; warp_tile is for f32, the others for 16 bits.
std::span<const Rung* const> Addmm::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kWarpTile, &kWgmma, &kMmaPipeline, &kAnyLayout};
  return kByWorth;
}
std::span<const Rung* const> SwigluLinear::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kWgmmaGated, &kAnyLayout};
  return kByWorth;
}
std::span<const Rung* const> GemmAccumulate::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kWarpTile, &kCopyEngineAdds, &kMmaPipeline,
                                             &kAnyLayout};
  return kByWorth;
}

extern const Family kFamily;
constinit const Family kFamily{
    .name = "linear",
    .summary = "products with an epilogue: bias, activation, gate, accumulation",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::linear
