// Idea: K is divided among the blocks of a cluster. Each multiplies its part; then the blocks read
//   each other's sums from shared memory, every block some rows of the tile, in one order.
// From warp_specialized: a product with few tiles still has work for all SMs. The sums never see
//   global memory and wait for no other launch. Narrow products (M or N up to 96) are turned so
//   that their long side is wgmma's M, and get tiles of 128 x 16 to 64 x 96, most two blocks an SM:
//   they run at the rate at which the larger operand can be read.
// Traffic: A and B once from memory where one side is a tile wide; of the sums 4 bytes an element
//   and block through the cluster's network.
// Limits: sm_90a; rows of A and B at multiples of 16 bytes, the copy engine's rule; C as it likes.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "kernels/gemm/plan.hpp"
#include "kernels/gemm/wgmma_loop.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/operand_stage.hpp"

namespace ws::gemm {

// C in lines that start anywhere, `leading` apart.
template <class T>
struct LinesOutput {
  T* data;
  int64_t leading;
  bool aligned;  // lines start at multiples of 16 bytes

  static LinesOutput of(const Call& call, DType dtype) {
    return {call.c.as<T>(), call.c.leading, alignment_of(call.c, dtype) == 16};
  }
  static LinesOutput of(const Call& call) { return of(call, call.dtype); }
  // kWidth sums at (line, column), of which `left` are C's.
  template <class Sum, int kWidth>
  __device__ __forceinline__ void put(int line, int column, int left,
                                      const Vec<Sum, kWidth>& sums) const {
    put_some(data + line * leading + column, left, thread::convert<T>(sums));
  }
};

// Long: copies, products and the exchange of the sums are one protocol of a cluster, and the
// storage of the first is the place of the last. Elements of B may be others than A's, of the same
// size.
template <class T, Contiguous kA, Contiguous kB, class Policy, class Output = LinesOutput<T>,
          class TB = T>
struct SplitKKernel : Policy {
  static_assert(sizeof(T) == sizeof(TB));
  static constexpr Arch kArch = Arch::kSm90a;
  using Policy::kConsumers, Policy::kStages, Policy::kTileM, Policy::kTileN, Policy::kTurned;
  static constexpr int kTileK = Policy::kTileK * 2 / static_cast<int>(sizeof(T));  // 128 bytes
  using Sum = ptx::WgmmaSum<T>;
  static constexpr ptx::Major kMajorA =
      kA == Contiguous::kColumns ? ptx::Major::kK : ptx::Major::kMN;
  static constexpr ptx::Major kMajorB = kB == Contiguous::kRows ? ptx::Major::kK : ptx::Major::kMN;
  using StageA = tile::OperandStage<T, kMajorA, kTileM, kTileK, 1>;
  using StageB = tile::OperandStage<TB, kMajorB, kTileN, kTileK, Policy::kSharers>;
  using Position = tile::PipelinePosition<kStages>;
  // Of each warpgroup, when a stage goes back: where lanes read A, as they do beside helpers, all
  // four warps have.
  static constexpr int kArrivals = tile::kAcrossK<StageA> || Policy::kHelpers > 0 ? 4 : 1;
  // Whether the output asks memory for something that it adds, before the sums are there.
  static constexpr bool kHolds = requires(Output c) { c.template hold<1>(0, 0, 0); };

  // The sums in shared memory, in the order of C: a line is a row of the tile, or a column where
  // the product is turned. Lines are padded so that the stores of a warp meet no bank conflict.
  static constexpr int kLines = kTurned ? kTileN : kTileM;
  static constexpr int kLength = kTurned ? kTileM : kTileN;
  static constexpr int kLineStride = kLength + (kTurned ? 4 : 8);

  struct Arguments {
    ptx::TensorMap a;
    ptx::TensorMap b;
    Output c;
    int lines, length;            // of C
    tile::PreparedRaster raster;  // in tiles of kSharers blocks
    thread::Divider cluster, parts;
    int blocks_of_k;
  };
  struct SharedStorage {
    SharedArray<T, kStages * StageA::kElements, 1024> a;
    SharedArray<TB, kStages * StageB::kElements, 1024> b;
    tile::Pipeline<kStages> pipeline;
  };
  static_assert(kLines * kLineStride * 4 <= kStages * Policy::kStageBytes, "the sums' place");

