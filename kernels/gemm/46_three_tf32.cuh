// Idea: f32 on the tensor cores with f32's accuracy. A number is what TF32 keeps of it and what
// that
//   leaves, its low part, cut in turn to TF32: 21 bits together. Three products of such parts are
//   added up, of the low parts with each other none: they are below the last of 22 bits. The tensor
//   cores cut what they add to a sum, so sums over 32 of K alone are theirs, and f32 additions of
//   the warps, which round, have the rest.
// From wgmma_tf32: low parts are made once, by a pass over each operand. A stage of the ring has
//   tiles of the operands, the next one those of their low parts; both serve three products.
// Traffic: 8 bytes an element of A and B for the low parts, 16 of an operand that is not K-major or
//   whose rows do not start at multiples of 16 bytes; then per 256 x 128 x 32 step 96 KB from L2
//   (64 with the cluster).
// Limits: sm_90a; K > 0, a stride of each matrix 1. A product errs by up to 2^-20 of itself, where
//   f32 on the CUDA cores rounds it by 2^-24; of sums the error is less than theirs (README). An
//   operand that is infinite or NaN gives what it gives in f32.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/cut_tiles.hpp"
#include "kernels/gemm/plan.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::gemm {

#if WS_DEVICE_CODE
// What TF32, which is cut off, leaves of a number, rounded to TF32 itself: the same sign, so that
// it gives an infinity nothing to cancel with, and 0 of 0 alone, since an infinity times 0 is NaN;
// where nothing is left, too little to change a sum.
__device__ __forceinline__ float low_part(float x) {
  constexpr uint32_t kCut = 0x1FFF;
  if (!(::fabsf(x) < INFINITY) || x == 0) return x;
  const float left = x - std::bit_cast<float>(std::bit_cast<uint32_t>(x) & ~kCut);
  const uint32_t low = (std::bit_cast<uint32_t>(left) + (kCut + 1) / 2) & ~kCut;
  if ((low & 0x7FFFFFFF) != 0) return std::bit_cast<float>(low);
  constexpr float kLeast = 0x1p-136F;  // of TF32
  const float little = ::fabsf(x) * 0x1p-60F;
  return ::copysignf(little < kLeast ? kLeast : little, x);
}
#endif

// An operand of f32, and where its low parts go. `to`: where it goes itself; null: nowhere.
struct LowParts {
  const float* from = nullptr;  // `runs` runs of `length`
  float* to = nullptr;
  float* low = nullptr;
  int64_t runs = 0;
  int64_t length = 0;
  int64_t from_leading = 0;
  int64_t to_leading = 0;  // of both
};

// Of runs along K: they stay runs.
template <bool kAligned>
struct LowPartsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 4;
  static constexpr int kUnroll = 4;
  static constexpr int kPiece = kThreads * kUnroll * kWidth;  // of a run, a block's
  struct Arguments {
    LowParts parts;
    int64_t pieces;  // of a run
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const LowParts& parts = a.parts;
    const int64_t run = block_index() / a.pieces;
    const int64_t first = block_index() % a.pieces * kPiece + thread_index() * kWidth;
    const float* const from = parts.from + run * parts.from_leading;
    const int64_t row = run * parts.to_leading;
    Vec<float, kWidth> x[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * kThreads * kWidth;
      if (kAligned && at + kWidth <= parts.length) {
        x[i] = thread::load<kWidth>(from + at);
      } else {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          x[i][e] = at + e < parts.length ? thread::load(from + at + e) : 0;
        }
      }
    }
    // Rows have room for whole vectors.
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * kThreads * kWidth;
      if (at >= parts.length) continue;
      Vec<float, kWidth> low;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) low[e] = low_part(x[i][e]);
      thread::store(parts.low + row + at, low);
      if (parts.to != nullptr) thread::store(parts.to + row + at, x[i]);
    }
  }
};

