// What `verify` cannot ask of the 8-bit products: tiles that small problems do not get, many tiles
// for few blocks, integers that wrap, and the words of refusals.
#include <gmock/gmock.h>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"
#include "kernels/scaled_gemm/03_wgmma.cuh"
#include "kernels/scaled_gemm/04_promoted.cuh"
#include "kernels/scaled_gemm/06_pingpong.cuh"
#include "kernels/scaled_gemm/07_split_k.cuh"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::scaled_gemm {
namespace {

using ::testing::HasSubstr;

constexpr int kBlocks = 4;  // of a launch: several tiles for each

struct WideIntegers {
  static void run(const Call& call, const Context& context) {
    using Store = tile::WarpStore<int32_t, 1, 32>;
    launch_wgmma<WgmmaKernel<int8_t, int8_t, Wide, IntegerOutput>>(
        call, IntegerOutput::of<Store>(call), context.stream, kBlocks);
  }
};
constexpr Rung kWideIntegers =
    rung_of<WideIntegers, IntMm>({.name = "wide", .idea = "128 x 256", .arch = Arch::kSm90a});

template <class A, class B, class Policy>
struct PromotedTile {
  static void run(const Call& call, const Context& context) {
    const auto launch = [&]<class Output>(const Output& output) {
      launch_wgmma<PromotedKernel<A, B, Policy, Output>>(call, output, context.stream, kBlocks);
    };
    call.by_blocks ? launch(BlocksOutput(call)) : launch(ScaledOutput(call));
  }
};
constexpr Rung kPair = rung_of<PromotedTile<e4m3, e4m3, PromotedPair>, ScaledMm>(
    {.name = "pair", .idea = "128 x 128", .arch = Arch::kSm90a});
constexpr Rung kPairOther = rung_of<PromotedTile<e5m2, e5m2, PromotedPair>, ScaledMm>(
    {.name = "pair_other", .idea = "128 x 128", .arch = Arch::kSm90a});
constexpr Rung kNarrow = rung_of<PromotedTile<e4m3, e5m2, PromotedNarrow>, ScaledMm>(
    {.name = "narrow", .idea = "128 x 64", .arch = Arch::kSm90a});

template <int kPolicy>
struct PingpongTile {
  static void run(const Call& call, const Context& context) {
    PingpongTiles::with(kPolicy, [&]<class Policy>() {
      if (call.dtype == DType::kI8) {
        using Kernel = PingpongKernel<int8_t, int8_t, Policy, IntegerOutput>;
        launch_wgmma<Kernel>(call, IntegerOutput::of<typename Kernel::Store>(call), context.stream,
                             kBlocks);
      } else {
        launch_wgmma<PingpongKernel<e4m3, e5m2, Policy, ScaledOutput>>(call, ScaledOutput(call),
                                                                       context.stream, kBlocks);
      }
    });
  }
};
template <int kPolicy>
constexpr Rung kPingpongTile = rung_of<PingpongTile<kPolicy>, IntMm, ScaledMm>(
    {.name = "pingpong_tile", .idea = "a tile", .arch = Arch::kSm90a});

template <int kPolicy, int kParts>
struct SplitTile {
  static void run(const Call& call, const Context& context) {
    SplitTiles::with(kPolicy, [&]<class Policy>() {
      using Kernel = SplitPromotedKernel<e5m2, e4m3, Policy>;
      Kernel::template start<Kernel>(turned(call), ScaledLines(call), kParts, context.stream);
    });
  }
};
template <int kPolicy, int kParts>
constexpr Rung kSplitTile = rung_of<SplitTile<kPolicy, kParts>, ScaledMm>(
    {.name = "split_tile", .idea = "a tile", .arch = Arch::kSm90a});

void expect_right(const Rung& rung, std::string_view operation, const Case& chosen, DType dtype) {
  harness::Instance instance(operation_named(operation), chosen, dtype, 3);
  const harness::Verification result = harness::verify(rung, instance);
  EXPECT_EQ(result.verdict, harness::Verdict::kPassed) << result.problem << "\n" << result.reason;
}

TEST(IntMm, WideTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_right(kWideIntegers, "int_mm", {.extents = {392, 520, 272}}, DType::kI8);
}

constexpr std::array kScales = {0, ScaledMm::kRowScales | ScaledMm::kBias,
                                0 + ScaledMm::kBlockScales};

// Slices that fill turns of four, and such that are left over.
TEST(ScaledMm, PromotedPair) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const int options : kScales) {
    for (const int64_t k : {272, 528, 1168}) {
      expect_right(kPair, "scaled_mm", {.extents = {392, 328, k, options}}, DType::kE4m3);
    }
  }
}

