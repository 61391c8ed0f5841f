// What `verify` cannot ask of the gemm family: every configuration whatever the shape, strides as
// torch leaves them, and the words of refusals.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <memory>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"
#include "kernels/gemm/06_double_buffer.cuh"
#include "kernels/gemm/07_async_copy.cuh"
#include "kernels/gemm/08_warp_tile.cuh"
#include "kernels/gemm/09_copy_engine.cuh"
#include "kernels/gemm/11_async_convert.cuh"
#include "kernels/gemm/12_acc_f16.cuh"
#include "kernels/gemm/28_mma_pipeline.cuh"
#include "kernels/gemm/34_wgmma_multicast.cuh"
#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/36_split_k.cuh"
#include "kernels/gemm/37_stream_k.cuh"
#include "kernels/gemm/38_realigned.cuh"
#include "kernels/gemm/40_wgmma_tf32.cuh"
#include "kernels/gemm/45_pingpong.cuh"
#include "kernels/gemm/46_three_tf32.cuh"
#include "kernels/gemm/49_split_clusters.cuh"
#include "kernels/gemm/50_shifted.cuh"
#include "kernels/gemm/53_mma_direct.cuh"
#include "tests/kernels/gemm_instance.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::gemm {
namespace {

const Rung& rung(std::string_view name) { return *resolve(concatenate("gemm/", name)).rung; }

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

// Numbers that tf32 holds: then it is as near as f32.
void cut_to_tf32(Problem& problem) {
  for (int i = 0; i < 2; ++i) {
    const Tensor& tensor = problem.tensor(i);
    for (int64_t at = 0; at < tensor.elements(); ++at) {
      float& element = tensor.as<float>()[offset_of(tensor, at)];
      element = std::bit_cast<float>(std::bit_cast<uint32_t>(element) & 0xFFFFE000U);
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

TEST(WgmmaTf32, EitherTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    Instance<float> instance(shape(264, 264, 72, kNt, 4));
    cut_to_tf32(instance.problem());
    const Call call = Gemm::call(instance.problem());
    constexpr Contiguous kColumns = Contiguous::kColumns;
    WarpSpecializedKernel<float, kColumns, Contiguous::kRows, WgmmaBig>::run(call, 4, nullptr);
    runtime::synchronize_device();
    instance.expect_right();
    WarpSpecializedKernel<float, kColumns, Contiguous::kRows, Wgmma128>::run(call, 4, nullptr);
    runtime::synchronize_device();
    instance.expect_right();
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
TEST(ThreeTf32, EveryKindOfNumber) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
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
  run_three_tf32(ThreeTf32::Tiles::kSmall, call);
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

// ---- split_k, stream_k, realigned ---------------------------------------------------------------

// A tile and a number of parts of K, whatever would be chosen; `padding` widens the rows.
template <SplitShape kShape>
void expect_split_right(int64_t m, int64_t n, int64_t k, int parts, int64_t padding = 8) {
  for (const Gemm::Layout layout : kAllLayouts) {
    Instance<half> instance(shape(m, n, k, layout, padding));
    const Call given = Gemm::call(instance.problem());
    const Call call = kShape.turned ? transposed(given) : given;
    using Policy = SplitPolicy<kShape>;
    if (!Policy::takes(call.b.contiguous)) continue;
    with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
      if constexpr (Policy::takes(kB)) {
        SplitKKernel<half, kA, kB, Policy>::run(call, parts, nullptr);
      }
    });
    runtime::synchronize_device();
    instance.expect_right();
  }
}

TEST(SplitK, ThinTilesInEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    expect_split_right<SplitShape{
        .tile_m = 64, .tile_n = 16, .stages = 3, .sharers = 2, .turned = true}>(24, 200, 328, 3);
  });
}

TEST(SplitK, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_split_right<SplitShape{
      .tile_m = 64, .tile_n = 32, .stages = 4, .sharers = 2, .turned = true}>(40, 136, 200, 1);
  expect_split_right<SplitShape{.tile_m = 64, .tile_n = 64, .stages = 4, .turned = true}>(72, 72,
                                                                                          520, 8);
  expect_split_right<SplitShape{.tile_m = 64, .tile_n = 96, .stages = 3, .turned = true}>(104, 72,
                                                                                          200, 2);
  expect_split_right<SplitShape{.tile_m = 128, .tile_n = 48, .stages = 3, .turned = true}>(56, 136,
                                                                                           200, 2);
  expect_split_right<SplitShape{.tile_m = 128, .tile_n = 64, .stages = 4}>(136, 72, 328, 2);
  expect_split_right<SplitShape{.tile_m = 128, .tile_n = 64, .stages = 4, .sharers = 2}>(136, 72,
                                                                                         328, 4);
  expect_split_right<SplitShape{.tile_m = 128, .tile_n = 128, .stages = 3}>(136, 136, 456, 5);
}

// What a plan counts for one configuration and not for its neighbour: which of them a call gets
// depends on the device, and the emulator's is small.
TEST(Plan, CountsWhatTheTunerFound) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  EXPECT_GT(lone_tile_time<Pingpong160>(1), 0) << "one warpgroup of two is at work";
  EXPECT_EQ(lone_tile_time<Pingpong160>(2), 0);
  EXPECT_EQ(lone_tile_time<Low128>(1), 0);

