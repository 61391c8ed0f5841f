// What `verify` cannot ask of batched products: every tile whatever the shape, products and rows in
// reverse, and the words of refusals.
#include <gmock/gmock.h>

#include <memory>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"
#include "kernels/gemm/44_batched_wgmma.cuh"
#include "kernels/gemm/47_batched_three_tf32.cuh"
#include "kernels/gemm/48_batched_realigned.cuh"
#include "kernels/gemm/51_batched_pingpong.cuh"
#include "kernels/gemm/52_batched_shifted.cuh"
#include "kernels/gemm/54_batched_tf32.cuh"
#include "kernels/gemm/55_batched_mma.cuh"
#include "kernels/gemm/57_batched_tf32_rs.cuh"
#include "kernels/gemm/60_batched_three_tf32_rs.cuh"
#include "tests/kernels/gemm_instance.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::gemm {
namespace {

constexpr Case batch(int64_t products, int64_t m, int64_t n, int64_t k, int views = 0,
                     int64_t padding = 0) {
  return {.extents = {products, m, n, k, views}, .padding = padding};
}
const Rung& batched_rung(std::string_view name) { return *resolve(concatenate("bmm/", name)).rung; }

// Each tile, chosen by how many SMs there are: clusters that hang over a product's edge, a walk
// that goes from product to product within a block.
TEST(BatchedWgmma, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr int kAT = Bmm::kATransposed;
  constexpr int kBT = Bmm::kBTransposed;
  for (const auto& [multiprocessors, tile_n] : {std::pair{2, 256}, {8, 128}, {1000, 64}}) {
    for (const int views : {0, kAT | kBT, kAT | Bmm::kBExpanded, kBT | Bmm::kInterleaved}) {
      Instance<half> instance(batch(2, 200, 248, 72, views, 8), batched());
      const BatchedCall call = Bmm::call(instance.problem());
      BatchedPolicies::with(plan_batched<BatchedPolicies>(call, multiprocessors).policy,
                            [&]<class Policy>() { EXPECT_EQ(Policy::kTileN, tile_n); });
      run_batched_wgmma<half>(call, multiprocessors, nullptr);
      runtime::synchronize_device();
      instance.expect_right();
    }
  }
}

// The tile that no count of SMs gives to small products: lower ones, a second tile of rows and of
// columns.
template <class Output>
void expect_tall_narrow_right(const Case& chosen) {
  Instance<half> instance(chosen, batched());
  run_batched_wgmma<half, Output, PolicyList<BatchedTallNarrow>>(Bmm::call(instance.problem()), 2,
                                                                 nullptr);
  runtime::synchronize_device();
  instance.expect_right();
}
TEST(BatchedWgmma, TallNarrow) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr int kAT = Bmm::kATransposed;
  constexpr int kBT = Bmm::kBTransposed;
  for (const Case& chosen :
       {batch(3, 264, 72, 136, kBT, 8), batch(3, 40, 64, 72, kAT | kBT, 8),
        batch(2, 200, 56, 200, kAT | Bmm::kBExpanded, 8), batch(2, 264, 64, 72, 0, 8)}) {
    expect_tall_narrow_right<BatchedTensorOutput<half>>(chosen);
    expect_tall_narrow_right<BatchedPlainOutput<half>>(chosen);
  }
}

// The same of rows that start anywhere.
TEST(BatchedRealigned, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const int multiprocessors : {2, 8, 1000}) {
    for (const int views : {0, Bmm::kATransposed | Bmm::kBTransposed}) {
      Instance<half> instance(batch(2, 199, 249, 71, views), batched());
      BatchedCall call = Bmm::call(instance.problem());
      test::Buffer<std::byte> workspace(realigned_bytes(call) + 256);
      void* place = workspace.data();
      size_t space = workspace.size();
      std::align(256, 1, place, space);
      realign<half>(call, place, nullptr);
      run_batched_wgmma<half, BatchedPlainOutput<half>>(call, multiprocessors, nullptr);
      runtime::synchronize_device();
      instance.expect_right();
    }
  }
}

