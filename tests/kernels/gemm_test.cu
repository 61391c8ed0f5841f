// What `verify` cannot ask of the gemm family: every configuration whatever the shape, strides as
// torch leaves them, and the words of refusals.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <memory>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"
#include "kernels/gemm/28_mma_pipeline.cuh"
#include "kernels/gemm/34_wgmma_multicast.cuh"
#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/36_split_k.cuh"
#include "kernels/gemm/37_stream_k.cuh"
#include "kernels/gemm/38_realigned.cuh"
#include "kernels/gemm/45_pingpong.cuh"
#include "kernels/gemm/49_split_clusters.cuh"
#include "kernels/gemm/50_shifted.cuh"
#include "kernels/gemm/53_mma_direct.cuh"
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
  EXPECT_EQ(best(Instance<float>(tf32_shape(40, 24, 16, kNn)).call(), 90).name, "wgmma_tf32_rs");
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