  const auto call = [](Gemm::Layout layout) {
    return Gemm::call(
        AnyCall(make_problem(operation(), shape(256, 320, 64, layout, 0), DType::kF16)).problem());
  };
  EXPECT_GT(panel_factor<Pingpong160>(call(kNn)), 1) << "a panel of 32";
  EXPECT_GT(panel_factor<Pingpong144>(call(kNn)), panel_factor<Pingpong160>(call(kNn)));
  EXPECT_EQ(panel_factor<Pingpong160>(call(kNt)), 1);
  EXPECT_EQ(panel_factor<Pingpong192>(call(kNn)), 1);
  EXPECT_GT(panel_factor<Low96>(call(kNn)), panel_factor<Pingpong160>(call(kNn)));
  EXPECT_FALSE(Pingpong168::takes(Contiguous::kColumns)) << "from the middle of a sector on";
  EXPECT_TRUE(Pingpong168::takes(Contiguous::kRows));

  const auto sized = [](int64_t m, int64_t n, int64_t k) {
    return Gemm::call(
        AnyCall(make_problem(operation(), shape(m, n, k, kNt, 0), DType::kF16)).problem());
  };
  EXPECT_EQ(l2_time<WgmmaBig>(sized(256, 320, 64)), 0) << "its step has it in it";
  EXPECT_GT(l2_time<Low128>(sized(256, 320, 64)), l2_time<Low128Pair>(sized(256, 320, 64)));
  EXPECT_GT(l2_time<Low64>(sized(64, 64, 2048)) / l2_time<Low64>(sized(64, 64, 2000)), 1.5)
      << "rows a power of two apart";
  EXPECT_GT(l2_time<Low64>(sized(64, 64, 1000)), 2 * l2_time<Low64>(sized(64, 64, 992)))
      << "a fifth sector a row";
  EXPECT_GT(pair_memory_time<Wgmma64>(sized(64, 128, 64)), memory_time(sized(64, 128, 64)));
  EXPECT_EQ(pair_memory_time<Wgmma64>(sized(128, 64, 64)), memory_time(sized(128, 64, 64)));

  EXPECT_GT(step_alone<SplitThin64>(), SplitThin64::kStep);
  EXPECT_EQ(step_alone<SplitHalf>(), SplitHalf::kStep) << "has an SM for itself anyway";
  EXPECT_FALSE(SplitLow96::takes(Contiguous::kColumns)) << "a panel and a half";
  EXPECT_TRUE(SplitThin64::takes(Contiguous::kColumns));
}

// Tiles cut in parts, their sums in a workspace that is left as it was.
template <class T, class Output>
void expect_cut_tiles_right(int64_t m, int64_t n, int64_t k, int64_t padding = 0) {
  Instance<T> instance(shape(m, n, k, kNt, padding));
  const Workspace wanted = stream_k_workspace();
  test::Buffer<std::byte> workspace(wanted.bytes);
  std::fill_n(workspace.data(), wanted.zeroed, std::byte{});
  run_stream_k<T, Contiguous::kColumns, Contiguous::kRows, Output>(Gemm::call(instance.problem()),
                                                                   workspace.data(), nullptr);
  runtime::synchronize_device();
  instance.expect_right();
  EXPECT_EQ(std::count(workspace.data(), workspace.data() + wanted.zeroed, std::byte{}),
            static_cast<std::ptrdiff_t>(wanted.zeroed));
}

