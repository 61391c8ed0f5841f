// What `verify` cannot ask of the gemm family: every configuration whatever the shape, strides as
// torch leaves them, and the words of refusals.
#include <gmock/gmock.h>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"
#include "kernels/gemm/28_mma_pipeline.cuh"
#include "kernels/gemm/34_wgmma_multicast.cuh"
#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/45_pingpong.cuh"
#include "tests/kernels/gemm_instance.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::gemm {
namespace {

using enum Gemm::Layout;
constexpr Gemm::Layout kAllLayouts[] = {kNn, kNt, kTn, kTt};

// Every layout of a shape through one configuration of the warp-specialised rung, or of pingpong.
template <WgmmaShape kShape, class T = half>
void expect_shape_right(int64_t m, int64_t n, int64_t k) {
  for (const Gemm::Layout layout : kAllLayouts) {
    Instance<T> instance(shape(m, n, k, layout, 8));
    const Call call = Gemm::call(instance.problem());
    with_types<DTypes{kDType<T>}>(call, [&]<class U, Contiguous kA, Contiguous kB>() {
      KernelOf<U, kA, kB, WgmmaPolicy<kShape>>::run(call, 4, nullptr);
    });
    runtime::synchronize_device();
    instance.expect_right();
  }
}

// Four blocks: several tiles for each, clusters that hang over the edge, K that does not divide.
TEST(WarpSpecialized, BigTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_shape_right<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2}>(
      392, 520, 360);
}

TEST(WarpSpecialized, BigTileInEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    expect_shape_right<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2}, bf16>(
        136, 264, 72);
  });
}

TEST(WarpSpecialized, MiddleTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_shape_right<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2}>(
      264, 264, 520);
}

TEST(WarpSpecialized, SmallTileAlone) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_shape_right<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8}>(264, 200, 136);
}

// Five and four tiles for two clusters: turns pass both ways, the last to either warpgroup. The
// ring goes round within a tile.
TEST(Pingpong, TurnsInEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    expect_shape_right<
        WgmmaShape{.tile_m = 64, .tile_n = 128, .stages = 2, .cluster_m = 2, .users = 1}, bf16>(
        264, 264, 136);
  });
}

// Two row blocks; either operand shared, or none; one slice of K; one tile.
TEST(Pingpong, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_shape_right<WgmmaShape{
      .tile_m = 128, .tile_n = 192, .stages = 2, .cluster_m = 2, .users = 1}>(264, 400, 328);
  expect_shape_right<WgmmaShape{
      .tile_m = 128, .tile_n = 128, .stages = 3, .cluster_n = 2, .users = 1}>(392, 264, 40);
  expect_shape_right<WgmmaShape{.tile_m = 64, .tile_n = 256, .stages = 4, .users = 1}>(40, 200,
                                                                                       136);
}

TEST(Pingpong, ThreeRowBlocks) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_shape_right<WgmmaShape{
      .tile_m = 192, .tile_n = 112, .stages = 3, .cluster_m = 2, .store_buffers = 1, .users = 1}>(
      392, 240, 136);
}

// What is beside whole panels is stored by 32 columns, or by 16.
TEST(Pingpong, WidthsThatAreNoPanels) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_shape_right<WgmmaShape{
      .tile_m = 128, .tile_n = 160, .stages = 5, .cluster_m = 2, .users = 1}>(136, 504, 72);
  expect_shape_right<WgmmaShape{
      .tile_m = 64, .tile_n = 144, .stages = 4, .cluster_m = 2, .users = 1}>(136, 440, 136);
}

// Three pieces beside two panels; a block that lies outside and is pulled in.
TEST(Pingpong, PiecesBesidePanels) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  constexpr WgmmaShape kShape{
      .tile_m = 128, .tile_n = 176, .stages = 3, .cluster_n = 2, .users = 1};
  expect_shape_right<kShape>(136, 144, 136);
  expect_shape_right<kShape>(136, 360, 136);
}

