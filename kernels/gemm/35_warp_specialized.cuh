// Idea: C leaves asynchronously. A warp puts its rows into shared memory (stmatrix), the copy
//   engine writes them, and the warp goes on to the next tile.
// From wgmma_multicast: no tensor core waits for stores, and C is written in whole sectors. All
//   layouts are one kernel, which has a tile for every size; the warp that copies becomes a
//   warpgroup, so that its registers can go to those that multiply (setmaxnreg).
// Traffic: per 128 x 256 x 64 step a block reads 32 KB from L2 (48 KB without the cluster).
// Limits: sm_90a, f16 and bf16; K > 0, a stride of each matrix 1; base addresses and row strides,
//   and rows of C, are multiples of 16 bytes, the copy engine's rule.
#pragma once

#include <type_traits>

#include "kernels/gemm/dispatch.hpp"
#include "kernels/gemm/plan.hpp"
#include "kernels/gemm/wgmma_loop.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/tile/operand_stage.hpp"
#include "warpsmith/tile/pipeline.hpp"
#include "warpsmith/tile/stream_k.hpp"
#include "warpsmith/tile/warp_store.hpp"

namespace ws::gemm {

// What is a cluster's: every so-many-th tile, whole.
struct WholeTiles {
  static constexpr bool kCooperative = false;
  int tiles = 0;
  int steps = 0;  // slices of K

  // f(part) for each of a worker's.
  template <class F>
  __device__ __forceinline__ void for_each(int worker, int workers, F&& f) const {
    for (int tile = worker; tile < tiles; tile += workers) f(tile::Part{tile, 0, steps});
  }
  // Which of all tiles a part is.
  __device__ __forceinline__ static int place_of(const tile::Part& part) { return part.tile; }
  // Whether a warpgroup's sums over a part of K are the tile's, and its to store.
  template <class Policy, class Sums>
  __device__ __forceinline__ bool complete(const tile::Part& /*part*/, int /*consumer*/,
                                           Sums& /*sums*/) const {
    return true;
  }
};

// Which matrix of a batch of A, of B and of C.
struct MatrixIndex {
  int a = 0;
  int b = 0;
  int c = 0;
};

// C as the copy engine stores it.
template <class T>
struct TensorOutput {
  using Element = T;
  ptx::TensorMap map;

  template <class Store>
  static TensorOutput of(const Call& call) {
    return {Store::tensor_map(call.c.as<const T>(), call.m, call.n, call.c.leading)};
  }
  __device__ __forceinline__ void prefetch() const { ptx::prefetch_tensor_map(map); }
  template <class Store>
  __device__ __forceinline__ void put(Store& store, int row, int column,
                                      const typename Store::Sum* sums) const {
    store.put(map, row, column, sums);
  }
};

// The same for tiles whose last columns are stored kRest at a time.
template <class T, int kRest>
struct RaggedOutput : TensorOutput<T> {
  ptx::TensorMap rest;

  __device__ __forceinline__ void prefetch() const {
    TensorOutput<T>::prefetch();
    ptx::prefetch_tensor_map(rest);
  }

  template <class Store>
  static RaggedOutput of(const Call& call) {
    return {
        TensorOutput<T>::template of<Store>(call),
        Store::template tensor_map<kRest>(call.c.as<const T>(), call.m, call.n, call.c.leading)};
  }
  template <class Store>
  __device__ __forceinline__ void put_rest(Store& store, int row, int column,
                                           const typename Store::Sum* sums) const {
    store.template put<kRest>(rest, row, column, sums);
  }
};
template <class T, class Policy>
using OutputOf = std::conditional_t<Policy::kRestColumns == 0, TensorOutput<T>,
                                    RaggedOutput<T, Policy::kRestColumns>>;

// C as the lanes store it, for rows that start anywhere: what was launched before makes the
// operands.
template <class T>
struct PlainOutput {
  static constexpr bool kFollows = true;
  T* data;
  int64_t leading;
  int rows;
  int columns;