TEST(StreamK, CutTilesInEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    // Four tiles of a cluster and an edge for two clusters; a tile that two share.
    expect_cut_tiles_right<bf16, TensorOutput<bf16>>(264, 600, 200, 8);
    expect_cut_tiles_right<bf16, TensorOutput<bf16>>(136, 200, 328, 8);
  });
}

// Parts of K for clusters: a tile that hangs over both edges, places and flags left as they were.
template <class T, WgmmaShape kShape, int kParts>
void expect_clusters_right(int64_t m, int64_t n, int64_t k) {
  const Workspace wanted = split_clusters_workspace();
  test::Buffer<std::byte> workspace(wanted.bytes);
  for (const Gemm::Layout layout : kAllLayouts) {
    Instance<T> instance(shape(m, n, k, layout, 8));
    std::fill_n(workspace.data(), wanted.zeroed, std::byte{});
    const Call call = Gemm::call(instance.problem());
    with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
      SplitClustersKernel<T, kA, kB, WgmmaPolicy<kShape>, kParts>::run(call, workspace.data(),
                                                                       nullptr);
    });
    runtime::synchronize_device();
    instance.expect_right();
    EXPECT_EQ(std::count(workspace.data(), workspace.data() + wanted.zeroed, std::byte{}),
              static_cast<std::ptrdiff_t>(wanted.zeroed));
  }
}

TEST(SplitClusters, ExchangesInEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    expect_clusters_right<bf16,
                          WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 3, .cluster_n = 2}, 2>(
        72, 72, 200);
  });
}

// As many blocks as the emulator's GPU has multiprocessors.
TEST(SplitClusters, TwoAndFourParts) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_clusters_right<half, WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 3}, 4>(120, 56,
                                                                                       264);
  expect_clusters_right<half, WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 3}, 2>(120, 72,
                                                                                       136);
  expect_clusters_right<half, WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 3, .cluster_m = 2},
                        2>(136, 72, 136);
}

// Rows at multiples of 16, 8, 4 and 2 bytes; parts of K.
template <class Policy>
void expect_shifted_right(int parts) {
  for (const int64_t k : {136, 68, 66, 65}) {
    for (const Gemm::Layout layout : kAllLayouts) {
      for (const int64_t padding : {0, 3}) {
        Instance<half> instance(shape(k - 20, k + 3, k, layout, padding));
        const Call call = Gemm::call(instance.problem());
        with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
          ShiftedKernel<half, kA, kB, Policy>::run(call, parts, nullptr);
        });
        runtime::synchronize_device();
        instance.expect_right();
      }
    }
  }
}

// Rows at multiples of 16, 8, 4 and 2 bytes; K of one slice of a warp, of some, of more than a
// block's warps have.
template <class Policy, int kBytes>
void expect_direct_right(int64_t k) {
  for (const Gemm::Layout layout : kAllLayouts) {
    for (const int64_t padding : {int64_t{0}, int64_t{kBytes == 2 ? 3 : 8}}) {
      Instance<half> instance(shape(k % 40 + 16, k % 40 + 20, k, layout, padding));
      const Call call = Gemm::call(instance.problem());
      with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
        MmaDirectKernel<half, kA, kB, kBytes, Policy>::run(call, nullptr);
      });
      runtime::synchronize_device();
      instance.expect_right();
    }
  }
}

TEST(MmaDirect, EveryTile) {
  for (int policy = 0; policy < DirectPolicies::kCount; ++policy) {
    DirectPolicies::with(policy, []<class Policy>() {
      for (const int64_t k : {5, 37, 66, 301}) expect_direct_right<Policy, 2>(k);
      for (const int64_t k : {4, 36, 100, 300}) expect_direct_right<Policy, 8>(k);
    });
  }
}

TEST(Shifted, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  for (int policy = 0; policy < ShiftedPolicies::kCount; ++policy) {
    ShiftedPolicies::with(policy, []<class Policy>() {
      expect_shifted_right<Policy>(1);
      expect_shifted_right<Policy>(3);
    });
  }
}