// Widths of 8: C stored by 8 columns beside panels; shares of B of unlike size, or of a part of K;
// panels of 8, 24 and 40 columns.
TEST(Pingpong, WidthsOfEight) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    expect_shape_right<
        WgmmaShape{.tile_m = 64, .tile_n = 72, .stages = 3, .cluster_m = 2, .users = 1}, bf16>(
        72, 136, 136);
  });
  expect_shape_right<WgmmaShape{
      .tile_m = 128, .tile_n = 168, .stages = 3, .cluster_m = 2, .users = 1}>(136, 328, 200);
  expect_shape_right<WgmmaShape{
      .tile_m = 128, .tile_n = 168, .stages = 3, .cluster_n = 2, .users = 1}>(136, 344, 136);
  expect_shape_right<WgmmaShape{.tile_m = 64, .tile_n = 216, .stages = 3, .users = 1}>(72, 440,
                                                                                       200);
  expect_shape_right<WgmmaShape{
      .tile_m = 256, .tile_n = 152, .stages = 3, .cluster_m = 2, .store_buffers = 1}>(264, 312,
                                                                                      200);
}

// A block alone, whose copies begin before all have met; a last panel of B that is half as wide.
TEST(Pingpong, LowTiles) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    expect_shape_right<WgmmaShape{.tile_m = 64, .tile_n = 32, .stages = 12, .users = 1}, bf16>(
        72, 72, 136);
  });
  expect_shape_right<WgmmaShape{
      .tile_m = 64, .tile_n = 96, .stages = 9, .cluster_m = 2, .users = 1}>(136, 200, 136);
  expect_shape_right<WgmmaShape{.tile_m = 64, .tile_n = 64, .stages = 12, .users = 1}>(200, 136,
                                                                                       1000);
  expect_shape_right<WgmmaShape{.tile_m = 64, .tile_n = 224, .stages = 5, .users = 1}>(72, 456,
                                                                                       392);
}

TEST(WarpSpecialized, SharedTiles) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  // Both operands shared; a share that is a part of K; two row blocks for a consumer.
  expect_shape_right<WgmmaShape{
      .tile_m = 128, .tile_n = 64, .stages = 3, .cluster_m = 2, .cluster_n = 2}>(264, 136, 136);
  expect_shape_right<WgmmaShape{.tile_m = 128, .tile_n = 192, .stages = 2, .cluster_m = 2}>(
      136, 200, 200);
  expect_shape_right<WgmmaShape{
      .tile_m = 256, .tile_n = 128, .stages = 2, .cluster_n = 2, .store_buffers = 3}>(264, 264,
                                                                                      136);
}

TEST(WarpSpecialized, WidthsThatAreNoPanels) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_shape_right<WgmmaShape{.tile_m = 128, .tile_n = 160, .stages = 4, .cluster_m = 2}>(
      264, 328, 200);
  expect_shape_right<WgmmaShape{.tile_m = 128, .tile_n = 224, .stages = 3, .cluster_m = 2}>(
      136, 456, 136);
  expect_shape_right<WgmmaShape{.tile_m = 128, .tile_n = 176, .stages = 3, .cluster_m = 2}>(
      136, 360, 136);
  expect_shape_right<WgmmaShape{.tile_m = 128, .tile_n = 176, .stages = 2, .cluster_n = 2}>(
      136, 360, 136);
  expect_shape_right<WgmmaShape{.tile_m = 128, .tile_n = 208, .stages = 2, .cluster_m = 2}>(
      136, 216, 136);
}

// A shape through the rungs that lead there, on four SMs: several tiles a block.
template <class Blocks, class T>
void expect_blocks_right(int64_t m, int64_t n, int64_t k) {
  Instance<T> instance(shape(m, n, k, kNn, 8));
  WgmmaRolesKernel<T, kWgmmaWideShape, Blocks>::run(Gemm::call(instance.problem()), 4, nullptr);
  runtime::synchronize_device();
  instance.expect_right();
}

TEST(WgmmaPersistent, SeveralTilesABlock) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] { expect_blocks_right<BlockAnSm, half>(264, 520, 328); });
}

TEST(WgmmaMulticast, SeveralTilesACluster) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] { expect_blocks_right<TwoBlocks, bf16>(264, 520, 328); });
}

// Where A and B are aligned for the copy engine and C is not.
TEST(Wgmma, RowsOfCMayStartAnywhere) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const char* name : {"wgmma_tile", "wgmma_stages", "wgmma_roles", "wgmma_wide"}) {
    Instance<half> instance(shape(136, 264, 72, kNn, 8));
    --instance.problem().tensor(2).strides[0];
    SCOPED_TRACE(name);
    ASSERT_EQ(why_not(rung(name), instance.call(), 90), "");
    run_and_wait(rung(name), instance.call());
    instance.expect_right();
  }
}

