// Idea: f32 on the tensor cores with f32's accuracy: a number is what TF32 keeps of it and a low
//   part, what that leaves. Three products of such parts are added up, and sums over 32 of K at a
//   time, for tensor cores cut what they add; the rest are f32 additions, which round.
// From wgmma_tf32: low parts are made once, by a pass over each operand. A stage of the ring has
//   tiles of the operands, the next one those of their low parts; both serve three products.
// Traffic: 8 bytes an element of A and B for low parts, 12 of an operand that is not K-major or
//   not aligned; then per 256 x 128 x 32 step 96 KB from L2 (64 with the cluster).
// Limits: sm_90a; K > 0, a stride of each matrix 1. A product errs by up to 2^-20 of itself, where
//   CUDA cores round it by 2^-24; of sums the error is less than theirs. Low parts end at 2^-136.
// Long: what is multiplied, in which of five tiles, and what that is thought to take.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/cut_tiles.hpp"
#include "kernels/gemm/k_major.hpp"
#include "kernels/gemm/plan.hpp"

namespace ws::gemm {

// How C is stored, and the operands' low parts.
template <class Output>
struct OutputOfLowParts : Output {
  static constexpr bool kFollows = true;
  ptx::TensorMap a_low;
  ptx::TensorMap b_low;

  __device__ __forceinline__ void prefetch() const {
    Output::prefetch();
    ptx::prefetch_tensor_map(a_low);
    ptx::prefetch_tensor_map(b_low);
  }
};

template <class Policy, class Output, class Work = WholeTiles>
struct ThreeTf32Kernel : WarpSpecializedKernel<float, Contiguous::kColumns, Contiguous::kRows,
                                               Policy, Work, OutputOfLowParts<Output>> {
  using Base = WarpSpecializedKernel<float, Contiguous::kColumns, Contiguous::kRows, Policy, Work,
                                     OutputOfLowParts<Output>>;
  using typename Base::Arguments;
  using typename Base::Place;
  using typename Base::Position;
  using typename Base::SharedStorage;
  using typename Base::StageA;
  using typename Base::StageB;
  using typename Base::Store;
  static constexpr int kTileN = Base::kTileN;
  static constexpr int kRowBlocks = Base::kRowBlocks;
  static constexpr int kSums = kTileN / 2;  // of a row block, of a thread
  static_assert(Base::kStages >= 4);

  // One thread: fills two stages for each slice of K.
  __device__ __forceinline__ static void produce(SharedStorage& shared, const Arguments& g) {
    const int rank_m = cluster_rank() % Policy::kClusterM;
    const int rank_n = cluster_rank() / Policy::kClusterM;
    Position at;
    Base::for_each_part(g, [&](const Place& place, const auto& part) {
      const MatrixIndex matrix = Base::index_of(part);
      const int from_column = Base::from_column_of(g, place, rank_m);
      const auto fill = [&](int k, const ptx::TensorMap& a, const ptx::TensorMap& b) {
        ptx::Mbarrier& full = shared.pipeline.acquire(at, Base::kStageBytes);
        StageA::load(shared.a.pointer(at.stage * StageA::kElements), a, full, place.from_row, k,
                     {.share = rank_n, .first_rank = rank_m, .rank_step = Policy::kClusterM},
                     matrix.a);
        StageB::load(shared.b.pointer(at.stage * StageB::kElements), b, full, from_column, k,
                     {.share = rank_m, .first_rank = rank_n * Policy::kClusterM, .rank_step = 1},
                     matrix.b);
        at.advance();
      };
      for (int slice = part.first; slice < part.last; ++slice) {
        fill(slice * Base::kTileK, g.a, g.b);
        fill(slice * Base::kTileK, g.c.a_low, g.c.b_low);
      }
    });
  }

  // A warpgroup: multiplies its rows of every tile, adds up and stores them.
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& g,
                                                 int warp) {
    const int consumer = warp / 4;
    Position at;
    Store store{shared.c.pointer(warp * Store::kElements)};
    Base::for_each_part(g, [&](const Place& place, const auto& part) {
      float sum[kRowBlocks][kSums] = {};
      float products[kSums];
      for (int slice = part.first; slice < part.last; ++slice) {
        Position low = at;
        low.advance();
        const auto operand_a = [&](int stage) {
          return StageA::descriptor(shared.a.pointer(stage * StageA::kElements));
        };
        const auto operand_b = [&](int stage) {
          return StageB::descriptor(shared.b.pointer(stage * StageB::kElements));
        };
        const uint64_t a = operand_a(at.stage);
        const uint64_t b = operand_b(at.stage);
        const uint64_t a_low = operand_a(low.stage);
        const uint64_t b_low = operand_b(low.stage);
        shared.pipeline.wait(at);
        shared.pipeline.wait(low);
#pragma unroll
        for (int i = 0; i < kRowBlocks; ++i) {
          const int panel = consumer * kRowBlocks + i;
          const auto multiply = [&](uint64_t left, uint64_t right, bool is_first) {
#pragma unroll
            for (int k = 0; k < StageA::kRow; k += StageA::kStep) {
              ptx::wgmma_m64k8<kTileN>(products, StageA::advance(left, panel, k),
                                       StageB::advance(right, 0, k), !is_first || k > 0);
            }
          };
          ptx::wgmma_pin(products);
          ptx::wgmma_fence();
          // The least first: a sum is cut by as much as its size says.
          multiply(a_low, b, true);
          multiply(a, b_low, false);
          multiply(a, b, false);
          ptx::wgmma_commit_group();
          ptx::wgmma_wait_group<0>(products);
          if (i == kRowBlocks - 1) {
            Base::release(shared, at.stage);
            Base::release(shared, low.stage);
          }
#pragma unroll
          for (int j = 0; j < kSums; ++j) sum[i][j] += products[j];
        }
        at = low;
        at.advance();
      }
      if (!g.work.template complete<Policy>(part, consumer, sum)) return;
      Base::put_rows(store, g, place, part, 0, sum, consumer * kRowBlocks, warp);
    });
    store.finish();
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    Base::template play_roles<ThreeTf32Kernel>(shared, g);
  }