// Products too low for a pair, walks on which the warpgroups' turns cross from product to product.
TEST(BatchedPingpong, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr int kAT = Bmm::kATransposed;
  constexpr int kBT = Bmm::kBTransposed;
  for (int policy = 0; policy < BatchedTurnPolicies::kCount; ++policy) {
    for (const int views : {0, kAT | kBT, kAT | Bmm::kBExpanded, kBT | Bmm::kInterleaved}) {
      for (const int multiprocessors : {2, 6}) {
        Instance<half> instance(batch(3, 200, 136, 136, views, 8), batched());
        const BatchedCall call = Bmm::call(instance.problem());
        run_batched_pingpong<half>(call, policy, multiprocessors, nullptr);
        runtime::synchronize_device();
        instance.expect_right();
      }
    }
  }
}

TEST(BatchedPingpong, InEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    Instance<bf16> instance(batch(5, 136, 72, 72), batched());
    run_batched_pingpong<bf16>(Bmm::call(instance.problem()), 0, 4, nullptr);
    runtime::synchronize_device();
    instance.expect_right();
  });
}

// Rows that start at every multiple of 2 bytes, products that begin anywhere, K that ends in a
// slice, in a vector and between them; the first and the last product, beyond which nothing is
// read.
TEST(BatchedShifted, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr int kAT = Bmm::kATransposed;
  constexpr int kBT = Bmm::kBTransposed;
  for (const bool small : {false, true}) {
    for (const int views :
         {0, kBT, kAT, kAT | kBT, kAT | Bmm::kBExpanded, int{Bmm::kInterleaved}}) {
      for (const auto& [m, n, k, padding] : {std::array<int64_t, 4>{131, 133, 67, 0},
                                             {65, 129, 63, 2},
                                             {7, 5, 3, 0},
                                             {64, 66, 65, 5},
                                             {1, 1, 1, 0},
                                             {129, 127, 128, 1}}) {
        Instance<half> instance(batch(3, m, n, k, views, padding), batched());
        run_batched_shifted<half>(Bmm::call(instance.problem()), small, 2, nullptr);
        runtime::synchronize_device();
        instance.expect_right();
      }
    }
  }
}

TEST(BatchedShifted, InEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    Instance<bf16> instance(batch(5, 69, 71, 73), batched());
    run_batched_shifted<bf16>(Bmm::call(instance.problem()), true, 1, nullptr);
    runtime::synchronize_device();
    instance.expect_right();
  });
}

TEST(BatchedWgmma, InEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    Instance<bf16> instance(batch(5, 136, 72, 72), batched());
    run_batched_wgmma<bf16>(Bmm::call(instance.problem()), 4, nullptr);
    runtime::synchronize_device();
    instance.expect_right();
  });
}

// A matrix that all products share, rows that take turns, operands that are transposed.
TEST(BatchedThreeTf32, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  using enum BatchedThreeTf32::Tiles;
  constexpr int kBT = Bmm::kBTransposed;
  constexpr int kShared = Bmm::kATransposed | Bmm::kBExpanded;
  for (const int views : {kBT, int{Bmm::kAExpanded}, kShared, kBT | Bmm::kInterleaved}) {
    for (const auto tiles : {kTall, kSmall, kNarrow, kSmallPlain}) {
      Instance<float> instance(batch(3, 264, 136, 68, views, 8), batched());
      const BatchedCall call = Bmm::call(instance.problem());
      test::Buffer<std::byte> workspace(BatchedThreeTf32::workspace(call).bytes + 256);
      void* place = workspace.data();
      size_t space = workspace.size();
      std::align(256, 1, place, space);
      BatchedThreeTf32::run_in(tiles, call, {nullptr, place});
      runtime::synchronize_device();
      instance.expect_right();
    }
  }
}

template <class List, class Output>
void expect_every_tile_of_tf32(const Case& chosen) {
  for (int policy = 0; policy < List::kCount; ++policy) {
    Instance<float> instance(chosen, batched());
    const BatchedCall call = Bmm::call(instance.problem());
    test::Buffer<std::byte> workspace(BatchedTf32::workspace(call).bytes + 256);
    void* place = workspace.data();
    size_t space = workspace.size();
    std::align(256, 1, place, space);
    BatchedTf32::run_in<List, Output>(policy, call, {nullptr, place});
    runtime::synchronize_device();
    instance.expect_right();
  }
}
// A matrix that all products share, rows that take turns, operands that are copied and that are
// not.
TEST(BatchedTf32, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr int kBT = Bmm::kBTransposed;
  constexpr int kShared = Bmm::kATransposed | Bmm::kBExpanded;
  for (const int views : {kBT, int{Bmm::kAExpanded}, kShared, kBT | Bmm::kInterleaved}) {
    Case chosen = batch(3, 264, 136, 68, views, 8);
    chosen.attributes[1] = Value::choice(static_cast<int>(Gemm::Precision::kTf32));
    expect_every_tile_of_tf32<BatchedTf32::Policies, BatchedTensorOutput<float>>(chosen);
    expect_every_tile_of_tf32<BatchedTf32::PlainPolicies, BatchedPlainOutput<float>>(chosen);
  }
}

