// What `verify` cannot ask of gemm on TF32: every tile whatever the shape, operands in any place,
// and numbers that are not finite.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <memory>
#include <type_traits>

#include "kernels/gemm/40_wgmma_tf32.cuh"
#include "kernels/gemm/46_three_tf32.cuh"
#include "kernels/gemm/56_wgmma_tf32_rs.cuh"
#include "kernels/gemm/58_split_three_tf32.cuh"
#include "kernels/gemm/59_split_tf32.cuh"
#include "kernels/gemm/60_batched_three_tf32_rs.cuh"
#include "tests/kernels/gemm_instance.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::gemm {
namespace {

using enum Gemm::Layout;

// Numbers that tf32 holds: then it is as near as f32.
void cut_to_tf32(Problem& problem) {
  for (int i = 0; i < 2; ++i) {
    const Tensor& tensor = problem.tensor(i);
    for (int64_t at = 0; at < tensor.elements(); ++at) {
      float& element = tensor.as<float>()[offset_of(tensor, at)];
      element = ptx::cut_to_tf32(element);
    }
  }
}

TEST(WgmmaTf32, EveryLayoutAndRowsThatBeginAnywhere) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const auto& [layout, n, padding, offset] : {std::tuple{kNn, 264, 4, 0},
                                                   {kNt, 264, 4, 0},
                                                   {kTn, 264, 4, 0},
                                                   {kTt, 264, 4, 0},
                                                   {kNn, 259, 0, 0},
                                                   {kNt, 259, 5, 1},
                                                   {kTn, 257, 3, 1},
                                                   {kTt, 264, 4, 1}}) {
    SCOPED_TRACE(testing::Message() << "layout " << static_cast<int>(layout) << ", " << n);
    Instance<float> instance(shape(140, n, 100, layout, padding, offset));
    cut_to_tf32(instance.problem());
    Call call = Gemm::call(instance.problem());
    Why nobody_asks;
    EXPECT_FALSE(WgmmaTf32::supports(call, nobody_asks));
    call.tf32 = true;
    EXPECT_TRUE(WgmmaTf32::supports(call, nobody_asks));
    test::Buffer<std::byte> workspace(WgmmaTf32::workspace(call).bytes + 256);
    void* place = workspace.data();
    size_t space = workspace.size();
    WgmmaTf32::run(call, {nullptr, std::align(256, space - 256, place, space)});
    runtime::synchronize_device();
    instance.expect_right();
  }
}

// A call in each kind of tiles: flags are zero before and after.
template <class Rung>
void expect_tiles_right(const Case& chosen) {
  using enum Tf32Tiles;
  for (const Tf32Tiles tiles : {kBig, kSmall, kNarrow, kCut}) {
    SCOPED_TRACE(testing::Message() << "tiles " << static_cast<int>(tiles));
    Instance<float> instance(chosen);
    cut_to_tf32(instance.problem());
    const Call call = Gemm::call(instance.problem());
    const size_t copied = KMajorOperands(call, /*has_low=*/false).bytes();
    const Workspace wanted = tf32_workspace(tiles, copied);
    test::Buffer<std::byte> workspace(wanted.bytes + 256);
    void* place = workspace.data();
    size_t space = workspace.size();
    std::align(256, 1, place, space);
    auto* const flags = static_cast<std::byte*>(place);
    std::fill_n(flags, wanted.zeroed, std::byte{});
    Rung::run_in(tiles, call, {nullptr, place});
    runtime::synchronize_device();
    instance.expect_right();
    EXPECT_EQ(std::count(flags, flags + wanted.zeroed, std::byte{}),
              static_cast<std::ptrdiff_t>(wanted.zeroed));
  }
}

TEST(WgmmaTf32, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] { expect_tiles_right<WgmmaTf32>(shape(264, 264, 72, kNt, 4)); });
}