  // A block's place in its cluster: kSharers blocks, one above the other, have the same columns and
  // the same part of K, and load B for each other.
  struct Place {
    int part;    // of K
    int parts;   // that K has
    int sharer;  // which of its part's blocks
  };
  __device__ __forceinline__ static Place place() {
    return {.part = cluster_rank() / Policy::kSharers,
            .parts = cluster_size() / Policy::kSharers,
            .sharer = cluster_rank() % Policy::kSharers};
  }

  // One thread: fills stages with this block's part of K.
  __device__ __forceinline__ static void produce(SharedStorage& shared, const Arguments& g,
                                                 const Place& place, int row, int column, int first,
                                                 int last) {
    Position at;
    for (int block = first; block < last; ++block) {
      ptx::Mbarrier& full = shared.pipeline.acquire(at, Policy::kStageBytes);
      StageA::load(shared.a.pointer(at.stage * StageA::kElements), g.a, full, row, block * kTileK,
                   {});
      StageB::load(
          shared.b.pointer(at.stage * StageB::kElements), g.b, full, column, block * kTileK,
          {.share = place.sharer, .first_rank = place.part * Policy::kSharers, .rank_step = 1});
      at.advance();
    }
  }

  // A stage goes back to every block whose copies land in it: kArrivals from each warpgroup.
  __device__ __forceinline__ static void release(SharedStorage& shared, const Place& place,
                                                 int stage) {
    if constexpr (kArrivals > 1) ptx::syncwarp();  // all lanes have read
    const int thread = thread_index() % (128 / kArrivals);
    if constexpr (Policy::kSharers == 1) {
      if (thread == 0) shared.pipeline.release(stage);
    } else if (thread < Policy::kSharers) {
      shared.pipeline.release(stage, place.part * Policy::kSharers + thread);
    }
  }

  // A warpgroup's 64 rows of the tile, from registers to shared memory.
  __device__ __forceinline__ static void put(SharedSpan<Sum> sums, const Sum (&sum)[kTileN / 2],
                                             int warp) {
    const int row = warp * 16 + lane_index() / 4;
    const int column = lane_index() % 4 * 2;
#pragma unroll
    for (int i = 0; i < kTileN / 4; ++i) {  // eight columns, then eight rows further on
      const int r = row + i % 2 * 8;
      const int c = column + i / 2 * 8;
      if constexpr (kTurned) {
        sums[c * kLineStride + r] = sum[i * 2];
        sums[(c + 1) * kLineStride + r] = sum[i * 2 + 1];
      } else {
        sums.template store<2>(r * kLineStride + c, Vec<Sum, 2>{sum[i * 2], sum[i * 2 + 1]});
      }
    }
  }

  // Where a tile begins in C: in which line, where in it. `own_...`: what is before is another's.
  struct Lines {
    int line, column;
    int own_line, own_column;
  };