// Either operand brought by lanes, the other one as it lies, shared or copied; C turned and not.
TEST(BatchedTf32Rs, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr int kAT = Bmm::kATransposed;
  constexpr int kBT = Bmm::kBTransposed;
  for (const int views :
       {0, kAT | kBT, kAT, kAT | kBT | Bmm::kAExpanded, int{Bmm::kInterleaved}, int{kBT}}) {
    Case chosen = batch(3, 264, 136, 68, views, 8);
    chosen.attributes[1] = Value::choice(static_cast<int>(Gemm::Precision::kTf32));
    Instance<float> instance(chosen, batched());
    const BatchedCall call = Bmm::call(instance.problem());
    Why nobody_asks;
    EXPECT_EQ(BatchedTf32Rs::supports(call, nobody_asks), views != kBT);
    if (views == kBT) continue;
    test::Buffer<std::byte> workspace(BatchedTf32Rs::workspace(call).bytes + 256);
    void* place = workspace.data();
    size_t space = workspace.size();
    std::align(256, 1, place, space);
    for (int policy = 0; policy < BatchedTf32Policies::kCount; ++policy) {
      BatchedTf32Rs::run_in(policy, call, 4, {nullptr, place});
      runtime::synchronize_device();
      instance.expect_right();
    }
  }
}

// Two warpgroups in turns, lanes that read and give back.
TEST(BatchedTf32Rs, InEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    Case chosen = batch(5, 136, 200, 132, 0, 8);
    chosen.attributes[1] = Value::choice(static_cast<int>(Gemm::Precision::kTf32));
    Instance<float> instance(chosen, batched());
    const BatchedCall call = Bmm::call(instance.problem());
    constexpr int kTurns = 1;
    BatchedTf32Rs::run_in(kTurns, call, 4, {nullptr, nullptr});
    runtime::synchronize_device();
    instance.expect_right();
  });
}

void run_three_rs(const BatchedThreeTf32Rs::Plan& plan, const BatchedCall& call) {
  const BatchedCall one = plan.is_turned ? transposed(call) : call;
  test::Buffer<std::byte> workspace(BroughtA(one).bytes() + b_along(one).bytes() + 256);
  void* place = workspace.data();
  size_t space = workspace.size();
  BatchedThreeTf32Rs::run_as<BatchedTensorOutput<float>, BatchedTransposedOutput<float>,
                             BatchedPlainOutput<float>>(
      plan, call, {nullptr, std::align(256, 1, place, space)});
  runtime::synchronize_device();
}
// Either operand brought by lanes, whichever way it lies, in each of the tiles.
void expect_three_rs_right(const Case& chosen) {
  Instance<float> instance(chosen, batched());
  const BatchedCall call = Bmm::call(instance.problem());
  for (const bool is_turned : {false, true}) {
    for (int policy = 0; policy < ThreeRsPolicies::kCount; ++policy) {
      BatchedThreeTf32Rs::Plan plan = BatchedThreeTf32Rs::plan(call, is_turned, policy);
      const Matrix& brought = is_turned ? call.b : call.a;
      const bool across =
          brought.contiguous == (is_turned ? Contiguous::kColumns : Contiguous::kRows);
      EXPECT_EQ(plan.time < kNever, policy == 1 || !is_turned || across);
      if (plan.time == kNever) continue;
      run_three_rs(plan, call);
      instance.expect_right();
    }
  }
}
TEST(BatchedThreeTf32Rs, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr int kAT = Bmm::kATransposed;
  constexpr int kBT = Bmm::kBTransposed;
  for (const int views :
       {0, kAT | kBT, kAT, kAT | kBT | Bmm::kAExpanded, int{Bmm::kInterleaved}, int{kBT}}) {
    expect_three_rs_right(batch(3, 264, 136, 196, views, 8));
  }
}
TEST(BatchedThreeTf32Rs, InEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] { expect_three_rs_right(batch(5, 136, 200, 164, 0, 8)); });
}
// Lanes store C then, in tiles for which they have registers.
TEST(BatchedThreeTf32Rs, RowsThatBeginAnywhere) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const int views : {0, int{Bmm::kBTransposed}}) {
    Instance<float> instance(batch(3, 136, 135, 100, views), batched());
    const BatchedCall call = Bmm::call(instance.problem());
    EXPECT_EQ(BatchedThreeTf32Rs::plan(call, true, 1).time, kNever);
    const BatchedThreeTf32Rs::Plan plan = BatchedThreeTf32Rs::plan(call);
    EXPECT_EQ(plan.policy, 1);
    run_three_rs(plan, call);
    instance.expect_right();
  }
  constexpr int kBT = Bmm::kBTransposed;
  for (const int views : {0, kBT, Bmm::kATransposed | kBT, kBT | Bmm::kAExpanded}) {
    Instance<float> neither(batch(3, 137, 136, 101, views, views == 0 ? 0 : 1), batched());
    const BatchedCall call = Bmm::call(neither.problem());
    run_three_rs(BatchedThreeTf32Rs::plan(call), call);
    neither.expect_right();
  }
}