template <class Policy>
void expect_every_width_right() {
  for (const int64_t k : {72, 68, 66, 65}) {  // rows at multiples of 16, 8, 4 and 2 bytes
    for (const Gemm::Layout layout : kAllLayouts) {
      Instance<half> instance(shape(k + 64, k + 128, k, layout));
      const Call call = Gemm::call(instance.problem());
      with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
        MmaPipelineKernel<half, kA, kB, Policy>::run(call, copy_bytes_of(call), nullptr);
      });
      runtime::synchronize_device();
      instance.expect_right();
    }
  }
}
TEST(MmaPipeline, CopiesOfEveryWidth) { expect_every_width_right<MmaSmall>(); }
TEST(MmaPipeline, CopiesOfEveryWidthIntoTinyTiles) { expect_every_width_right<MmaTiny>(); }

// torch's a @ w.t() and transposed outputs: the strides say it, not `layout`.
template <class T>
void expect_strides_transpose(std::initializer_list<const char*> rungs) {
  for (const char* name : rungs) {
    if (!takes(rung(name), Instance<T>(shape(8, 8, 8, kNn)).call(), runtime::capability())) {
      continue;
    }
    Instance<T> instance(shape(80, 72, 136, kNt));
    Problem& problem = instance.problem();
    Tensor& b = problem.tensor(1);
    std::swap(b.shape[0], b.shape[1]);
    std::swap(b.strides[0], b.strides[1]);
    problem.attributes[0] = Value::choice(static_cast<int>(kNn));
    Tensor& c = problem.tensor(2);
    c.strides = {1, 80};  // as many elements as before
    SCOPED_TRACE(name);
    ASSERT_EQ(why_not(rung(name), instance.call(), runtime::capability()), "");
    run_and_wait(rung(name), instance.call());
    instance.expect_right();
  }
}
TEST(Gemm, StridesMayTranspose) {
  expect_strides_transpose<half>({"any_layout", "mma_pipeline", "warp_specialized"});
  expect_strides_transpose<float>({"any_layout", "warp_tile", "copy_engine"});
}

TEST(Gemm, AnyLayoutTakesAnyStrides) {
  Instance<float> instance(shape(9, 14, 22, kNn));
  Problem& problem = instance.problem();
  for (int i = 0; i < 3; ++i) {  // every other column
    problem.tensor(i).shape[1] /= 2;
    problem.tensor(i).strides[1] = 2;
  }
  problem.tensor(1).shape[0] /= 2;
  EXPECT_THAT(why_not(rung("mma_pipeline"), instance.call(), 90), testing::HasSubstr("f32"));
  EXPECT_THAT(why_not(rung("naive"), instance.call(), 90), testing::HasSubstr("dense row-major a"));
  EXPECT_EQ(best(instance.call(), 90).name, "any_layout");
  run_and_wait(rung("any_layout"), instance.call());
  instance.expect_right();
}

TEST(Gemm, BestIsTheFastestThatTakesTheCall) {
  const auto chosen = [](const AnyCall& call, int capability) {
    return std::string(best(call, capability).name);
  };
  const AnyCall aligned = Instance<half>(shape(64, 64, 64, kNt)).call();
  EXPECT_EQ(chosen(aligned, 90), "pingpong");
  EXPECT_EQ(chosen(aligned, 80), "mma_pipeline");
  // By how many multiprocessors there are.
  EXPECT_THAT(chosen(Instance<half>(shape(65, 63, 61, kNn)).call(), 90),
              testing::AnyOf("mma_direct", "mma_pipeline"));
  EXPECT_EQ(chosen(Instance<half>(shape(31, 16, 61, kNn)).call(), 90), "mma_direct");
  EXPECT_EQ(why_not(rung("acc_f16"), Instance<half>(shape(8, 8, 8, kNn)).call(), 80), "");
  const AnyCall in_f32 = Instance<float>(shape(8, 8, 8, kTn)).call();
  EXPECT_EQ(chosen(in_f32, 90), "copy_engine");
  EXPECT_THAT(chosen(Instance<float>(shape(512, 512, 512, kTn)).call(), 90),
              testing::AnyOf("split_three_tf32", "three_tf32"));
  EXPECT_EQ(chosen(in_f32, 80), "warp_tile");
  EXPECT_EQ(chosen(Instance<float>(shape(7, 7, 7, kNn)).call(), 90), "double_buffer");
  EXPECT_EQ(chosen(Instance<float>(shape(7, 7, 7, kNt)).call(), 90), "warp_tile");
}

