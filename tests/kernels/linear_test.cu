// What `verify` cannot ask of linear layers: tiles that small problems do not get.
#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"
#include "kernels/linear/05_wgmma.cuh"
#include "kernels/linear/07_copy_engine_adds.cuh"
#include "kernels/linear/08_three_tf32.cuh"
#include "kernels/linear/09_realigned.cuh"
#include "kernels/linear/13_batched_pingpong.cuh"
#include "kernels/linear/14_batched_realigned.cuh"
#include "kernels/linear/15_batched_tf32.cuh"
#include "kernels/linear/19_split_k.cuh"
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

template <int kPolicy>
struct PartsTile {
  static bool supports(const Call& call, Why& why) { return SplitK::supports(call, why); }
  static void run(const Call& call, const Context& context) {
    run_split_k_by<bf16, bf16>({.policy = kPolicy, .parts = 1 + kPolicy % 3}, call, context.stream);
  }
};
template <int kPolicy>
constexpr Rung kPartsTile = rung_of<PartsTile<kPolicy>, DTypes{DType::kBf16}, Addmm>(
    {.name = "tile", .idea = "one of the policies", .arch = Arch::kSm90a});

// Lines of a tile and of its turned one, in which what is added lies along or across.
TEST(Addmm, EveryTileOfPartsOfK) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  const Case cases[] = {
      {.extents = {72, 136, 392, Addmm::kBias, 2},
       .attributes = {1.0, 1.0, Value::choice(static_cast<int>(Activation::kGelu))}},
      {.extents = {136, 68, 200, Addmm::kMatrixTransposed, 2},
       .attributes = {2.0, 0.5, Value::choice(static_cast<int>(Activation::kNone))}},
      {.extents = {19, 130, 328, Addmm::kColumn, 2},
       .attributes = {1.0, -1.0, Value::choice(static_cast<int>(Activation::kSilu))}},
  };
  const auto expect_right = [&]<int... kPolicy>(std::integer_sequence<int, kPolicy...>) {
    for (const Rung* const rung : {&kPartsTile<kPolicy>...}) {
      for (const Case& chosen : cases) {
        harness::Instance instance(operation_named("addmm"), chosen, DType::kBf16, 3);
        const harness::Verification result = harness::verify(*rung, instance);
        EXPECT_EQ(result.verdict, harness::Verdict::kPassed) << result.problem << "\n"
                                                             << result.reason;
      }
    }
  };
  expect_right(std::make_integer_sequence<int, SplitPolicies::kCount>());
}

template <class Policy>
struct WideTile {
  static bool supports(const Call& call, Why& why) { return can_be_stored(call, DType::kF32, why); }
  static void run(const Call& call, const Context& context) {
    run_wgmma_tile<bf16, float, Policy>(call, context.stream);
  }
};
template <class Policy>
struct AddingTile : WideTile<Policy> {
  static void run(const Call& call, const Context& context) {
    run_adding_tile<bf16, Policy>(call, context.stream);
  }
};
template <class Policy>
constexpr Rung kWideTile = rung_of<WideTile<Policy>, DTypes{DType::kBf16}, Addmm>(
    {.name = "tile", .idea = "one of the policies", .arch = Arch::kSm90a});
template <class Policy>
constexpr Rung kAddingTile = rung_of<AddingTile<Policy>, DTypes{DType::kBf16}, GemmAccumulate>(
    {.name = "tile", .idea = "one of the policies", .arch = Arch::kSm90a});

// The same of sums that leave as f32, to be stored and to be added.
TEST(Addmm, EveryTileOfF32) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  const Case stored{.extents = {392, 328, 136, Addmm::kBias, 0},
                    .attributes = {1.0, 0.5, Value::choice(static_cast<int>(Activation::kSilu)),
                                   Value::choice(0)}};
  const Case added{.extents = {392, 328, 136, 0}};
  const auto expect_right = [](std::string_view operation, const Rung& rung, const Case& chosen) {
    harness::Instance instance(operation_named(operation), chosen, DType::kBf16, 3);
    const harness::Verification result = harness::verify(rung, instance);
    EXPECT_EQ(result.verdict, harness::Verdict::kPassed) << result.problem << "\n" << result.reason;
  };
  for (int policy = 0; policy < WidePolicies::kCount; ++policy) {
    WidePolicies::with(policy, [&]<class Policy>() {
      expect_right("addmm", kWideTile<Policy>, stored);
      expect_right("gemm_accumulate", kAddingTile<Policy>, added);
    });
  }
}

