// What `verify` cannot ask of the 8-bit products: tiles that small problems do not get, many tiles
// for few blocks, integers that wrap, and the words of refusals.
#include <gmock/gmock.h>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"
#include "kernels/scaled_gemm/04_promoted.cuh"
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
    const PromotedOutput output(call);
    launch_wgmma<PromotedKernel<A, B, Policy>>(call, output, context.stream, kBlocks);
  }
};
constexpr Rung kTall = rung_of<PromotedTile<e4m3, e4m3, Tall>, ScaledMm>(
    {.name = "tall", .idea = "256 x 128", .arch = Arch::kSm90a});
constexpr Rung kSmall = rung_of<PromotedTile<e4m3, e5m2, Small>, ScaledMm>(
    {.name = "small", .idea = "128 x 128", .arch = Arch::kSm90a});

void expect_right(const Rung& rung, std::string_view operation, const Case& chosen, DType dtype) {
  harness::Instance instance(operation_named(operation), chosen, dtype, 3);
  const harness::Verification result = harness::verify(rung, instance);
  EXPECT_EQ(result.verdict, harness::Verdict::kPassed) << result.problem << "\n" << result.reason;
}

TEST(IntMm, WideTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_right(kWideIntegers, "int_mm", {.extents = {392, 520, 272}}, DType::kI8);
}

TEST(ScaledMm, TallTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const int options :
       {0, ScaledMm::kRowScales | ScaledMm::kBias, 0 + ScaledMm::kBlockScales}) {
    expect_right(kTall, "scaled_mm", {.extents = {392, 328, 272, options}}, DType::kE4m3);
  }
}

TEST(ScaledMm, SmallTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr int kOptions = ScaledMm::kBlockScales | ScaledMm::kE5m2B | ScaledMm::kBias;
  for (const int output : {0, 1, 2}) {
    expect_right(kSmall, "scaled_mm",
                 {.extents = {136, 456, 400, kOptions}, .attributes = {Value::choice(output)}},
                 DType::kE4m3);
  }
}

// 2^17 products of 128 * 128 are 2^31.
TEST(IntMm, Wraps) {
  constexpr int64_t kDepth = int64_t{1} << 17;
  test::Buffer<int8_t> a(static_cast<size_t>(kDepth));
  test::Buffer<int8_t> b(static_cast<size_t>(kDepth) * 8);
  test::Buffer<int32_t> c(8);
  std::ranges::fill(a, static_cast<int8_t>(-128));
  std::ranges::fill(b, static_cast<int8_t>(-128));
  for (const char* name : {"naive", "any_layout", "wgmma"}) {
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

std::string refusal(const Case& chosen, DType dtype = DType::kE4m3) {
  try {
    const AnyCall call(make_problem(operation_named("scaled_mm"), chosen, dtype));
    return why_not(*resolve("scaled_mm/wgmma").rung, call, 90);
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
  EXPECT_THAT(
      refusal({.extents = {16, 16, 16, ScaledMm::kE5m2B}, .attributes = fast}, DType::kE5m2),
      HasSubstr("e5m2 and e5m2"));
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