TEST(BatchedMma, InEveryOrder) {
  test::in_every_order([] {
    Instance<bf16> instance(batch(3, 33, 35, 70, Bmm::kATransposed), batched());
    run_and_wait(batched_rung("batched_mma"), instance.call());
    instance.expect_right();
  });
}

// Products in turns whose sums are not rounded.
template <int kPolicy>
struct WideTile {
  static bool supports(const BatchedCall& call, Why& why) {
    return BatchedPingpong::supports(call, why);
  }
  static void run(const BatchedCall& call, const Context& context) {
    run_batched_pingpong<half, float>(call, kPolicy, 4, context.stream);
  }
};
template <int kPolicy>
constexpr Rung kWideTile = rung_of<WideTile<kPolicy>, DTypes{DType::kF16}, Bmm>(
    {.name = "tile", .idea = "one of the policies", .arch = Arch::kSm90a});
TEST(BatchedPingpong, EveryTileOfWideOutputs) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  Case chosen = batch(3, 200, 136, 136, Bmm::kATransposed, 8);
  chosen.attributes[0] = Value::choice(0);
  const auto expect_right = [&](const Rung& tile) {
    harness::Instance instance(batched(), chosen, DType::kF16, 3);
    const harness::Verification result = harness::verify(tile, instance);
    EXPECT_EQ(result.verdict, harness::Verdict::kPassed) << result.reason;
  };
  static_assert(BatchedTurnPolicies::kCount == 3);
  expect_right(kWideTile<0>);
  expect_right(kWideTile<1>);
  expect_right(kWideTile<2>);
}

TEST(Bmm, BestIsTheFastestThatTakesTheCall) {
  const auto chosen = [](const AnyCall& call, int capability) {
    return std::string(best(call, capability).name);
  };
  const AnyCall aligned = Instance<half>(batch(2, 8, 8, 8), batched()).call();
  EXPECT_EQ(chosen(aligned, 90), "batched_mma");
  EXPECT_EQ(chosen(aligned, 80), "batched_mma");
  EXPECT_EQ(chosen(Instance<half>(batch(2, 7, 8, 8, Bmm::kATransposed), batched()).call(), 90),
            "batched_mma");
  const int expanded = Bmm::kAExpanded | Bmm::kBTransposed;
  EXPECT_EQ(chosen(Instance<half>(batch(2, 8, 8, 8, expanded), batched()).call(), 90),
            "batched_mma");
  EXPECT_EQ(chosen(Instance<half>(batch(4000, 2, 2, 2), batched()).call(), 90), "batched_naive");
  EXPECT_EQ(chosen(Instance<float>(batch(2, 7, 5, 3, expanded), batched()).call(), 80),
            "batched_warp_tile");
  EXPECT_EQ(chosen(Instance<half>(batch(3, 63, 63, 63), batched()).call(), 90), "batched_mma");
  const AnyCall deep = Instance<half>(batch(3, 63, 63, 129), batched()).call();
  // Where many SMs share them, small tiles of mma.sync are sooner done.
  const bool has_few = device_facts().multiprocessors <= 4;  // as the emulator
  EXPECT_EQ(chosen(deep, 90), has_few ? "batched_shifted" : "batched_mma");
  EXPECT_EQ(chosen(deep, 80), "batched_mma");
  EXPECT_EQ(chosen(Instance<half>(batch(4, 512, 512, 512), batched()).call(), 90),
            "batched_pingpong");
  const AnyCall large = Instance<float>(batch(9, 512, 512, 512), batched()).call();
  EXPECT_EQ(chosen(large, 90), "batched_three_tf32");
  EXPECT_EQ(chosen(large, 80), "batched_warp_tile");
}