template <class Policy>
struct RealignedTile {
  static bool supports(const Call& call, Why& why) { return Realigned::supports(call, why); }
  static Workspace workspace(const Call& call) { return Realigned::workspace(call); }
  static void run(const Call& call, const Context& context) {
    Call aligned = call;
    gemm::realign<bf16>(aligned, context.workspace, context.stream);
    run_realigned<bf16, bf16, bf16, gemm::PolicyList<Policy>>(aligned, context.stream);
  }
};
template <class Policy>
constexpr Rung kRealignedTile = rung_of<RealignedTile<Policy>, DTypes{DType::kBf16}, Addmm>(
    {.name = "tile", .idea = "one of the policies", .arch = Arch::kSm90a});

// The same of rows that start anywhere.
TEST(Realigned, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  const Case cases[] = {
      {.extents = {261, 133, 99, Addmm::kBias, 0},
       .attributes = {1.0, 1.0, Value::choice(static_cast<int>(Activation::kGelu))}},
      {.extents = {135, 263, 71, Addmm::kMatrix, 0},
       .attributes = {2.0, 0.5, Value::choice(static_cast<int>(Activation::kNone))}},
  };
  for (int policy = 0; policy < FinishedPolicies::kCount; ++policy) {
    FinishedPolicies::with(policy, [&]<class Policy>() {
      for (const Case& chosen : cases) {
        harness::Instance instance(operation_named("addmm"), chosen, DType::kBf16, 3);
        const harness::Verification result = harness::verify(kRealignedTile<Policy>, instance);
        EXPECT_EQ(result.verdict, harness::Verdict::kPassed)
            << result.problem << "\n"
            << result.reason << "\n"
            << Policy::kTileM << " x " << Policy::kTileN;
      }
    });
  }
}

using ThreeTiles = gemm::ThreeTf32::Tiles;

template <ThreeTiles kTiles>
struct ThreeTile {
  static bool supports(const Call& call, Why& why) { return ThreeTf32::supports(call, why); }
  static Workspace workspace(const Call& call) {
    return gemm::ThreeTf32::workspace_in(kTiles, call);
  }
  static void run(const Call& call, const Context& context) {
    ThreeTf32::run_in(kTiles, call, context);
  }
};
template <ThreeTiles kTiles>
constexpr Rung kThreeTile = rung_of<ThreeTile<kTiles>, DTypes{DType::kF32}, Addmm, GemmAccumulate>(
    {.name = "tile", .idea = "one of the tiles", .arch = Arch::kSm90a});

// The same in f32; a matrix that is added to in place, at whose edges tiles overlap.
TEST(ThreeTf32, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  const Case bias = {.extents = {264, 200, 100, Addmm::kBias, 0},
                     .attributes = {0.5, 2.0, Value::choice(static_cast<int>(Activation::kSilu))}};
  const Case across = {.extents = {264, 200, 100, Addmm::kMatrixTransposed, 0}, .padding = 4};
  const Case in_place = {.extents = {264, 200, 100, 0}};
  const auto expect_right = [&](const Rung& rung) {
    for (const auto& [operation, chosen] :
         {std::pair{"addmm", bias}, {"addmm", across}, {"gemm_accumulate", in_place}}) {
      harness::Instance instance(operation_named(operation), chosen, DType::kF32, 3);
      const harness::Verification result = harness::verify(rung, instance);
      EXPECT_EQ(result.verdict, harness::Verdict::kPassed) << result.problem << "\n"
                                                           << result.reason;
    }
  };
  expect_right(kThreeTile<ThreeTiles::kTall>);
  expect_right(kThreeTile<ThreeTiles::kSmall>);
  expect_right(kThreeTile<ThreeTiles::kNarrow>);
  expect_right(kThreeTile<ThreeTiles::kCut>);
  expect_right(kThreeTile<ThreeTiles::kSmallPlain>);
}