  // Of operands that are made; the output is made from the call.
  template <class C>
  static void start(const C& call, const KMajorOperands& operands, const tile::Raster& raster,
                    const Work& work, int clusters, Stream stream) {
    const auto& [a, b] = operands;
    Base::template start<ThreeTf32Kernel>(
        {.a = a.map<StageA>(),
         .b = b.map<StageB>(),
         .c = {Output::template of<Store>(call), a.low_map<StageA>(), b.low_map<StageB>()},
         .raster = raster,
         .work = work,
         .m = static_cast<int>(call.m),
         .n = static_cast<int>(call.n)},
        clusters, stream);
  }
};

// Sums beside the products that are added to them: warpgroups take 128 rows each, 64 at a time, and
// two blocks share A. kStep: of 32 of K, in us. H200 2026-11-30, without low parts, us:
// | cubed     | 256 x 128 | 128 x 192 | 128 x 128 | 128 x 64 | cuBLAS |
// | 1024      | 63        | 50        | 35        | 27       | 65     |
// | 2048      | 127       | 187       | 130       | 174      | 345    |
// | 4096      | 931       | 1063      | 991       | 1513     | 2703   |
struct ThreeTall
    : WgmmaPolicy<WgmmaShape{.tile_m = 256, .tile_n = 128, .stages = 4, .cluster_n = 2}> {
  static constexpr double kStep = 1.85;
};
struct ThreeSmall : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6}> {
  static constexpr double kStep = 0.95;
};
struct ThreeNarrow : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8}> {
  static constexpr double kStep = 0.70;
};

inline double three_slices(const Call& call) {
  return static_cast<double>(divide_up(call.k, int64_t{32}));
}
// Whole tiles of so many products, or what memory has to deliver: operands and their low parts. A
// matrix that all products share is there once.
template <class Policy>
double three_time(const Call& call, int64_t products = 1) {
  const auto elements = [&](const Matrix& matrix) {
    const int64_t matrices = matrix.batch == 0 ? 1 : products;
    return static_cast<double>(matrices * matrix.runs) * static_cast<double>(matrix.length);
  };
  const double bytes =
      sizeof(float) * (2 * (elements(call.a) + elements(call.b)) + elements(call.c));
  const int64_t tiles = products * Policy::raster(call).count();
  const int64_t waves = divide_up(tiles, int64_t{clusters_of(Policy::kCluster)});
  return kStart +
         std::max(static_cast<double>(waves) * three_slices(call) * Policy::kStep, bytes / kMemory);
}