  template <class Store>
  static PlainOutput of(const Call& call) {
    return {call.c.as<T>(), call.c.leading, static_cast<int>(call.m), static_cast<int>(call.n)};
  }
  __device__ __forceinline__ void prefetch() const {}
  template <class Store>
  __device__ __forceinline__ void put(Store& store, int row, int column, const float* sums) const {
    store.write(data + row * leading + column, leading, rows - row, columns - column, sums);
  }
};

// What another Output may have beside put():
//   Element           its dtype, where that is not T
//   Held<kTileN, kRowBlocks>  what a lane keeps under the products: held.load(output, its warp's
//                     first row, first column), and put() takes as the second argument what
//                     held.from(block of 64 rows, column in the tile) gives
//   kFollows          what was launched before may still run when this kernel begins, and is waited
//                     for before anything is read; cooperative work begins when all else has ended
//   put_rest()        put() of the columns beside whole pieces, kRestColumns of the policy's wide
//   kBeside           warps bring what lanes read beside a stage's operands: Kernel::bring(), of
//                     which the lanes of one say that a stage has it; each warp gives it back
//   kPaired           column j of the tile is paired with j + kTileN / 2: B's tile is two of half
//                     the width, `second_half` columns of B apart, and so wide is the output's
template <class Output, class T>
struct OutputElement {
  using Type = T;
};
template <class Output, class T>
  requires requires { typename Output::Element; }
struct OutputElement<Output, T> {
  using Type = typename Output::Element;
};

// Long: the two roles and their protocol belong on one page, beside the storage they share.
// Elements of B may be others than A's, of the same size.
template <class T, Contiguous kA, Contiguous kB, class Policy, class Work = WholeTiles,
          class Output = OutputOf<T, Policy>, class TB = T>
struct WarpSpecializedKernel : Policy {
  static_assert(sizeof(T) == sizeof(TB));
  static constexpr int kMinBlocks = 1;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kTileM = Policy::kTileM;
  static constexpr int kTileN = Policy::kTileN;
  static constexpr int kTileK = Policy::kTileK * 2 / static_cast<int>(sizeof(T));  // 128 bytes
  static constexpr int kRowBlocks = Policy::kRowBlocks;
  // Work on the products of a batch says with each part which matrix of A, B and C it is of.
  static constexpr bool kBatched = requires { Work::kBatched; };
  // Work on groups of rows says where a part's group begins, from where its tiles count, and how
  // many tiles high it is; C is then stored with the part at hand.
  static constexpr bool kRowGroups = requires { Work::kRowGroups; };
  // Work on groups of K says where a part begins along K, and clears what of a slice is not its.
  static constexpr bool kDepthGroups = requires { Work::kDepthGroups; };
  static constexpr ptx::Major kMajorA =
      kA == Contiguous::kColumns ? ptx::Major::kK : ptx::Major::kMN;
  static constexpr ptx::Major kMajorB = kB == Contiguous::kRows ? ptx::Major::kK : ptx::Major::kMN;
  using StageA = tile::OperandStage<T, kMajorA, kTileM, kTileK, Policy::kClusterN, kBatched>;
  using StageB = tile::OperandStage<TB, kMajorB, kTileN, kTileK, Policy::kClusterM, kBatched>;
  static constexpr int kStageBytes = (StageA::kElements + StageB::kElements) * sizeof(T);
  static constexpr int kCopiedBytes = StageA::kCopiedBytes + StageB::kCopiedBytes;
  using Element = typename OutputElement<Output, T>::Type;
  static constexpr int kStoreColumns =
      Policy::kStoreColumns * 2 / static_cast<int>(sizeof(Element));
  using Store = tile::WarpStore<Element, Policy::kStoreBuffers, kStoreColumns, kBatched>;
  // As many as the policy wants, if they fit beside C and a kilobyte of barriers: MN-major tiles
  // may be wider.
  static constexpr int kStoreBytes = Policy::kConsumers * 4 * Store::kElements * sizeof(Element);
  static constexpr int kStages =
      std::min(Policy::kStages, (226 * 1024 - kStoreBytes) / kStageBytes);
  static_assert(kStages >= 2);
  // Who refills a stage sees what consumers did to it: nothing, but where they clear what is not
  // their group's, and then in other blocks too.
  static constexpr ptx::Scope kReuse =
      kDepthGroups && Policy::kCluster > 1 ? ptx::Scope::kCluster : ptx::Scope::kCta;
  using Position = tile::PipelinePosition<kStages>;
  static constexpr bool kBeside = requires { Output::kBeside; };
  // Who gives a stage back for a warpgroup: each warp, where lanes read it, as they read A where
  // helpers do something to B.
  static constexpr bool kHelped = Policy::kHelpers > 0;
  static constexpr int kArrivals = tile::kAcrossK<StageA> || kBeside || kHelped ? 4 : 1;
  static constexpr bool kHolds = requires { typename Output::template Held<kTileN, kRowBlocks>; };
  static constexpr bool kFollows = requires { Output::kFollows; };
  static constexpr bool kPaired = requires { Output::kPaired; };
  static constexpr int kOutputN = kPaired ? kTileN / 2 : kTileN;
  // The columns of a tile that are stored kStoreColumns at a time; the others are the rest.
  static constexpr int kEvenN = kOutputN / kStoreColumns * kStoreColumns;
  static_assert(kEvenN == kOutputN || (kOutputN - kEvenN) % Policy::kRestColumns == 0);
  static_assert(!kPaired || (Policy::kClusterM == 2 && !StageB::kShareOfK),
                "each of two blocks loads one of the two halves of B's tile");