// Of a batch: what is added is of 16 bits or of f32, a batch or one matrix for all; walks that go
// from product to product.
template <int kPolicy>
struct BatchedTile {
  static bool supports(const BatchedCall& call, Why& why) {
    return BatchedPingpong::supports(call, why);
  }
  static void run(const BatchedCall& call, const Context& context) {
    with_dtypes<kHalves>(call, [&]<class T, class Source, class Out>() {
      run_batched_pingpong<T, Source, Out>(call, kPolicy, 4, context.stream);
    });
  }
};
template <int kPolicy>
constexpr Rung kBatchedTile = rung_of<BatchedTile<kPolicy>, kFloats, Baddbmm>(
    {.name = "tile", .idea = "one of the policies", .arch = Arch::kSm90a});

void expect_batch_right(const Rung& rung, const Case& chosen, DType dtype) {
  harness::Instance instance(operation_named("baddbmm"), chosen, dtype, 3);
  const harness::Verification result = harness::verify(rung, instance);
  EXPECT_EQ(result.verdict, harness::Verdict::kPassed) << result.problem << "\n" << result.reason;
}

TEST(Baddbmm, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  const Value wide = Value::choice(0);
  const Case cases[] = {
      {.extents = {3, 200, 136, 136, Baddbmm::kWhole, 0}, .attributes = {0.5, 2.0}},
      {.extents = {3, 72, 264, 72, Baddbmm::kMatrix, 2}, .attributes = {1.0, 1.0}},
      {.extents = {3, 136, 136, 72, Baddbmm::kWhole, 1}, .attributes = {0.5, 1.0, wide}},
  };
  const Case adds_f32[] = {
      {.extents = {3, 136, 72, 200, Baddbmm::kF32OverF16, 2}, .attributes = {1.0, 0.5, wide}},
      {.extents = {3, 136, 72, 200, Baddbmm::kF32OverBf16, 2}, .attributes = {1.0, 0.5, wide}},
  };
  static_assert(BatchedPolicies::kCount == 2);
  for (const Rung* const tile : {&kBatchedTile<0>, &kBatchedTile<1>}) {
    for (const Case& chosen : cases) expect_batch_right(*tile, chosen, DType::kBf16);
    expect_batch_right(*tile, cases[0], DType::kF16);
    for (const Case& chosen : adds_f32) expect_batch_right(*tile, chosen, DType::kF32);
  }
}

template <gemm::BatchedThreeTf32::Tiles kTiles>
struct BatchedThreeTile {
  static bool supports(const BatchedCall& call, Why& why) {
    return BatchedThreeTf32::supports(call, why);
  }
  static Workspace workspace(const BatchedCall& call) { return BatchedThreeTf32::workspace(call); }
  static void run(const BatchedCall& call, const Context& context) {
    BatchedThreeTf32::run_in(kTiles, call, context);
  }
};
template <gemm::BatchedThreeTf32::Tiles kTiles>
constexpr Rung kBatchedThreeTile = rung_of<BatchedThreeTile<kTiles>, DTypes{DType::kF32}, Baddbmm>(
    {.name = "tile", .idea = "one of the tiles", .arch = Arch::kSm90a});

template <class List, class Output, int kPolicy>
struct BatchedTf32Tile {
  static bool supports(const BatchedCall& call, Why& why) {
    return BatchedTf32::supports(call, why);
  }
  static Workspace workspace(const BatchedCall& call) { return BatchedTf32::workspace(call); }
  static void run(const BatchedCall& call, const Context& context) {
    gemm::BatchedTf32::run_in<List, Output>(kPolicy, call, context);
  }
};
template <class List, class Output, int kPolicy>
constexpr Rung kBatchedTf32Tile =
    rung_of<BatchedTf32Tile<List, Output, kPolicy>, DTypes{DType::kF32}, Baddbmm>(
        {.name = "tile", .idea = "one of the policies", .arch = Arch::kSm90a});

// The same of f32, whose products are three or one.
constexpr Case kBatchOfF32{.extents = {2, 264, 136, 68, Baddbmm::kWhole, kSecondTransposed},
                           .attributes = {0.5, 2.0}};

TEST(Baddbmm, EveryTileOfThreeTf32) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  using enum gemm::BatchedThreeTf32::Tiles;
  for (const Rung* const tile : {&kBatchedThreeTile<kTall>, &kBatchedThreeTile<kSmall>,
                                 &kBatchedThreeTile<kNarrow>, &kBatchedThreeTile<kSmallPlain>}) {
    expect_batch_right(*tile, kBatchOfF32, DType::kF32);
  }
}