  // This block's lines of the tile: the sums of all parts of K, in order.
  template <int kWidth>
  __device__ __forceinline__ static void write(const Arguments& g, const Place& place,
                                               SharedSpan<Sum> sums, const Lines& tile) {
    constexpr int kParts = kLength / kWidth;
    constexpr int kAtOnce = 4;  // loads from a block that are in flight together
    const int first = kLines * place.part / place.parts;
    const int count = (kLines * (place.part + 1) / place.parts - first) * kParts;
    for (int i = thread_index(); i < count; i += Policy::kThreads * kAtOnce) {
      const auto part = [&](int j) { return std::min(i + j * Policy::kThreads, count - 1); };
      const auto from = [&](int j) { return first + part(j) / kParts; };
      const auto at = [&](int j) { return part(j) % kParts * kWidth; };
      // What the output adds comes from memory while the sums come from the other blocks.
      const auto hold = [&]([[maybe_unused]] int j) {
        if constexpr (kHolds) {
          const int column = tile.column + at(j);
          return g.c.template hold<kWidth>(std::min(tile.line + from(j), g.lines - 1), column,
                                           g.length - column);
        } else {
          return 0;
        }
      };
      decltype(hold(0)) held[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) held[j] = hold(j);
      Vec<Sum, kWidth> total[kAtOnce]{};
      for (int other = 0; other < place.parts; ++other) {
        const int rank = other * Policy::kSharers + place.sharer;
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int index = from(j) * kLineStride + at(j);
          const auto more = place.parts == 1 ? sums.template load<kWidth>(index)
                                             : ptx::ld_shared_cluster<Vec<Sum, kWidth>>(
                                                   ptx::map_shared_rank(sums.pointer(index), rank));
#pragma unroll
          for (int k = 0; k < kWidth; ++k) total[j][k] += more[k];
        }
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int to_line = tile.line + from(j);
        const int to_column = tile.column + at(j);
        if (i + j * Policy::kThreads >= count) continue;
        if (to_line >= g.lines || to_line < tile.own_line || to_column < tile.own_column) continue;
        if constexpr (kHolds) {
          g.c.put(to_line, to_column, g.length - to_column, total[j], held[j]);
        } else {
          g.c.put(to_line, to_column, g.length - to_column, total[j]);
        }
      }
    }
  }

  // A warpgroup: sums of its rows, of the tile that begins at (row, column), over slices of K from
  // `first` on.
  __device__ __forceinline__ static void multiply(Sum (&sum)[1][kTileN / 2], SharedStorage& shared,
                                                  const Arguments& /*g*/, const Place& place,
                                                  int consumer, int /*row*/, int /*column*/,
                                                  int first, int last) {
    Position at;
    multiply_stages<StageA, StageB>(sum, shared.a.pointer(), shared.b.pointer(), shared.pipeline,
                                    at, last - first, consumer,
                                    [&](int stage) { release(shared, place, stage); });
  }