TEST(ScaledMm, PromotedPairOfTheOtherType) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr int kOptions = ScaledMm::kBlockScales | ScaledMm::kE5m2B;
  expect_right(kPairOther, "scaled_mm", {.extents = {264, 136, 272, kOptions}}, DType::kE5m2);
}

TEST(ScaledMm, PromotedNarrow) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr int kOptions = ScaledMm::kBlockScales | ScaledMm::kE5m2B | ScaledMm::kBias;
  for (const int output : {0, 1, 2}) {
    expect_right(kNarrow, "scaled_mm",
                 {.extents = {136, 456, 912, kOptions}, .attributes = {Value::choice(output)}},
                 DType::kE4m3);
  }
}

template <int... kPolicies>
void expect_pingpong_right(std::integer_sequence<int, kPolicies...>) {
  constexpr int kOptions = ScaledMm::kRowScales | ScaledMm::kE5m2B | ScaledMm::kBias;
  (expect_right(kPingpongTile<kPolicies>, "scaled_mm",
                {.extents = {392, 456, 400, kOptions}, .attributes = {Value::choice(2), true}},
                DType::kE4m3),
   ...);
  (expect_right(kPingpongTile<kPolicies>, "int_mm", {.extents = {264, 328, 144}}, DType::kI8), ...);
}
TEST(ScaledMm, PingpongTiles) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_pingpong_right(std::make_integer_sequence<int, PingpongTiles::kCount>());
}

// Parts of K that are not equal, rows of C that start anywhere, columns of two blocks of B.
template <int... kPolicies>
void expect_split_right(std::integer_sequence<int, kPolicies...>) {
  for (const int options : kScales) {
    for (const int64_t m : {1, 37, 72}) {
      const Case chosen = {.extents = {m, 197, 912, options | ScaledMm::kE5m2B}};
      (expect_right(kSplitTile<kPolicies, 1>, "scaled_mm", chosen, DType::kE4m3), ...);
      (expect_right(kSplitTile<kPolicies, 3>, "scaled_mm", chosen, DType::kE4m3), ...);
    }
  }
}
TEST(ScaledMm, SplitTiles) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_split_right(std::make_integer_sequence<int, SplitTiles::kCount>());
}

// 2^17 products of 128 * 128 are 2^31.
TEST(IntMm, Wraps) {
  constexpr int64_t kDepth = int64_t{1} << 17;
  test::Buffer<int8_t> a(static_cast<size_t>(kDepth));
  test::Buffer<int8_t> b(static_cast<size_t>(kDepth) * 8);
  test::Buffer<int32_t> c(8);
  std::ranges::fill(a, static_cast<int8_t>(-128));
  std::ranges::fill(b, static_cast<int8_t>(-128));
  for (const char* name : {"naive", "any_layout", "wgmma", "pingpong", "split_k"}) {
    const Rung& rung = *resolve(concatenate("int_mm/", name)).rung;
    if (!runs_on(rung.arch, runtime::capability())) continue;
    Problem problem =
        make_problem(operation_named("int_mm"), {.extents = {1, 8, kDepth}}, DType::kI8);
    problem.tensor(0).data = a.data();
    problem.tensor(1).data = b.data();
    problem.tensor(2).data = c.data();
    std::ranges::fill(c, 1);
    run(rung, AnyCall(problem), {});
    runtime::synchronize_device();
    for (const int32_t element : c) EXPECT_EQ(element, std::numeric_limits<int32_t>::min()) << name;
  }
}

