// What `verify` cannot ask of linear layers: tiles that small problems do not get.
#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"
#include "kernels/linear/05_wgmma.cuh"
#include "tests/run.hpp"

namespace ws::linear {
namespace {

template <class Policy>
struct Tile {
  static bool supports(const Call& call, Why& why) { return Wgmma::supports(call, why); }
  static void run(const Call& call, const Context& context) {
    run_wgmma_tile<bf16, bf16, Policy>(call, context.stream);
  }
};
template <class Policy>
constexpr Rung kTile = rung_of<Tile<Policy>, DTypes{DType::kBf16}, Addmm>(
    {.name = "tile", .idea = "one of the policies", .arch = Arch::kSm90a});

// A bias, which waits in registers, and a matrix; an activation; several tiles a block, edges.
TEST(Addmm, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  const Case cases[] = {
      {.extents = {392, 328, 136, Addmm::kBias, 0},
       .attributes = {1.0, 1.0, Value::choice(static_cast<int>(Activation::kGelu))}},
      {.extents = {136, 264, 200, Addmm::kMatrix, 0},
       .attributes = {2.0, 0.5, Value::choice(static_cast<int>(Activation::kNone))}},
  };
  for (int policy = 0; policy < AddmmPolicies::kCount; ++policy) {
    AddmmPolicies::with(policy, [&]<class Policy>() {
      for (const Case& chosen : cases) {
        harness::Instance instance(operation_named("addmm"), chosen, DType::kBf16, 3);
        const harness::Verification result = harness::verify(kTile<Policy>, instance);
        EXPECT_EQ(result.verdict, harness::Verdict::kPassed)
            << result.problem << "\n"
            << result.reason << "\n"
            << Policy::kTileM << " x " << Policy::kTileN << ", " << Policy::kUsers;
      }
    });
  }
}

}  // namespace
}  // namespace ws::linear