// Of runs across K: to[j, i] = from[i, j] and its low part.
struct TransposedLowPartsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kTile = 32;
  static constexpr int kPitch = kTile + 1;  // a column of the tile is in 32 banks
  struct Arguments {
    LowParts parts;
    int64_t across;  // tiles of a run
  };
  struct SharedStorage {
    SharedArray<float, kTile * kPitch> tile;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const LowParts& parts = a.parts;
    const int64_t run = block_index() / a.across * kTile;
    const int64_t column = block_index() % a.across * kTile;
    const int along = thread_index() % kTile;
#pragma unroll
    for (int i = thread_index() / kTile; i < kTile; i += kThreads / kTile) {
      if (run + i < parts.runs && column + along < parts.length) {
        shared.tile[i * kPitch + along] =
            thread::load(parts.from + (run + i) * parts.from_leading + column + along);
      }
    }
    ptx::barrier_sync();
#pragma unroll
    for (int i = thread_index() / kTile; i < kTile; i += kThreads / kTile) {
      if (column + i < parts.length && run + along < parts.runs) {
        const float value = shared.tile[along * kPitch + i];
        const int64_t at = (column + i) * parts.to_leading + run + along;
        thread::store(parts.to + at, value);
        thread::store(parts.low + at, low_part(value));
      }
    }
  }
};

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
    const auto fill = [&](const Place& place, int k, const ptx::TensorMap& a,
                          const ptx::TensorMap& b) {
      ptx::Mbarrier& full = shared.pipeline.acquire(at, Base::kStageBytes);
      StageA::load(shared.a.pointer(at.stage * StageA::kElements), a, full, place.from_row, k,
                   {.share = rank_n, .first_rank = rank_m, .rank_step = Policy::kClusterM});
      StageB::load(shared.b.pointer(at.stage * StageB::kElements), b, full, place.from_column, k,
                   {.share = rank_m, .first_rank = rank_n * Policy::kClusterM, .rank_step = 1});
      at.advance();
    };
    Base::for_each_part(g, [&](const Place& place, const auto& part) {
      for (int slice = part.first; slice < part.last; ++slice) {
        fill(place, slice * Base::kTileK, g.a, g.b);
        fill(place, slice * Base::kTileK, g.c.a_low, g.c.b_low);
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

struct ThreeTf32 {
  // Rows of C that start anywhere lanes store, for which threads have no registers left that hold
  // the sums of a tall tile.
  enum class Tiles : uint8_t { kTall, kSmall, kNarrow, kCut, kSmallPlain };
  static constexpr int64_t kLine = 32;  // rows in the workspace start at multiples of 128 bytes

  static bool stays(const Matrix& matrix, Contiguous along_k, DType dtype) {
    Why nobody;
    return matrix.contiguous == along_k && can_be_copied("", matrix, dtype, nobody);
  }
  // Rows of one matrix that follows along K.
  static int64_t rows_of(const Matrix& matrix, Contiguous along_k) {
    return matrix.contiguous == along_k ? matrix.runs : matrix.length;
  }
  static int64_t bytes_of_part(const Call& call, const Matrix& matrix, Contiguous along_k) {
    return rows_of(matrix, along_k) * round_up(call.k, kLine) * static_cast<int64_t>(sizeof(float));
  }
  static int64_t bytes_of(const Call& call, const Matrix& matrix, Contiguous along_k) {
    return bytes_of_part(call, matrix, along_k) * (stays(matrix, along_k, call.dtype) ? 1 : 2);
  }

  static bool supports(const Call& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why);
  }
  // What parts of tiles want, then the operands' copies.
  static Workspace workspace(const Call& call) {
    Workspace all = stream_k_workspace();
    all.bytes += static_cast<size_t>(bytes_of(call, call.a, Contiguous::kColumns) +
                                     bytes_of(call, call.b, Contiguous::kRows));
    return all;
  }

  static void run(const Call& call, const Context& context) {
    run_in(plan(call).tiles, call, context);
  }
  static void run_in(Tiles tiles, const Call& call, const Context& context) {
    Call turned = call;
    auto* place = static_cast<std::byte*>(context.workspace) + stream_k_workspace().bytes;
    const float* const a_low = split(call, turned.a, Contiguous::kColumns, place, context.stream);
    const float* const b_low = split(call, turned.b, Contiguous::kRows, place, context.stream);
    const auto run_with = [&]<class Policy, class Output, class Work = WholeTiles>() {
      using Kernel = ThreeTf32Kernel<Policy, Output, Work>;
      using StageA = typename Kernel::StageA;
      using StageB = typename Kernel::StageB;
      const tile::Raster raster = Policy::raster(call);
      const int64_t leading = round_up(call.k, kLine);
      const auto steps = static_cast<int>(divide_up(call.k, Kernel::kTileK));
      int clusters = Kernel::clusters_of(raster, device_facts().multiprocessors);
      Work work;
      if constexpr (std::is_same_v<Work, CutTiles>) {
        clusters = CutTiles::clusters<Policy>(raster.count(), steps);
        work = CutTiles::of<Policy>(raster.count(), steps, context.workspace);
      } else {
        work = {raster.count(), steps};
      }
      Kernel::template start<Kernel>(
          {.a = StageA::tensor_map(turned.a.as<const float>(), call.m, call.k, turned.a.leading),
           .b = StageB::tensor_map(turned.b.as<const float>(), call.n, call.k, turned.b.leading),
           .c = {Output::template of<typename Kernel::Store>(call),
                 StageA::tensor_map(a_low, call.m, call.k, leading),
                 StageB::tensor_map(b_low, call.n, call.k, leading)},
           .raster = raster,
           .work = work,
           .m = static_cast<int>(call.m),
           .n = static_cast<int>(call.n)},
          clusters, context.stream);
    };
    switch (tiles) {
      case Tiles::kTall: return run_with.template operator()<ThreeTall, TensorOutput<float>>();
      case Tiles::kSmall: return run_with.template operator()<ThreeSmall, TensorOutput<float>>();
      case Tiles::kNarrow: return run_with.template operator()<ThreeNarrow, TensorOutput<float>>();
      case Tiles::kCut:
        return run_with.template operator()<ThreeSmall, TensorOutput<float>, CutTiles>();
      case Tiles::kSmallPlain:
        return run_with.template operator()<ThreeSmall, PlainOutput<float>>();
    }
  }

  // What a call is thought to take, in us.
  static double time(const Call& call) { return split_time(call) + plan(call).time; }

 private:
  struct Plan {
    Tiles tiles;
    double time;
  };
  static Plan plan(const Call& call) {
    Why nobody;
    const bool boxes = can_be_copied("c", call.c, call.dtype, nobody) && call.c.length % 4 == 0;
    if (!boxes) return {Tiles::kSmallPlain, whole_time<ThreeSmall>(call)};
    return std::min(
        {Plan{Tiles::kTall, whole_time<ThreeTall>(call)},
         Plan{Tiles::kSmall, whole_time<ThreeSmall>(call)},
         Plan{Tiles::kNarrow, whole_time<ThreeNarrow>(call)}, Plan{Tiles::kCut, cut_time(call)}},
        [](const Plan& p, const Plan& q) { return p.time < q.time; });
  }
  static double slices(const Call& call) { return static_cast<double>(divide_up(call.k, kLine)); }
  template <class Policy>
  static double whole_time(const Call& call) {
    const int waves = divide_up(Policy::raster(call).count(), clusters_of(Policy::kCluster));
    return kStart + waves * slices(call) * Policy::kStep;
  }
  static double cut_time(const Call& call) {
    constexpr double kExchange = 12;
    const double tiles = ThreeSmall::raster(call).count();
    return kStart + kExchange + tiles * slices(call) / clusters_of(1) * ThreeSmall::kStep;
  }
  static double split_time(const Call& call) {
    constexpr double kLaunch = 2;  // of a pass
    const auto bytes = [&](const Matrix& matrix, Contiguous along_k) {
      return static_cast<double>(bytes_of(call, matrix, along_k) +
                                 bytes_of_part(call, matrix, along_k));
    };
    return 2 * kLaunch +
           (bytes(call.a, Contiguous::kColumns) + bytes(call.b, Contiguous::kRows)) / kMemory;
  }

  // Makes an operand's low parts at `place`, and before them the operand anew where it cannot stay
  // where it is; moves `place` past them.
  static const float* split(const Call& call, Matrix& matrix, Contiguous along_k, std::byte*& place,
                            Stream stream) {
    const int64_t bytes = bytes_of_part(call, matrix, along_k);
    LowParts parts{.from = matrix.as<const float>(),
                   .runs = matrix.runs,
                   .length = matrix.length,
                   .from_leading = matrix.leading,
                   .to_leading = round_up(call.k, kLine)};
    const bool along = matrix.contiguous == along_k;
    const int64_t rows = rows_of(matrix, along_k);
    if (!stays(matrix, along_k, call.dtype)) {
      parts.to = reinterpret_cast<float*>(place);
      place += bytes;
      matrix = {.data = parts.to,
                .contiguous = along_k,
                .runs = rows,
                .length = call.k,
                .leading = parts.to_leading};
    }
    parts.low = reinterpret_cast<float*>(place);
    place += bytes;
    if (!along) {
      using Kernel = TransposedLowPartsKernel;
      const int64_t across = divide_up(parts.length, int64_t{Kernel::kTile});
      launch<Kernel>({.blocks = divide_up(parts.runs, int64_t{Kernel::kTile}) * across,
                      .threads = Kernel::kThreads},
                     stream, {parts, across});
    } else if (parts.to == nullptr) {
      split_runs<LowPartsKernel<true>>(parts, stream);
    } else {
      split_runs<LowPartsKernel<false>>(parts, stream);
    }
    return parts.low;
  }
  template <class Kernel>
  static void split_runs(const LowParts& parts, Stream stream) {
    const int64_t pieces = divide_up(parts.length, int64_t{Kernel::kPiece});
    launch<Kernel>({.blocks = parts.runs * pieces, .threads = Kernel::kThreads}, stream,
                   {parts, pieces});
  }
};

}  // namespace ws::gemm