std::string refusal(const Case& chosen, const char* rung = "scaled_mm/wgmma") {
  try {
    const AnyCall call(make_problem(operation_named("scaled_mm"), chosen, DType::kE4m3));
    return why_not(*resolve(rung).rung, call, 90);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

TEST(ScaledMm, SaysWhatItLeavesToOthers) {
  EXPECT_THAT(refusal({.extents = {16, 16, 16}}), HasSubstr("use_fast_accum"));
  const std::array<Value, kMaxAttributes> fast = {Value::choice(0), true};
  EXPECT_THAT(refusal({.extents = {16, 16, 160, ScaledMm::kBlockScales}, .attributes = fast}),
              HasSubstr("scales of blocks"));
  EXPECT_THAT(refusal({.extents = {16, 16, 16, ScaledMm::kBRows}, .attributes = fast}),
              HasSubstr("column by column"));
  EXPECT_THAT(refusal({.extents = {16, 16, 24}, .attributes = fast}), HasSubstr("16"));
}

TEST(ScaledMm, RealignedLeavesWhatNeedsNoCopyAndWhatItCannotRead) {
  EXPECT_THAT(refusal({.extents = {16, 16, 16}}, "scaled_mm/realigned"),
              HasSubstr("nothing to realign"));
  EXPECT_THAT(refusal({.extents = {16, 16, 0}}, "scaled_mm/realigned"), HasSubstr("K = 0"));
  const auto refusal_of = [](int tensor) {
    Problem problem =
        make_problem(operation_named("int_mm"), {.extents = {16, 24, 32}}, DType::kI8);
    problem.tensor(tensor).strides = {3, 200};
    return why_not(*resolve("int_mm/realigned").rung, AnyCall(problem), 90);
  };
  EXPECT_THAT(refusal_of(0), HasSubstr("stride of 1 in a"));
  EXPECT_THAT(refusal_of(1), HasSubstr("stride of 1 in b"));
  EXPECT_THAT(refusal_of(2), HasSubstr("c row by row"));
}

// Every one of the layouts and sizes that wgmma and the copy engine do not take.
TEST(IntMm, CopiesAreRight) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  const Rung& rung = *resolve("int_mm/realigned").rung;
  for (const int views :
       {0, 0 + IntMm::kATransposed, 0 + IntMm::kBRows, IntMm::kATransposed | IntMm::kBRows}) {
    for (const int64_t size : {1, 15, 17, 127, 129, 143, 145}) {
      for (const int offset : {0, 1, 15}) {
        expect_right(rung, "int_mm",
                     {.extents = {size, size + 2, size + 1, views}, .offset = offset, .padding = 1},
                     DType::kI8);
      }
    }
  }
}

TEST(ScaledMm, CopiesPayWhereThereIsMuchToMultiply) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  const auto best_of = [](const char* operation, const Case& chosen, DType dtype) {
    return best(AnyCall(make_problem(operation_named(operation), chosen, dtype)), 90).name;
  };
  for (const int views : {1, 2, 3}) {
    EXPECT_EQ(best_of("int_mm", {.extents = {4096, 4096, 4096, views}}, DType::kI8), "realigned");
  }
  const Case odd{.extents = {4095, 4097, 4099, ScaledMm::kBlockScales | ScaledMm::kE5m2B}};
  EXPECT_EQ(best_of("scaled_mm", odd, DType::kE5m2), "realigned");
  EXPECT_NE(best_of("scaled_mm", {.extents = {4096, 4096, 4096}}, DType::kE4m3), "realigned");
  EXPECT_EQ(best_of("int_mm", {.extents = {5, 7, 9}}, DType::kI8), "naive");
  // An operand of 32 GiB, whose copy would be as large.
  constexpr int64_t kMany = int64_t{1} << 20;
  EXPECT_EQ(
      best_of("int_mm", {.extents = {kMany, 64, kMany / 32, IntMm::kATransposed}}, DType::kI8),
      "any_layout");
}

TEST(ScaledMm, RefusesScalesOfOtherShapes) {
  Problem problem =
      make_problem(operation_named("scaled_mm"), {.extents = {16, 24, 200}}, DType::kE4m3);
  problem.tensor(2) = Tensor::dense(DType::kF32, {16, 2});  // of blocks, but B's is one
  EXPECT_THROW(AnyCall{problem}, InvalidArgument);
  problem.tensor(3) = Tensor::dense(DType::kF32, {2, 1});
  EXPECT_NO_THROW(AnyCall{problem});
  problem.tensor(4) = Tensor::dense(DType::kF32, {24});  // the output is bf16
  EXPECT_THROW(AnyCall{problem}, InvalidArgument);
}

}  // namespace
}  // namespace ws::scaled_gemm
