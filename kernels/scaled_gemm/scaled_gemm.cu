// The table of the family of 8-bit products.
#include "kernels/scaled_gemm/01_naive.cuh"
#include "kernels/scaled_gemm/02_any_layout.cuh"
#include "kernels/scaled_gemm/policies.hpp"

namespace ws::scaled_gemm {

extern const Rung kWgmma;
extern const Rung kPromoted;
extern const Rung kRealigned;
extern const Rung kPingpong;
extern const Rung kSplitK;

namespace {

constexpr Operation kOperations[] = {operation_of<ScaledMm>(), operation_of<IntMm>()};

constexpr const Rung* kRungs[] = {&kNaive,     &kAnyLayout, &kWgmma, &kPromoted,
                                  &kRealigned, &kPingpong,  &kSplitK};

// Those that take any sums are promoted's; where it does not pay to copy, nothing is realigned.
std::span<const Rung* const> by_time(const Call& call) {
  static constexpr const Rung* kCopied[] = {&kSplitK,    &kPingpong, &kPromoted,
                                            &kRealigned, &kNaive,    &kAnyLayout};
  static constexpr const Rung* kAsItLies[] = {&kSplitK, &kPingpong, &kPromoted, &kNaive,
                                              &kAnyLayout};
  const std::span<const Rung* const> all =
      pays_to_copy(call) ? std::span<const Rung* const>(kCopied) : kAsItLies;
  return all.subspan(splits(call) ? 0 : 1);
}

}  // namespace

std::span<const Rung* const> IntMm::by_worth(const Call& call) { return by_time(call); }
std::span<const Rung* const> ScaledMm::by_worth(const Call& call) { return by_time(call); }

extern const Family kFamily;
constinit const Family kFamily{
    .name = "scaled_gemm",
    .summary = "matrix products of 8-bit operands",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::scaled_gemm