template <bool kTurned, int kPolicy>
struct BatchedThreeRsTile : BatchedThreeTf32Rs {
  static void run(const BatchedCall& call, const Context& context) {
    run_as(Product::plan(call, kTurned, kPolicy), call, context);
  }
};
template <bool kTurned, int kPolicy>
constexpr Rung kBatchedThreeRsTile =
    rung_of<BatchedThreeRsTile<kTurned, kPolicy>, DTypes{DType::kF32}, Baddbmm>(
        {.name = "tile", .idea = "one of the tiles", .arch = Arch::kSm90a});

TEST(Baddbmm, EveryTileOfThreeTf32Rs) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const Rung* const tile : {&kBatchedThreeRsTile<false, 0>, &kBatchedThreeRsTile<false, 1>,
                                 &kBatchedThreeRsTile<true, 1>}) {
    expect_batch_right(*tile, kBatchOfF32, DType::kF32);
  }
  // Wide tiles of y^T are for a second factor row by row.
  const Case straight{.extents = {2, 264, 136, 68, Baddbmm::kWhole, 0}, .attributes = {0.5, 2.0}};
  expect_batch_right(kBatchedThreeRsTile<true, 0>, straight, DType::kF32);
}

TEST(Baddbmm, EveryTileOfTf32) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  using Boxes = gemm::BatchedTf32::Policies;
  using Plain = gemm::BatchedTf32::PlainPolicies;
  static_assert(Boxes::kCount == 4 && Plain::kCount == 1);
  Case cut = kBatchOfF32;
  cut.attributes[3] = Value::choice(static_cast<int>(gemm::Gemm::Precision::kTf32));
  for (const Rung* const tile : {&kBatchedTf32Tile<Boxes, BatchedBoxesOfF32, 0>,
                                 &kBatchedTf32Tile<Boxes, BatchedBoxesOfF32, 1>,
                                 &kBatchedTf32Tile<Boxes, BatchedBoxesOfF32, 2>,
                                 &kBatchedTf32Tile<Boxes, BatchedBoxesOfF32, 3>,
                                 &kBatchedTf32Tile<Plain, BatchedPlainOfF32, 0>}) {
    expect_batch_right(*tile, cut, DType::kF32);
  }
}

TEST(Baddbmm, BestIsTheFastestThatTakesTheCall) {
  const auto chosen = [](const Case& of, DType dtype, int capability) {
    harness::Instance instance(operation_named("baddbmm"), of, dtype, 3);
    return std::string(best(AnyCall(instance.problem()), capability).name);
  };
  const Case aligned{.extents = {9, 512, 512, 512, Baddbmm::kMatrix, 0}};
  const Case odd{.extents = {9, 511, 511, 511, Baddbmm::kMatrix, 0}};
  EXPECT_EQ(chosen(aligned, DType::kF16, 90), "batched_pingpong");
  EXPECT_EQ(chosen(odd, DType::kBf16, 90), "batched_realigned");
  EXPECT_EQ(chosen(aligned, DType::kF32, 90), "batched_three_tf32");
  EXPECT_EQ(chosen(aligned, DType::kF16, 80), "batched_mma");
  EXPECT_EQ(chosen(aligned, DType::kF32, 80), "batched_warp_tile");
  EXPECT_EQ(chosen({.extents = {64, 31, 31, 31, Baddbmm::kWhole, 0}}, DType::kF16, 90),
            "batched_mma");
  EXPECT_EQ(chosen({.extents = {32, 256, 64, 16, Baddbmm::kWhole, 0}}, DType::kF32, 90),
            "batched_warp_tile");
  const Case adds_f32{.extents = {9, 512, 512, 512, Baddbmm::kF32OverBf16, 0},
                      .attributes = {1.0, 1.0, Value::choice(0)}};
  EXPECT_EQ(chosen(adds_f32, DType::kF32, 90), "batched_pingpong");
  EXPECT_EQ(chosen({.extents = {4096, 1, 1, 4, Baddbmm::kBias, 0}}, DType::kF32, 90),
            "batched_any_layout");
}

}  // namespace
}  // namespace ws::linear