TEST(Bmm, BestOfWideOutputsAndOfTf32) {
  const auto chosen = [](const Case& of, DType dtype, int capability) {
    harness::Instance instance(batched(), of, dtype, 3);
    return std::string(best(AnyCall(instance.problem()), capability).name);
  };
  const auto wide = [&](Case of, int capability) {
    of.attributes[0] = Value::choice(0);
    return chosen(of, DType::kF16, capability);
  };
  EXPECT_EQ(wide(batch(4, 256, 256, 256), 90), "batched_pingpong");
  EXPECT_EQ(wide(batch(4, 256, 256, 256), 80), "batched_mma");
  EXPECT_EQ(wide(batch(4, 255, 255, 255), 90), "batched_realigned");
  EXPECT_EQ(wide(batch(4, 255, 255, 255), 80), "batched_mma");
  EXPECT_EQ(wide(batch(2, 8, 8, 8), 90), "batched_mma");
  EXPECT_EQ(wide(batch(2, 7, 5, 3), 90), "batched_mma");
  const auto cut = [&](Case of, int capability) {
    of.attributes[1] = Value::choice(static_cast<int>(Gemm::Precision::kTf32));
    return chosen(of, DType::kF32, capability);
  };
  EXPECT_EQ(cut(batch(9, 512, 512, 512, Bmm::kBTransposed), 90), "batched_tf32");
  EXPECT_EQ(cut(batch(9, 512, 512, 512), 90), "batched_tf32_rs");
  EXPECT_EQ(cut(batch(9, 512, 512, 512), 80), "batched_warp_tile");
  EXPECT_EQ(cut(batch(2, 7, 5, 3), 90), "batched_warp_tile");
}

// With what it wants of workspace.
void run_with_workspace(const Rung& rung, const AnyCall& call) {
  test::Buffer<std::byte> workspace(workspace_of(rung, call).bytes + 256);
  void* place = workspace.data();
  size_t space = workspace.size();
  std::align(256, 1, place, space);
  ws::run(rung, call, {.workspace = place});
  runtime::synchronize_device();
}

// The last product of `tensor` becomes its first.
template <class T>
void reverse_products(Tensor& tensor) {
  tensor.data = tensor.as<T>() + (tensor.extent(0) - 1) * tensor.strides[0];
  tensor.strides[0] = -tensor.strides[0];
}
template <class T>
void expect_products_in_reverse(std::initializer_list<const char*> rungs) {
  for (const char* name : rungs) {
    for (int reversed = 0; reversed < 3; ++reversed) {
      Instance<T> instance(batch(3, 40, 72, 24, Bmm::kBTransposed), batched());
      reverse_products<T>(instance.problem().tensor(reversed));
      SCOPED_TRACE(testing::Message() << name << ", tensor " << reversed);
      ASSERT_EQ(why_not(batched_rung(name), instance.call(), 90), "");
      run_with_workspace(batched_rung(name), instance.call());
      instance.expect_right();
    }
  }
}
TEST(Bmm, ProductsMayLieInReverse) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_products_in_reverse<float>(
      {"batched_three_tf32", "batched_three_tf32_rs", "batched_warp_tile"});
  expect_products_in_reverse<half>({"batched_realigned", "batched_shifted", "batched_any_layout"});
  Instance<half> instance(batch(3, 40, 72, 24), batched());
  reverse_products<half>(instance.problem().tensor(1));
  EXPECT_THAT(why_not(batched_rung("batched_wgmma"), instance.call(), 90),
              testing::HasSubstr("products of b lie one before the other"));
}

TEST(Bmm, RowsMayLieInReverse) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const int reversed : {0, 1}) {
    Instance<half> instance(batch(3, 70, 67, 65), batched());
    Tensor& tensor = instance.problem().tensor(reversed);
    tensor.data = tensor.as<half>() + (tensor.extent(1) - 1) * tensor.strides[1];
    tensor.strides[1] = -tensor.strides[1];
    ASSERT_EQ(why_not(batched_rung("batched_shifted"), instance.call(), 90), "");
    run_with_workspace(batched_rung("batched_shifted"), instance.call());
    instance.expect_right();
  }
}