  struct Arguments {
    typename StageA::Maps a;
    typename StageB::Maps b;
    Output c;
    tile::PreparedRaster raster;  // in tiles of a cluster
    Work work;
    int m, n;
  };
  struct SharedStorage {
    SharedArray<T, kStages * StageA::kElements, 1024> a;
    SharedArray<TB, kStages * StageB::kElements, 1024> b;
    SharedArray<Element, Policy::kConsumers * 4 * Store::kElements, 1024> c;
    tile::Pipeline<kStages> pipeline;
  };
  static_assert(sizeof(SharedStorage) <= 227 * 1024, "shared memory of a block");

  // A tile: where it begins, and where its operands are read, pulled in at the edges.
  struct Place {
    int row, column;
    int from_row, from_column;
  };

  template <class Part>
  __device__ __forceinline__ static MatrixIndex index_of(const Part& part) {
    if constexpr (kBatched) {
      return part.matrix;
    } else {
      return {};
    }
  }

  template <class Part>
  __device__ __forceinline__ static tile::TileIndex tile_of(const tile::PreparedRaster& raster,
                                                            const Part& part) {
    if constexpr (kRowGroups) {
      const tile::Raster& all = raster.raster();
      return tile::Raster{part.tiles_m, all.tiles_n, all.group}.at(part.tile);
    } else {
      return raster.at(part.tile);
    }
  }
  // Groups begin at any row: there is no place further up for the last one's pieces.
  __device__ __forceinline__ static int from_row_of(int row, int m) {
    return kRowGroups ? row : tile::pulled_in(row, kTileM, m, Store::kRows);
  }
  // Where a block's share of B begins.
  __device__ __forceinline__ static int from_column_of([[maybe_unused]] const Arguments& g,
                                                       const Place& place,
                                                       [[maybe_unused]] int rank_m) {
    if constexpr (kPaired) {
      // The second block's share begins kOutputN rows further down in the stage.
      if (rank_m == 1) return place.from_column + g.c.second_half - kOutputN;
    }
    return place.from_column;
  }
  template <class Part>
  __device__ __forceinline__ static int k_of(const Part& part, int block) {
    if constexpr (kDepthGroups) {
      return part.first_k + block * kTileK;
    } else {
      return block * kTileK;
    }
  }

