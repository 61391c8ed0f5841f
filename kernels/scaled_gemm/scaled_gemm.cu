// The table of the family of 8-bit products.
#include "kernels/scaled_gemm/01_naive.cuh"
#include "kernels/scaled_gemm/02_any_layout.cuh"
#include "kernels/scaled_gemm/policies.hpp"

namespace ws::scaled_gemm {

extern const Rung kWgmma;
extern const Rung kPromoted;
extern const Rung kRealigned;

namespace {

constexpr Operation kOperations[] = {operation_of<ScaledMm>(), operation_of<IntMm>()};

constexpr const Rung* kRungs[] = {&kNaive, &kAnyLayout, &kWgmma, &kPromoted, &kRealigned};

}  // namespace

std::span<const Rung* const> IntMm::by_worth(const Call& call) {
  static constexpr const Rung* kCopied[] = {&kWgmma, &kRealigned, &kNaive, &kAnyLayout};
  static constexpr const Rung* kAsItLies[] = {&kWgmma, &kNaive, &kAnyLayout};
  return pays_to_copy(call) ? std::span<const Rung* const>(kCopied) : kAsItLies;
}

// `promoted` has small tiles too, which few products want more than the tensor core's own sums.
std::span<const Rung* const> ScaledMm::by_worth(const Call& call) {
  static constexpr const Rung* kCopied[] = {&kWgmma, &kPromoted, &kRealigned, &kNaive, &kAnyLayout};
  static constexpr const Rung* kAsItLies[] = {&kWgmma, &kPromoted, &kNaive, &kAnyLayout};
  const std::span<const Rung* const> all =
      pays_to_copy(call) ? std::span<const Rung* const>(kCopied) : kAsItLies;
  return all.subspan(prefers<Wide>(call) ? 0 : 1);
}

extern const Family kFamily;
constinit const Family kFamily{
    .name = "scaled_gemm",
    .summary = "matrix products of 8-bit operands",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::scaled_gemm