template <class Policy>
void expect_realigned_right() {
  Instance<half> instance(shape(139, 265, 200, kNt));
  KernelOf<half, Contiguous::kColumns, Contiguous::kRows, Policy, PlainOutput<half>>::run(
      Gemm::call(instance.problem()), 4, nullptr);
  runtime::synchronize_device();
  instance.expect_right();
}

// C at rows that start anywhere.
TEST(Realigned, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (int policy = 0; policy < RealignedPolicies::kCount; ++policy) {
    RealignedPolicies::with(policy, []<class Policy>() { expect_realigned_right<Policy>(); });
  }
}

TEST(Realigned, CutTiles) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  expect_cut_tiles_right<half, PlainOutput<half>>(139, 265, 200);
}

TEST(StreamKWork, EverySliceOnce) {
  for (const int workers : {1, 2, 3, 7, 66}) {
    for (const int tiles : {1, 2, 5, 66, 67, 131, 240}) {
      for (const int steps : {1, 2, 63, 64}) {
        if (tiles * steps < workers) continue;
        const auto work = tile::StreamK::of(tiles, steps, workers);
        std::vector<int> done(static_cast<size_t>(tiles * steps));
        int most = 0;
        int least = tiles * steps;
        for (int worker = 0; worker < workers; ++worker) {
          int count = 0;
          work.for_each(worker, workers, [&](const tile::Part& part) {
            EXPECT_LT(part.first, part.last);
            EXPECT_TRUE(part.first == 0 || count == 0);  // only the first begins within a tile
            for (int i = part.first; i < part.last; ++i)
              ++done[static_cast<size_t>(part.tile * steps + i)];
            count += part.last - part.first;
          });
          most = std::max(most, count);
          least = std::min(least, count);
        }
        EXPECT_TRUE(std::ranges::all_of(done, [](int times) { return times == 1; }));
        EXPECT_LE(most - least, 1) << tiles << " tiles of " << steps << " for " << workers;
      }
    }
  }
}

// The same for the rungs that lead there, on four SMs: several tiles a block.
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

// A shape in f32 through a kernel of the CUDA cores: its layouts' padding is that of the case.
template <template <Contiguous, Contiguous, class> class Kernel, class Policy>
void expect_simt_right(int64_t m, int64_t n, int64_t k, int64_t padding) {
  for (const Gemm::Layout layout : kAllLayouts) {
    Instance<float> instance(shape(m, n, k, layout, padding));
    const Call call = Gemm::call(instance.problem());
    with_types<DTypes{DType::kF32}>(call, [&]<class, Contiguous kA, Contiguous kB>() {
      Kernel<kA, kB, Policy>::run(call, nullptr);
    });
    runtime::synchronize_device();
    instance.expect_right();
  }
}

// Tiles that hang over every edge; K of many stages, of one, and that does not divide.
TEST(CopyEngine, BigTile) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  expect_simt_right<CopyEngineKernel, CopyEngineBig>(132, 132, 164, 4);
  expect_simt_right<CopyEngineKernel, CopyEngineBig>(128, 256, 32, 0);
}

TEST(CopyEngine, SmallTile) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  expect_simt_right<CopyEngineKernel, CopyEngineSmall>(68, 140, 132, 0);
}

// The transposed product, whose C is stored by columns.
TEST(CopyEngine, Transposed) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  using Policy = SimtPolicy<SimtShape{.tile_m = 128,
                                      .tile_n = 128,
                                      .thread_m = 8,
                                      .thread_n = 16,
                                      .blocks = 2,
                                      .stages = 3,
                                      .unroll = 2,
                                      .by_columns = true}>;
  const auto expect_right = [](int64_t n, Gemm::Layout layout) {
    Instance<float> instance(shape(132, n, 36, layout));
    const Call call = transposed(Gemm::call(instance.problem()));
    with_types<DTypes{DType::kF32}>(call, [&]<class, Contiguous kA, Contiguous kB>() {
      CopyEngineKernel<kA, kB, Policy>::run(call, nullptr);
    });
    runtime::synchronize_device();
    instance.expect_right();
  };
  for (const Gemm::Layout layout : kAllLayouts) expect_right(140, layout);
  expect_right(141, kNt);  // rows of C at multiples of 4 bytes
}

TEST(CopyEngine, InEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  test::in_every_order([] { expect_simt_right<CopyEngineKernel, CopyEngineBig>(36, 132, 132, 0); });
}