// Runs that are shorter than a group's piece, longer than a block's, and not whole groups.
TEST(RunLanes, TakeEveryElementOnce) {
  constexpr int kWidth = 4;
  using Lanes = RunLanes<256, 16, 8>;
  for (const auto& [runs, length] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 130}, {33, 127}, {7, 4096}, {2, 4097}, {5, 9000}}) {
    const Lanes lanes(runs, length);
    std::vector<int> taken(2 * runs * length);
    for (int64_t block = 0; block < lanes.blocks(2); ++block) {
      for (int thread = 0; thread < 256; ++thread) {
        const auto [matrix, run, first] = lanes.at(block, thread, kWidth);
        if (run >= runs) continue;
        for (int i = 0; i < 4; ++i) {
          for (int64_t e = first + i * lanes.step(kWidth);
               e < first + i * lanes.step(kWidth) + kWidth; ++e) {
            if (e < length) ++taken[(matrix * runs + run) * length + e];
          }
        }
      }
    }
    EXPECT_THAT(taken, testing::Each(1)) << runs << " of " << length;
  }
}

TEST(Bmm, RefusalsNameTheMatrix) {
  Instance<half> instance(batch(3, 64, 64, 64), batched());
  Problem& problem = instance.problem();
  const Rung& hopper = batched_rung("batched_wgmma");
  EXPECT_EQ(why_not(hopper, instance.call(), 90), "");
  EXPECT_THAT(why_not(hopper, instance.call(), 80), testing::HasSubstr("sm_90a"));
  problem.tensor(0).strides[0] = 66;  // the matrices overlap; only where they start matters
  EXPECT_THAT(why_not(hopper, instance.call(), 90),
              testing::HasSubstr("rows of a start at multiples of 4"));
  EXPECT_THAT(why_not(batched_rung("batched_naive"), instance.call(), 90),
              testing::HasSubstr("follow one another"));
  EXPECT_EQ(why_not(batched_rung("batched_any_layout"), instance.call(), 90), "");
  problem.tensor(0).strides[0] = int64_t{1} << 39;
  EXPECT_THAT(why_not(hopper, instance.call(), 90), testing::HasSubstr("1099511627776 bytes"));
}

TEST(Bmm, RefusesMoreTilesThanAGridHas) {
  BatchedCall call;
  call.batch = int64_t{1} << 31;
  Reason reason;
  Why why(&reason);
  EXPECT_FALSE(fits_grid(call, 1, why));
  EXPECT_EQ(reason, "2147483648 products of 1 tiles are more than 2147483647");
  call.batch = 0;
  EXPECT_TRUE(fits_grid(call, 1, why));
}

TEST(Bmm, ShapesMustFit) {
  Problem problem = make_problem(batched(), batch(2, 4, 6, 8), DType::kF16);
  const auto expect_words = [&](const char* words) {
    problem.tensor(2) = {};
    try {
      AnyCall{problem};
      ADD_FAILURE() << "accepted; expected words about " << words;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(words));
    }
  };
  problem.tensor(1).shape[1] = 7;
  expect_words("one K, not 8 and 7");
  problem.tensor(1).shape[0] = 3;
  expect_words("one size, not 2 and 3");
  problem.tensor(1).dtype = DType::kBf16;
  expect_words("one dtype");
  problem.tensor(1).rank = 2;
  expect_words("batches of matrices");
}

TEST(Bmm, WithoutElements) {
  Instance<float> nothing(batch(2, 5, 7, 0), batched());
  const AnyCall call = nothing.call();
  run_and_wait(best(call, runtime::capability()), call);
  for (int64_t i = 0; i < 70; ++i) EXPECT_EQ(element(call.problem().tensor(2), i), 0);
  for (const auto& [products, m, n] : {std::array{0, 5, 7}, {2, 0, 7}, {2, 5, 0}}) {
    const AnyCall empty = Instance<half>(batch(products, m, n, 8), batched()).call();
    EXPECT_THAT(empty.problem().tensor(2).extents(), testing::ElementsAre(products, m, n));
    run_and_wait(best(empty, runtime::capability()), empty);
  }
}

}  // namespace
}  // namespace ws::gemm