  // By one thread, before the first copies.
  __device__ __forceinline__ static void init(SharedStorage& shared) {
    shared.pipeline.init(kArrivals * kConsumers * Policy::kSharers);
  }
  // A warp of the helpers.
  __device__ __forceinline__ static void help(SharedStorage& /*shared*/, int /*warp*/,
                                              int /*first*/, int /*last*/) {}

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    play<SplitKKernel>(shared, g);
  }

  // Kernel's init(), help() and multiply(): those of a kernel made from this one may be others.
  template <class Kernel, class Storage>
  __device__ __forceinline__ static void play(Storage& shared, const Arguments& g) {
    // Broadcast, so that the compiler knows it to be the same in all lanes.
    const auto warp =
        static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0));
    const bool copies = warp == kConsumers * 4;
    if (copies && lane_index() == 0) {
      ptx::prefetch_tensor_map(g.a);
      ptx::prefetch_tensor_map(g.b);
      Kernel::init(shared);
      ptx::fence_mbarrier_init();
    }
    if constexpr (Policy::kSharers > 1) {  // the others copy into this block's memory
      ptx::syncwarp();
      ptx::cluster_arrive_relaxed();
      ptx::cluster_wait();
    } else {
      meet_maker(copies, 2, Policy::kThreads);
    }
    ptx::griddepcontrol_wait();
    const Place place = SplitKKernel::place();
    const tile::TileIndex tile =
        g.raster.at(static_cast<int>(g.cluster.quotient(static_cast<uint32_t>(block_index()))));
    // At the edges pulled in by as much as the copy engine's alignment and the stores of C allow.
    constexpr int kPiece = 8;
    const int own_row = (tile.m * Policy::kSharers + place.sharer) * kTileM;
    const int own_column = tile.n * kTileN;
    const int row = tile::pulled_in(own_row, kTileM, kTurned ? g.length : g.lines, kPiece);
    const int column = tile::pulled_in(own_column, kTileN, kTurned ? g.lines : g.length, kPiece);
    const auto begin_of = [&](int part) {
      return static_cast<int>(g.parts.quotient(static_cast<uint32_t>(g.blocks_of_k * part)));
    };
    const int first = begin_of(place.part);
    const int last = begin_of(place.part + 1);
    // All stages have been filled and used when the sums come into their place.
    const SharedSpan<Sum> sums{reinterpret_cast<Sum*>(shared.a.pointer()), kLines * kLineStride};
    if (copies) {
      if (ptx::elect_sync()) produce(shared, g, place, row, column, first, last);
      ptx::syncwarp();
    } else if (Policy::kHelpers > 0 && warp > kConsumers * 4) {
      Kernel::help(shared, warp - kConsumers * 4 - 1, first, last);
    } else {
      Sum sum[1][kTileN / 2] = {};
      Kernel::multiply(sum, shared, g, place, warp / 4, row, column, first, last);
      ptx::barrier_sync(1, kConsumers * 128);
      put(sums, sum[0], warp);
    }
    if (place.parts == 1) {
      ptx::barrier_sync();
    } else {
      ptx::cluster_sync();
    }
    const Lines lines =
        kTurned ? Lines{column, row, own_column, own_row} : Lines{row, column, own_row, own_column};
    if (g.c.aligned) {
      write<4>(g, place, sums, lines);
    } else {
      write<1>(g, place, sums, lines);
    }
    // Others may still read this block's sums, or arrive at its barriers.
    if (cluster_size() > 1) ptx::cluster_sync();
  }

  // `call` is turned already where the policy is; `split` blocks divide K. Where `overlaps`, the
  // launch before may still run.
  static void run(const Call& call, int split, Stream stream, bool overlaps = false) {
    start<SplitKKernel>(call, Output::of(call), split, stream, overlaps);
  }
  template <class Kernel>
  static void start(const Call& call, const Output& output, int split, Stream stream,
                    bool overlaps = false) {
    const tile::Raster raster = Policy::raster(call);
    launch<Kernel>({.blocks = raster.count() * split * Policy::kSharers,
                    .threads = Policy::kThreads,
                    .cluster = split * Policy::kSharers,
                    .overlaps = overlaps},
                   stream,
                   {.a = StageA::tensor_map(call.a.as<const T>(), call.m, call.k, call.a.leading),
                    .b = StageB::tensor_map(call.b.as<const TB>(), call.n, call.k, call.b.leading),
                    .c = output,
                    .lines = static_cast<int>(kTurned ? call.n : call.m),
                    .length = static_cast<int>(kTurned ? call.m : call.n),
                    .raster = raster,
                    .cluster = thread::Divider(split * Policy::kSharers),
                    .parts = thread::Divider(split),
                    .blocks_of_k = static_cast<int>(divide_up(call.k, kTileK))});
  }
};

// By the plan.
template <class T>
void run_split_k(const Call& call, const SplitPlan& plan, Stream stream, bool overlaps = false) {
  SplitPolicies::with(plan.policy, [&]<class Policy>() {
    const Call turned = Policy::kTurned ? transposed(call) : call;
    with_contiguous(turned, [&]<Contiguous kA, Contiguous kB>() {
      if constexpr (Policy::takes(kB)) {
        SplitKKernel<T, kA, kB, Policy>::run(turned, plan.parts, stream, overlaps);
      }
    });
  });
}
// Many kernels: 36_split_k.cu and split_k_bf16.cu have them.
extern template void run_split_k<half>(const Call&, const SplitPlan&, Stream, bool);
extern template void run_split_k<bf16>(const Call&, const SplitPlan&, Stream, bool);

struct SplitK {
  static bool supports(const Call& call, Why& why) { return operands_can_be_copied(call, why); }
  static void run(const Call& call, const Context& context) {
    const SplitPlan plan = plan_split_k(call);
    call.dtype == DType::kF16 ? run_split_k<half>(call, plan, context.stream)
                              : run_split_k<bf16>(call, plan, context.stream);
  }
};

}  // namespace ws::gemm