  // Walks this block's parts of the output: f(place, part).
  template <class F>
  __device__ __forceinline__ static void for_each_part(const Arguments& g, F&& f) {
    const auto clusters = static_cast<int>(grid_blocks()) / Policy::kCluster;
    for_each_part(g, static_cast<int>(block_index()) / Policy::kCluster, clusters, f);
  }
  // The same for one of more workers than there are clusters.
  template <class F>
  __device__ __forceinline__ static void for_each_part(const Arguments& g, int worker, int workers,
                                                       F&& f) {
    const int rank = cluster_rank();
    g.work.for_each(worker, workers, [&](const auto& part) {
      const tile::TileIndex at = tile_of(g.raster, part);
      int row = (at.m * Policy::kClusterM + rank % Policy::kClusterM) * kTileM;
      if constexpr (kRowGroups) row += part.first_row;
      const int column = (at.n * Policy::kClusterN + rank / Policy::kClusterM) * kOutputN;
      f(Place{.row = row,
              .column = column,
              .from_row = from_row_of(row, g.m),
              .from_column = tile::pulled_in(column, kOutputN, g.n, Store::kColumns)},
        part);
    });
  }

  // One thread: fills stages for all tiles, its share of those that the cluster shares.
  __device__ __forceinline__ static void produce(SharedStorage& shared, const Arguments& g) {
    const int rank_m = cluster_rank() % Policy::kClusterM;
    const int rank_n = cluster_rank() / Policy::kClusterM;
    Position at;
    for_each_part(g, [&](const Place& place, const auto& part) {
      const MatrixIndex matrix = index_of(part);
      const int from_column = from_column_of(g, place, rank_m);
      for (int block = part.first; block < part.last; ++block) {
        ptx::Mbarrier& full = shared.pipeline.template acquire<kReuse>(at, kCopiedBytes);
        StageA::load(shared.a.pointer(at.stage * StageA::kElements), g.a, full, place.from_row,
                     k_of(part, block),
                     {.share = rank_n, .first_rank = rank_m, .rank_step = Policy::kClusterM},
                     matrix.a);
        StageB::load(shared.b.pointer(at.stage * StageB::kElements), g.b, full, from_column,
                     k_of(part, block),
                     {.share = rank_m, .first_rank = rank_n * Policy::kClusterM, .rank_step = 1},
                     matrix.b);
        at.advance();
      }
    });
  }

  // A stage goes back to every block whose copies land in it: one arrival from each warpgroup that
  // uses it, or of each of its warps.
  template <ptx::Scope kScope = ptx::Scope::kCta>
  __device__ __forceinline__ static void release(SharedStorage& shared, int stage) {
    if constexpr (kArrivals > 1) ptx::syncwarp();  // all lanes have read
    const int thread = thread_index() % (128 / kArrivals);
    if constexpr (Policy::kCluster == 1) {
      if (thread == 0) shared.pipeline.release(stage);
    } else if (thread < Policy::kCluster) {
      shared.pipeline.template release<kScope>(stage, thread);
    }
  }

  // Where a warp's rows of a block of 64 begin. `warp` counts the consumers' warps.
  __device__ __forceinline__ static int row_of(const Place& place, int panel, int warp) {
    return place.from_row + panel * 64 + warp % 4 * Store::kRows;
  }

  // What the output keeps under the products of a tile's rows, from the `panel`-th on.
  __device__ __forceinline__ static auto hold([[maybe_unused]] const Arguments& g,
                                              [[maybe_unused]] const Place& place,
                                              [[maybe_unused]] int panel,
                                              [[maybe_unused]] int warp) {
    if constexpr (kHolds) {
      typename Output::template Held<kTileN, kRowBlocks> held;
      held.load(g.c, row_of(place, panel, warp), place.from_column);
      return held;
    } else {
      return 0;
    }
  }