TEST(WarpTile, CopiesOfEveryWidth) {
  for (const int64_t padding : {0, 1}) {  // rows at multiples of 16 bytes, and of 4
    expect_simt_right<WarpTileKernel, WarpTileShape>(132, 140, 68, padding);
  }
}

// Every tile of double_buffer and async_copy, with rows that four elements divide and that they do
// not.
template <template <class> class Kernel, int kMiddleSlice>
void expect_quads_right() {
  for (const auto& [m, n, k] : {std::array{132, 260, 40}, {129, 257, 33}}) {
    Instance<float> instance(shape(m, n, k, kNn));
    const Call call = Gemm::call(instance.problem());
    for (const int multiprocessors : {1, 5, 1000}) {
      with_quad_policy<kMiddleSlice>(call, multiprocessors,
                                     [&]<class Policy>() { Kernel<Policy>::run(call, nullptr); });
      runtime::synchronize_device();
      instance.expect_right();
    }
  }
}
template <class Policy>
using DoubleBufferF32 = DoubleBufferKernel<float, Policy>;
TEST(DoubleBuffer, EveryTile) { expect_quads_right<DoubleBufferF32, 8>(); }
TEST(AsyncCopy, EveryTile) { expect_quads_right<AsyncCopyKernel, 16>(); }

// The same of f16, whose pieces are of eight.
template <template <class> class Kernel>
void expect_octets_right(DType accumulate = DType::kF32) {
  for (const auto& [m, n, k] : {std::array{136, 264, 72}, {129, 257, 33}}) {
    Instance<half> instance(shape(m, n, k, kNn));
    const Call call = Gemm::call(instance.problem());
    for (const int multiprocessors : {1, 1000}) {
      with_octet_policy(call, multiprocessors,
                        [&]<class Policy>() { Kernel<Policy>::run(call, nullptr); });
      runtime::synchronize_device();
      instance.expect_right(accumulate);
    }
  }
}
template <class Policy>
using DoubleBufferF16 = DoubleBufferKernel<half, Policy>;
template <class Policy>
using DoubleBufferAccF16 = DoubleBufferKernel<half, Policy, PairTile<Policy::kColumns>>;
TEST(DoubleBuffer, EveryTileOfF16) { expect_octets_right<DoubleBufferF16>(); }
TEST(AsyncConvert, EveryTile) { expect_octets_right<AsyncConvertKernel>(); }
TEST(AccF16, EveryTile) { expect_octets_right<DoubleBufferAccF16>(DType::kF16); }

// What f16 sums are allowed is more than f32 needs, and less than eight products of 1024 are worth.
TEST(AccF16, ItsToleranceFindsEightMissingProducts) {
  Instance<half> instance(shape(64, 64, 1024, kNn));
  const Problem& problem = instance.problem();
  const Parameter& output = Gemm::kParameters[2];
  std::vector<double> expected(64 * 64);
  std::array<double*, kMaxTensors> targets{};
  targets[2] = expected.data();
  Gemm::reference(problem, {0, 64}, targets);
  const auto error_of = [&] {
    run_and_wait(rung("acc_f16"), instance.call());
    double error = 0;
    double norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double got = element(problem.tensor(2), static_cast<int64_t>(i));
      error += (got - expected[i]) * (got - expected[i]);
      norm += expected[i] * expected[i];
    }
    return std::sqrt(error / norm);
  };
  const double allowed = Gemm::tolerance_in(problem, output, DType::kF16).relative;
  const double whole = error_of();
  EXPECT_LT(whole, 0.7 * allowed);
  EXPECT_GT(whole, 2 * Gemm::tolerance(problem, output).relative);
  for (int64_t row = 0; row < 64; ++row) {
    for (int64_t k = 500; k < 508; ++k) problem.tensor(0).as<half>()[row * 1024 + k] = half(0);
  }
  EXPECT_GT(error_of(), 2 * allowed);
}

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
  EXPECT_EQ(chosen(Instance<float>(shape(512, 512, 512, kTn)).call(), 90), "three_tf32");
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
  EXPECT_EQ(best(Instance<float>(tf32_shape(777, 1111, 2222, kNn)).call(), 90).name, "wgmma_tf32");
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