TEST(Gemm, Tf32OnlyWhereItIsAllowed) {
  Instance<float> exact(shape(40, 24, 16, kNn));
  EXPECT_THAT(why_not(rung("wmma_tf32"), exact.call(), 80), testing::HasSubstr("precision=tf32"));
  Instance<float> cut(tf32_shape(40, 24, 16, kNn));
  EXPECT_EQ(best(cut.call(), 80).name, "wmma_tf32");
  run_and_wait(rung("wmma_tf32"), cut.call());
  cut.expect_right();
  EXPECT_EQ(best(Instance<float>(tf32_shape(40, 24, 16, kNt)).call(), 90).name, "wgmma_tf32");
  EXPECT_EQ(best(Instance<float>(tf32_shape(7, 7, 7, kTt)).call(), 80).name, "warp_tile");
  EXPECT_EQ(best(Instance<float>(tf32_shape(7, 7, 7, kTt)).call(), 90).name, "warp_tile");
  EXPECT_EQ(best(Instance<float>(tf32_shape(40, 24, 16, kNn)).call(), 90).name, "wgmma_tf32_rs");
  EXPECT_THAT(best(Instance<float>(tf32_shape(777, 1111, 2222, kNn)).call(), 90).name,
              testing::AnyOf("wgmma_tf32", "split_tf32"));
  EXPECT_EQ(best(Instance<half>(tf32_shape(64, 64, 64, kNt)).call(), 90).name, "pingpong");
}

TEST(Gemm, RefusalsNameTheMatrix) {
  Instance<half> instance(shape(64, 64, 64, kNn));
  Problem& problem = instance.problem();
  const Rung& hopper = rung("warp_specialized");
  EXPECT_EQ(why_not(hopper, instance.call(), 90), "");
  EXPECT_THAT(why_not(hopper, instance.call(), 80), testing::HasSubstr("sm_90a"));
  problem.tensor(1).strides[0] = 66;
  EXPECT_THAT(why_not(hopper, instance.call(), 90),
              testing::HasSubstr("rows of b start at multiples of 4"));
  EXPECT_EQ(why_not(rung("mma_pipeline"), instance.call(), 90), "");
  problem.tensor(0).strides[1] = 2;
  EXPECT_THAT(why_not(rung("mma_pipeline"), instance.call(), 90),
              testing::HasSubstr("a stride of 1 in a"));
  EXPECT_EQ(why_not(rung("any_layout"), instance.call(), 90), "");
}

TEST(Gemm, ShapesMustFit) {
  Problem problem = make_problem(operation(), shape(4, 6, 8, kNn), DType::kF16);
  problem.attributes[0] = Value::choice(static_cast<int>(kNt));  // B [8, 6] read as [N, K]
  problem.tensor(2) = {};
  try {
    AnyCall{problem};
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("K = 8"), testing::HasSubstr("K = 6")));
  }
}

// Matrices without elements, as in torch: a sum over nothing is 0.
TEST(Gemm, WithoutElements) {
  for (const Gemm::Layout layout : kAllLayouts) {
    Instance<float> nothing(shape(5, 7, 0, layout));
    const AnyCall call = nothing.call();
    run_and_wait(best(call, runtime::capability()), call);
    for (int64_t i = 0; i < 35; ++i) EXPECT_EQ(element(call.problem().tensor(2), i), 0);
    for (const auto& [m, n] : {std::pair{0, 7}, {5, 0}, {0, 0}}) {
      const AnyCall empty = Instance<half>(shape(m, n, 8, layout)).call();
      EXPECT_THAT(empty.problem().tensor(2).extents(), testing::ElementsAre(m, n));
      run_and_wait(best(empty, runtime::capability()), empty);
    }
  }
}

TEST(Gemm, OutputMayNotBeAnInput) {
  Instance<half> instance(shape(16, 16, 16, kNn));
  instance.problem().tensor(2).data = instance.problem().tensor(0).data;
  EXPECT_THROW(instance.call(), InvalidArgument);
}

}  // namespace
}  // namespace ws::gemm