  // By a warpgroup: stores the sums of a tile's rows, blocks of 64 from the `panel`-th on; the
  // output may change them.
  template <class Part, class Held, class Sum>
  __device__ __forceinline__ static void put_rows(
      Store& store, const Arguments& g, const Place& place, [[maybe_unused]] const Part& part,
      [[maybe_unused]] const Held& held, Sum (&sum)[kRowBlocks][kTileN / 2], int panel, int warp) {
#pragma unroll
    for (int i = 0; i < kRowBlocks; ++i) {
      const int row = row_of(place, panel + i, warp);
      if (row < place.row) continue;  // the tile above has them
#pragma unroll
      for (int j = 0; j < kEvenN; j += Store::kColumns) {
        const int column = place.from_column + j;
        if (column < place.column) continue;
        if constexpr (kRowGroups) {
          g.c.put(store, part, row, column, &sum[i][j / 2]);
        } else if constexpr (kBatched) {
          g.c.put(store, index_of(part).c, row, column, &sum[i][j / 2]);
        } else if constexpr (kHolds) {
          g.c.put(store, held.from(i, j), row, column, &sum[i][j / 2]);
        } else {
          g.c.put(store, row, column, &sum[i][j / 2]);
        }
      }
      if constexpr (kEvenN < kOutputN) {
#pragma unroll
        for (int j = kEvenN; j < kOutputN; j += Policy::kRestColumns) {
          const int column = place.from_column + j;
          if (column < place.column) continue;  // of a tile that lies outside
          g.c.put_rest(store, row, column, &sum[i][j / 2]);
        }
      }
    }
  }

  // A warpgroup: multiplies its rows of every tile and stores them.
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& g,
                                                 int warp) {
    const int consumer = warp / 4;
    Position at;
    Store store{shared.c.pointer(warp * Store::kElements)};
    ptx::WgmmaSum<T> sum[kRowBlocks][kTileN / 2] = {};
    for_each_part(g, [&](const Place& place, const auto& part) {
      const auto held = hold(g, place, consumer * kRowBlocks, warp);
      if constexpr (kDepthGroups) {
        uint32_t cleared = 0;  // a bit for each stage
        multiply_stages<StageA, StageB>(
            sum, shared.a.pointer(), shared.b.pointer(), shared.pipeline, at,
            part.last - part.first, consumer * kRowBlocks,
            [&](int stage) {
              (cleared >> stage & 1) != 0 ? release<kReuse>(shared, stage) : release(shared, stage);
              cleared &= ~(1u << stage);
            },
            [&](int block, int stage) {
              if (Work::template clear<WarpSpecializedKernel>(shared, stage, part, block)) {
                cleared |= 1u << stage;
              }
            });
      } else {
        multiply_stages<StageA, StageB>(sum, shared.a.pointer(), shared.b.pointer(),
                                        shared.pipeline, at, part.last - part.first,
                                        consumer * kRowBlocks,
                                        [&](int stage) { release(shared, stage); });
      }
      if (!g.work.template complete<Policy>(part, consumer, sum)) return;
      put_rows(store, g, place, part, held, sum, consumer * kRowBlocks, warp);
    });
    store.finish();
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    play_roles<WarpSpecializedKernel>(shared, g);
  }

  // By one thread, before the first copies.
  __device__ __forceinline__ static void init(SharedStorage& shared) {
    shared.pipeline.init(kArrivals * Policy::kUsers * Policy::kCluster,
                         kBeside ? 1 + kWarpSize : 1);
  }

