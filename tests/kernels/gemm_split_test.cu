// What `verify` cannot ask of the gemm rungs that cut K, or take rows that begin anywhere: every
// tile whatever the shape, workspaces left as they were, and how the plan counts.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>

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

}  // namespace
}  // namespace ws::gemm