struct ThreeTf32 {
  // Rows of C that start anywhere lanes store, for which threads have no registers left that hold
  // the sums of a tall tile.
  enum class Tiles : uint8_t { kTall, kSmall, kNarrow, kCut, kSmallPlain };

  struct Plan {
    Tiles tiles;
    double time;
  };
  static Plan plan(const Call& call) {
    if (!is_stored_by_boxes(call)) return {Tiles::kSmallPlain, three_time<ThreeSmall>(call)};
    return std::min(
        {Plan{Tiles::kTall, three_time<ThreeTall>(call)},
         Plan{Tiles::kSmall, three_time<ThreeSmall>(call)},
         Plan{Tiles::kNarrow, three_time<ThreeNarrow>(call)}, Plan{Tiles::kCut, cut_time(call)}},
        [](const Plan& p, const Plan& q) { return p.time < q.time; });
  }

  static bool supports(const Call& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why);
  }
  static Workspace workspace(const Call& call) { return workspace_in(plan(call).tiles, call); }
  // What parts of tiles want, then the operands' copies.
  static Workspace workspace_in(Tiles tiles, const Call& call) {
    Workspace all = workspace_of(tiles);
    all.bytes += KMajorOperands(call, /*has_low=*/true).bytes();
    return all;
  }

  static void run(const Call& call, const Context& context) {
    run_in(plan(call).tiles, call, context);
  }
  static void run_in(Tiles tiles, const Call& call, const Context& context);  // beside the row
  // The same into other outputs, made from a call of their own: one that the copy engine stores,
  // one that lanes do.
  template <class Boxes, class Plain, class C>
  static void run_into(Tiles tiles, const C& call, const Context& context) {
    auto* const place = static_cast<std::byte*>(context.workspace) + workspace_of(tiles).bytes;
    KMajorOperands operands(call, /*has_low=*/true);
    operands.make(place, context.stream);
    const auto run_with = [&]<class Policy, class Output, class Work = WholeTiles>() {
      using Kernel = ThreeTf32Kernel<Policy, Output, Work>;
      const tile::Raster raster = Policy::raster(call);
      const auto steps = static_cast<int>(divide_up(call.k, Kernel::kTileK));
      int clusters = Kernel::clusters_of(raster, device_facts().multiprocessors);
      Work work;
      if constexpr (std::is_same_v<Work, CutTiles>) {
        clusters = CutTiles::clusters<Policy>(raster.count(), steps);
        work = CutTiles::of<Policy>(raster.count(), steps, context.workspace);
      } else {
        work = {raster.count(), steps};
      }
      Kernel::start(call, operands, raster, work, clusters, context.stream);
    };
    switch (tiles) {
      case Tiles::kTall: return run_with.template operator()<ThreeTall, Boxes>();
      case Tiles::kSmall: return run_with.template operator()<ThreeSmall, Boxes>();
      case Tiles::kNarrow: return run_with.template operator()<ThreeNarrow, Boxes>();
      case Tiles::kCut: return run_with.template operator()<ThreeSmall, Boxes, CutTiles>();
      case Tiles::kSmallPlain: return run_with.template operator()<ThreeSmall, Plain>();
    }
  }

  // What a call is thought to take, in us.
  static double time(const Call& call) {
    return KMajorOperands(call, /*has_low=*/true).time() + plan(call).time;
  }

 private:
  static Workspace workspace_of(Tiles tiles) {
    return tiles == Tiles::kCut ? stream_k_workspace() : Workspace{};
  }
  static double cut_time(const Call& call) {
    constexpr double kExchange = 12;
    const double tiles = ThreeSmall::raster(call).count();
    return kStart + kExchange + tiles * three_slices(call) / clusters_of(1) * ThreeSmall::kStep;
  }
};

}  // namespace ws::gemm