  // Kernel's init(), produce(), bring() and consume(): those of a kernel made from this one may be
  // others.
  template <class Kernel, class Storage>
  __device__ __forceinline__ static void play_roles(Storage& shared, const Arguments& g) {
    // Broadcast, so that the compiler knows it to be the same in all lanes.
    const auto warp =
        static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0));
    if (thread_index() == 0) {
      StageA::prefetch(g.a);
      StageB::prefetch(g.b);
      g.c.prefetch();
      Kernel::init(shared);
      ptx::fence_mbarrier_init();
    }
    meet_first(warp);
    if constexpr (kFollows) ptx::griddepcontrol_wait();
    if (warp < 4) {
      ptx::setmaxnreg_dec<Policy::kProducerRegisters>();
      if (warp == 0) {
        if (ptx::elect_sync()) Kernel::produce(shared, g);
        ptx::syncwarp();
      } else if constexpr (kRowGroups || kDepthGroups) {
        g.work.beside(g.c, warp - 1, 3);
      } else if constexpr (kBeside || kHelped) {
        Kernel::bring(shared, g, warp - 1, 3);
      }
    } else {
      ptx::setmaxnreg_inc<Policy::kConsumerRegisters>();
      Kernel::consume(shared, g, warp - 4);
    }
    // Others may still copy into this block's memory, or arrive at its barriers.
    if constexpr (Policy::kCluster > 1) meet();
  }

  // Once the stages' barriers are there: in a cluster others copy into this block's memory, and it
  // into theirs.
  __device__ __forceinline__ static void meet_first(int warp) {
    if constexpr (Policy::kCluster > 1) {
      meet();
    } else {
      meet_maker(warp == 0, 0, Policy::kThreads);
    }
  }

  // All blocks of the cluster.
  __device__ __forceinline__ static void meet() {
    ptx::syncwarp();  // the arrival is one instruction for the warp
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
  }

  // How many clusters share the tiles of a call, of which at most `max_blocks` blocks are resident.
  static int clusters_of(const tile::Raster& raster, int max_blocks) {
    return std::min(raster.count(), max_blocks / Policy::kCluster);
  }

  // C: a Call, or what has more for its output.
  template <class Kernel = WarpSpecializedKernel, class C = Call>
  static void run(const C& call, int max_blocks, Stream stream) {
    const tile::Raster raster = Policy::raster(call);
    run<Kernel>(call, raster, clusters_of(raster, max_blocks),
                {raster.count(), static_cast<int>(divide_up(call.k, kTileK))}, stream);
  }
  template <class Kernel = WarpSpecializedKernel, class C = Call>
  static void run(const C& call, const tile::Raster& raster, int clusters, const Work& work,
                  Stream stream) {
    const Matrix& a = call.a;
    const Matrix& b = call.b;
    start<Kernel>({.a = StageA::tensor_map(a.as<const T>(), call.m, call.k, a.leading),
                   .b = StageB::tensor_map(b.as<const TB>(), call.n, call.k, b.leading),
                   .c = Output::template of<Store>(call),
                   .raster = raster,
                   .work = work,
                   .m = static_cast<int>(call.m),
                   .n = static_cast<int>(call.n)},
                  clusters, stream);
  }
  template <class Kernel = WarpSpecializedKernel>
  static void start(const Arguments& arguments, int clusters, Stream stream) {
    launch<Kernel>({.blocks = clusters * Policy::kCluster,
                    .threads = Policy::kThreads,
                    .cluster = Policy::kCluster,
                    .cooperative = Work::kCooperative,
                    .overlaps = kFollows && !Work::kCooperative},
                   stream, arguments);
  }
};

// By the plan: how the output is cut into tiles.
template <class T>
void run_warp_specialized(const Call& call, Stream stream) {
  const int blocks = device_facts().multiprocessors;
  with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
    WgmmaPolicies::with(plan_wgmma(call).policy, [&]<class Policy>() {
      if constexpr (Policy::takes(kB)) {
        WarpSpecializedKernel<T, kA, kB, Policy>::run(call, blocks, stream);
      }
    });
  });
}
// Many kernels: 35_warp_specialized.cu and warp_specialized_bf16.cu have them.
extern template void run_warp_specialized<half>(const Call&, Stream);
extern template void run_warp_specialized<bf16>(const Call&, Stream);

struct WarpSpecialized {
  static bool supports(const Call& call, Why& why) {
    if (!why.unless(call.k > 0, "K = 0 leaves nothing to copy") || !runs_supported(call, why)) {
      return false;
    }
    for (const auto& [name, matrix] : matrices_of(call)) {
      if (!can_be_copied(name, matrix, call.dtype, why)) return false;
    }
    // The copy engine cuts what it stores at multiples of 16 bytes, not at the tensor's edge.
    return why.unless(call.c.length * 2 % 16 == 0, "rows of c are ", call.c.length * 2,
                      " bytes long, the copy engine stores multiples of 16");
  }

  static void run(const Call& call, const Context& context) {
    call.dtype == DType::kF16 ? run_warp_specialized<half>(call, context.stream)
                              : run_warp_specialized<bf16>(call, context.stream);
  }
};

}  // namespace ws::gemm