// Of the last the one that begins anywhere is copied.
TEST(WgmmaTf32Rs, OperandsAcrossK) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const auto& [layout, m, n, offset, takes] : {std::tuple{kNn, 140, 264, 0, true},
                                                    {kTt, 140, 264, 0, true},
                                                    {kTn, 140, 264, 0, true},
                                                    {kTn, 264, 140, 0, true},
                                                    {kNt, 140, 264, 0, false},
                                                    {kNn, 140, 262, 0, false},
                                                    {kTn, 140, 264, 1, true}}) {
    SCOPED_TRACE(testing::Message() << "layout " << static_cast<int>(layout) << ", " << m);
    Instance<float> instance(shape(m, n, 100, layout, n % 4 == 0 ? 4 : 0, offset));
    cut_to_tf32(instance.problem());
    Call call = Gemm::call(instance.problem());
    Why nobody_asks;
    EXPECT_FALSE(WgmmaTf32Rs::supports(call, nobody_asks));
    call.tf32 = true;
    EXPECT_EQ(WgmmaTf32Rs::supports(call, nobody_asks), takes);
    if (!takes) continue;
    test::Buffer<std::byte> workspace(WgmmaTf32Rs::workspace(call).bytes + 256);
    void* place = workspace.data();
    size_t space = workspace.size();
    WgmmaTf32Rs::run(call, {nullptr, std::align(256, space - 256, place, space)});
    runtime::synchronize_device();
    instance.expect_right();
  }
}

TEST(WgmmaTf32Rs, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    for (const auto layout : {kNn, kTt}) {
      expect_tiles_right<WgmmaTf32Rs>(shape(264, 392, 132, layout, 4));
    }
  });
}

// A workspace whose flags are zero before and after.
void run_three_tf32(ThreeTf32::Tiles tiles, const Call& call) {
  const Workspace wanted = ThreeTf32::workspace_in(tiles, call);
  test::Buffer<std::byte> workspace(wanted.bytes + 256);
  void* place = workspace.data();
  size_t space = workspace.size();
  std::align(256, wanted.bytes, place, space);
  auto* const flags = static_cast<std::byte*>(place);
  std::fill_n(flags, wanted.zeroed, std::byte{});
  ThreeTf32::run_in(tiles, call, {nullptr, place});
  runtime::synchronize_device();
  EXPECT_EQ(std::count(flags, flags + wanted.zeroed, std::byte{}),
            static_cast<std::ptrdiff_t>(wanted.zeroed));
}

TEST(ThreeTf32, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  using enum ThreeTf32::Tiles;
  test::in_every_order([] {
    for (const ThreeTf32::Tiles tiles : {kTall, kSmall, kNarrow, kCut, kSmallPlain}) {
      Instance<float> instance(shape(264, 200, 100, kNt, 4));
      run_three_tf32(tiles, Gemm::call(instance.problem()));
      instance.expect_right();
    }
  });
}

// Products of one pair of numbers each: as f32 has them, also of those that are not finite, have no
// low part, or are so small that TF32 has few bits for it.
template <class Run>
void expect_every_kind_of_number_right(const Run& run) {
  constexpr auto kSignalling = std::bit_cast<float>(0x7F800001U);
  constexpr float kNumbers[] = {1,        -1,        0,           INFINITY,  -INFINITY,
                                NAN,      1.25F,     1.0001F,     -1e-38F,   3e38F,
                                1e-30F,   0x1p-100F, 4097,        0x1p-66F,  -0x1p99F,
                                16777215, 0x1p-149F, kSignalling, 0x1p-126F, -0x1p-112F};
  constexpr auto kCount = static_cast<int64_t>(std::size(kNumbers));
  Instance<float> instance(shape(kCount, kCount, 40, kNt));
  for (int i = 0; i < 2; ++i) {
    std::fill_n(instance.problem().tensor(i).as<float>(), kCount * 40, 0.0F);
    for (int64_t j = 0; j < kCount; ++j) {
      instance.problem().tensor(i).as<float>()[j * 40 + 3] = kNumbers[j];
    }
  }
  const Call call = Gemm::call(instance.problem());
  run(call);
  for (int64_t i = 0; i < kCount; ++i) {
    for (int64_t j = 0; j < kCount; ++j) {
      const float expected = kNumbers[i] * kNumbers[j];
      const float got = call.c.as<float>()[i * call.c.leading + j];
      const auto what = testing::Message() << kNumbers[i] << " * " << kNumbers[j] << " = " << got;
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got)) << what;
      } else if (std::isinf(expected)) {
        const float smaller = std::min(std::abs(kNumbers[i]), std::abs(kNumbers[j]));
        if (smaller < 0x1p-136F) continue;  // TF32 has 0 there
        EXPECT_EQ(got, expected) << what;
      } else {
        const float largest = std::max(std::abs(kNumbers[i]), std::abs(kNumbers[j]));
        EXPECT_LE(std::abs(got - expected), 0x1p-19F * std::abs(expected) + 0x1p-135F * largest)
            << what;
      }
    }
  }
}

TEST(ThreeTf32, EveryKindOfNumber) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_every_kind_of_number_right(
      [](const Call& call) { run_three_tf32(ThreeTf32::Tiles::kSmall, call); });
}

template <class Rung>
void run_split(const typename Rung::Plan& plan, const Call& call) {
  test::Buffer<std::byte> workspace(plan.bytes() + 256);
  void* place = workspace.data();
  size_t space = workspace.size();
  std::align(256, plan.bytes(), place, space);
  Rung::run_as(plan, LinesOutput<float>::of(call), {nullptr, place});
  runtime::synchronize_device();
}

// Lanes bring either operand, whichever way it lies; parts of K that are not alike.
template <class Rung>
void expect_split_right() {
  for (const auto layout : {kNn, kNt, kTn, kTt}) {
    for (const bool is_turned : {false, true}) {
      for (int policy = 0; policy < 3; ++policy) {
        SCOPED_TRACE(testing::Message() << "layout " << static_cast<int>(layout) << ", turned "
                                        << is_turned << ", tile " << policy);
        Instance<float> instance(shape(140, 72, 300, layout, 4));
        if constexpr (std::is_same_v<Rung, SplitTf32>) cut_to_tf32(instance.problem());
        const Call call = Gemm::call(instance.problem());
        typename Rung::Plan plan = Rung::plan(call, is_turned);
        plan.split = {.policy = policy, .parts = 1 + policy};
        run_split<Rung>(plan, call);
        instance.expect_right();
      }
    }
  }
}

TEST(SplitThreeTf32, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] { expect_split_right<SplitThreeTf32>(); });
}

TEST(SplitTf32, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] { expect_split_right<SplitTf32>(); });
}

TEST(SplitTf32, OnlyWhereItIsAllowed) {
  Instance<float> instance(shape(24, 40, 32, kNt));
  Call call = Gemm::call(instance.problem());
  Why why;
  EXPECT_FALSE(SplitTf32::supports(call, why));
  call.tf32 = true;
  EXPECT_TRUE(SplitTf32::supports(call, why));
}

TEST(SplitThreeTf32, EveryKindOfNumber) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const bool is_turned : {false, true}) {
    expect_every_kind_of_number_right([&](const Call& call) {
      run_split<SplitThreeTf32>(SplitThreeTf32::plan(call, is_turned), call);
    });
  }
}

TEST(BatchedThreeTf32Rs, EveryKindOfNumber) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const bool is_turned : {false, true}) {
    expect_every_kind_of_number_right([&](const Call& call) {
      const BatchedCall one{call, 1, DType::kF32};
      BatchedThreeTf32Rs::run_as<BatchedTensorOutput<float>, BatchedTransposedOutput<float>,
                                 BatchedPlainOutput<float>>(
          BatchedThreeTf32Rs::plan(one, is_turned, 1), one, {});
      runtime::synchronize_device();
    });
  }
}

// What is copied then, and what no copy engine takes.
TEST(SplitThreeTf32, RowsThatBeginAnywhere) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const auto layout : {kNn, kNt, kTn, kTt}) {
    Instance<float> both(shape(21, 131, 101, layout));
    const Call call = Gemm::call(both.problem());
    for (const bool is_turned : {false, true}) {
      const SplitThreeTf32::Plan plan = SplitThreeTf32::plan(call, is_turned);
      EXPECT_GT(plan.a.bytes(), 0);
      EXPECT_GT(plan.b.bytes(), 0);
      run_split<SplitThreeTf32>(plan, call);
      both.expect_right();
    }
  }
  Why why;
  Instance<float> one(shape(21, 132, 100, kTn));
  const Call call = Gemm::call(one.problem());
  EXPECT_TRUE(SplitThreeTf32::supports(call, why));
  const SplitThreeTf32::Plan plan = SplitThreeTf32::plan(call);
  EXPECT_TRUE(plan.is_turned);
  EXPECT_GT(plan.b.bytes(), 0);
  run_split<SplitThreeTf32>(plan, call);
  one.expect_right();
}

}  // namespace
}  // namespace ws::gemm
