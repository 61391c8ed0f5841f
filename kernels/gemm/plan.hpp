// What a call of the tensor-core rungs is thought to take, to choose between rungs, tiles and
// splits. In microseconds of an H200; constants were read off runs of the tuner since 2026-11-22
// (f16; JOURNAL.md has them), and policies.hpp has those of a tile. What matters is which time is
// less.
#pragma once

#include <cmath>

#include "kernels/gemm/policies.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/tile/stream_k.hpp"

namespace ws::gemm {

constexpr double kNever = 1e30;
constexpr double kStart = 5;         // the launch, the first copies, the last stores
constexpr double kStartAlone = 4.8;  // the same where no cluster meets before the first copies
constexpr double kMemory = 4.2e6;    // bytes that memory delivers
// Of operands' copies: a ninth of an H200's memory. Above that nothing gets them that did not name
// the rung.
constexpr double kMostWorkspace = double{1 << 30} * 16;

inline double memory_time(const Call& call) {
  const auto m = static_cast<double>(call.m);
  const auto n = static_cast<double>(call.n);
  const auto k = static_cast<double>(call.k);
  return (m * k + n * k + m * n) * static_cast<double>(size_of(call.dtype)) / kMemory;
}

// A tile that is larger than the matrix: the copy engine fills the rest with zeros, which takes it
// more time than rows that are there (tile::pulled_in). By how much a tile's time grows.
constexpr double edge_factor(int64_t tile, int64_t extent) {
  constexpr double kEmpty = 0.8;
  const double empty = tile > extent ? static_cast<double>(tile - extent) : 0.0;
  return 1 + kEmpty * empty / static_cast<double>(tile);
}

// How many clusters of `size` blocks, each with an SM for itself, are resident: larger ones find no
// place on all SMs of a group (cudaOccupancyMaxActiveClusters on an H200: 132, 66, 39, 30, ...).
inline int clusters_of(int size) {
  constexpr double kShare[] = {0, 1, 1, 0.89, 0.91, 0.83, 0.77, 0.795, 0.91};
  const int multiprocessors = device_facts().multiprocessors;
  return std::max(1, static_cast<int>(multiprocessors * kShare[size]) / size);
}

// Whether 128 bytes of a row along K are four sectors of 32 bytes, not parts of five.
inline bool rows_are_sectors(const Call& call) {
  const auto sectors = [](const Matrix& matrix, Contiguous along_k) {
    return matrix.contiguous != along_k || matrix.leading * 2 % 32 == 0;
  };
  return sectors(call.a, Contiguous::kColumns) && sectors(call.b, Contiguous::kRows);
}

// Tiles whose operands come from L2 no quicker than they are multiplied.
template <class Policy>
constexpr bool kSmallTile = Policy::kTileM * Policy::kTileN < 128 * 128;

// Of a B whose last panel is narrower than 64: rows of 32 to 96 bytes, and tiles that begin in the
// middle of a line. H200 2026-11-30, f16, nn against nt, us: tiles of 176 39.7 of 38.7 at 2304^3,
// of 144 16.1 of 14.9 at 1536^3; low ones of 224 13.2 of 12.2 at 1280^3, of 96 7.0 of 6.6 at 768^3.
template <class Policy>
double panel_factor(const Call& call) {
  if (call.b.contiguous != Contiguous::kColumns || Policy::kTileN % 64 == 0) return 1;
  constexpr auto kPanels = static_cast<double>(round_up(Policy::kTileN, 64));
  constexpr double kAbsent = 1 - Policy::kTileN / kPanels;
  return kSmallTile<Policy> ? 1.3 : 1 + 0.25 * kAbsent;
}

template <class Policy>
double edge_factor(const Call& call) {
  return edge_factor(Policy::kTileM, call.m) * edge_factor(Policy::kTileN, call.n);
}

// A wave of tiles. A fifth sector a row costs the middle tiles a third, and the small ones what L2
// makes of it. (Of the large ones, H200 2026-12-01, 3000 x 5000 x 7000 in nn: 128 x 192 in turns
// 330 us, 128 x 256 354.)
template <class Policy>
double wave_time(const Call& call) {
  const bool even = kSmallTile<Policy> || rows_are_sectors(call);
  const double uneven = Policy::kTileN == 256                            ? 1.05
                        : Policy::kTileM == 256 || Policy::kTileN >= 192 ? 1.1
                                                                         : 1.3;
  return static_cast<double>(divide_up(call.k, Policy::kTileK)) * Policy::kStep *
         (even ? 1 : uneven) * panel_factor<Policy>(call) * edge_factor<Policy>(call);
}

// What L2 delivers to small tiles, in bytes a us: the more the fewer there are of operands, and
// less where rows are a power of two apart. H200 2026-11-29, f16, nt: 17e6 at 1024^3 and 1792^3,
// 10e6 at 512 x 2048 x 2048, 256 x 4096 x 4096, 384 x 14336 x 4096. A fifth sector a row is two
// lines for one: 1000^3 takes 2.5 times as long as its bytes.
template <class Policy>
double l2_time(const Call& call) {
  if constexpr (kSmallTile<Policy>) {
    constexpr double kFew = 14e6, kMany = 36e6;  // bytes of operands
    constexpr double kFast = 17e6, kSlow = 10.5e6;
    constexpr int64_t kFarApart = 4096;
    const double operands = 2 * static_cast<double>(call.k) * static_cast<double>(call.m + call.n);
    const double many = std::clamp((operands - kFew) / (kMany - kFew), 0.0, 1.0);
    const bool apart = call.a.leading * 2 % kFarApart == 0 && call.b.leading * 2 % kFarApart == 0;
    const double rate = apart ? kSlow : kFast - many * (kFast - kSlow);
    const double step = 128.0 * (static_cast<double>(Policy::kTileM) / Policy::kClusterN +
                                 static_cast<double>(Policy::kTileN) / Policy::kClusterM);
    const double tiles = static_cast<double>(Policy::raster(call).count()) * Policy::kCluster;
    return tiles * static_cast<double>(divide_up(call.k, Policy::kTileK)) * step / rate *
           (rows_are_sectors(call) ? 1 : 2.5) * edge_factor<Policy>(call);
  } else {
    return 0;
  }
}

// Of a pair of small tiles that share the smaller operand each asks memory for the larger.
template <class Policy>
double pair_memory_time(const Call& call) {
  const bool shares_smaller = call.n > call.m ? Policy::kClusterN > 1 : Policy::kClusterM > 1;
  return memory_time(call) * (kSmallTile<Policy> && shares_smaller ? 1.06 : 1);
}

// Between two waves of tiles that two warpgroups compute together no product is under way while
// the first is stored; in pingpong the other warpgroup has its own. H200 2026-11-26, f16: 8192 x
// 8192 x 512, 16 waves, takes 117 us, by pingpong 101.
constexpr double bare_stores_time(int waves) {
  constexpr double kBare = 1.4;
  return std::max(waves - 1, 0) * kBare;
}

// A block with one tile has one warpgroup of pingpong's at work, whose start and end nothing
// covers. H200 2026-11-28, f16, nt, by the tuner: 1536^3 17.3 us, by two warpgroups 16.4;
// 1280^3 13.5 and 12.9. Tiles of 64 rows are as fast alone: 1024^3 9.5 and 10.0.
template <class Policy>
constexpr double lone_tile_time(int waves) {
  constexpr double kLone = 1.2;
  return waves == 1 && Policy::kTileM > 64 ? kLone : 0;
}

// ---- f32 on the CUDA cores ----------------------------------------------------------------------

// copy_engine's tiles of 128 x 128 in waves, or those that few of them are cut to, in one. H200
// 2026-11-30, us: 512^3 33, 1024^3 60, 64 x 4096 x 4096 226, 512 x 512 x 16384 856, 4096^3 2825.
inline double simt_time(const Call& call) {
  constexpr double kStepOfWave = 0.083;  // of 1 of K
  constexpr double kStepOfFew = 0.054;
  constexpr int64_t kTile = 128;
  const auto multiprocessors = static_cast<double>(device_facts().multiprocessors);
  const auto tiles = static_cast<double>(divide_up(call.m, kTile) * divide_up(call.n, kTile));
  const auto k = static_cast<double>(call.k);
  if (tiles < multiprocessors) return kStart + kStepOfFew * k;
  return kStart + std::ceil(tiles / multiprocessors) * kStepOfWave * k;
}

// Of wgmma_tf32, with the copies of its operands. (40_wgmma_tf32.cu)
double wgmma_tf32_time(const Call& call);
// Of wgmma_tf32_rs, where it takes the call. (56_wgmma_tf32_rs.cu)
double wgmma_tf32_rs_time(const Call& call);
// Of split_tf32, the same. (59_split_tf32.cu)
double split_tf32_time(const Call& call);
// Of three_tf32, with what it makes of its operands first. (46_three_tf32.cu)
double three_tf32_time(const Call& call);
// Of split_three_tf32, where it takes the call. (58_split_three_tf32.cu)
double split_three_tf32_time(const Call& call);
// What takes least of f32 with f32's accuracy.
enum class ByF32 { kSplitThreeTf32, kThreeTf32, kCudaCores };
inline ByF32 least_of_f32(const Call& call) {
  const double split = split_three_tf32_time(call);
  const double three = three_tf32_time(call);
  const double simt = simt_time(call);
  if (split < std::min(three, simt)) return ByF32::kSplitThreeTf32;
  return three < simt ? ByF32::kThreeTf32 : ByF32::kCudaCores;
}

// ---- bmm ----------------------------------------------------------------------------------------

// batched_warp_tile: 42 TFLOP/s of what its tiles are, then C. H200 2026-11-30, us, thought and
// taken: 64 x 512^3 430, 425; 512 x 512 x 512 x 64 542, 570; 512 x 512 x 64 x 512 430, 423;
// 128 x 128^3 20, 20; 32 x 256^3 33, 33; 32 x 1024 x 1024 x 128 242, 251; 4 x 512^3 32, 35.
inline double batched_simt_time(const BatchedCall& call) {
  constexpr double kRate = 0.16e6;  // multiplications a us, of a multiprocessor
  // Of rows that start anywhere. H200 2026-12-02: 1000 x 30^3 19 us, 192 x 197 x 64 x 197 63.
  constexpr double kElementByElement = 1.9;
  constexpr int64_t kTile = 64;
  const double rate =
      kRate * device_facts().multiprocessors / (copy_bytes_of(call) < 16 ? kElementByElement : 1);
  const auto elements = static_cast<double>(call.batch * round_up(call.m, kTile)) *
                        static_cast<double>(round_up(call.n, kTile));
  const auto c = static_cast<double>(call.batch * call.m) * static_cast<double>(call.n);
  return kStart + elements * static_cast<double>(call.k) / rate + c * sizeof(float) / kMemory;
}
// A thread an element of C, in 16 bits.
inline double thread_an_element_time(double elements, int64_t k) {
  constexpr double kRate = 15e3;   // multiplications a us, of a multiprocessor
  constexpr double kLoads = 0.09;  // of 1 of K, of a thread that waits for them
  const double rate = kRate * device_facts().multiprocessors;
  return kStart + (kLoads + elements / rate) * static_cast<double>(k);
}
// batched_naive and batched_any_layout, in 16 bits.
inline double batched_naive_time(const BatchedCall& call) {
  return thread_an_element_time(
      static_cast<double>(call.batch * call.m) * static_cast<double>(call.n), call.k);
}
// Beside their rungs' rows, with what is made of operands first.
double batched_tf32_time(const BatchedCall& call);
double batched_tf32_rs_time(const BatchedCall& call);
double batched_three_tf32_time(const BatchedCall& call);
double batched_three_tf32_rs_time(const BatchedCall& call);
double batched_realigned_time(const BatchedCall& call);

// What takes least of a batch of f32 with f32's accuracy.
enum class ByBatchedF32 : uint8_t { kThreeTf32Rs, kThreeTf32, kCudaCores };
struct LeastOfBatchedF32 {
  ByBatchedF32 by;
  double time;
};
inline LeastOfBatchedF32 least_of_batched_f32(const BatchedCall& call) {
  LeastOfBatchedF32 least{ByBatchedF32::kCudaCores, batched_simt_time(call)};
  for (const LeastOfBatchedF32& other :
       {LeastOfBatchedF32{ByBatchedF32::kThreeTf32, batched_three_tf32_time(call)},
        LeastOfBatchedF32{ByBatchedF32::kThreeTf32Rs, batched_three_tf32_rs_time(call)}}) {
    if (other.time < least.time) least = other;
  }
  return least;
}

// ---- warp_specialized, pingpong: whole waves of tiles -------------------------------------------

template <class Policy>
double whole_tiles_time(const Call& call) {
  const int waves = divide_up(Policy::raster(call).count(), clusters_of(Policy::kCluster));
  return (Policy::kCluster > 1 ? kStart : kStartAlone) +
         std::max({waves * wave_time<Policy>(call), l2_time<Policy>(call),
                   pair_memory_time<Policy>(call)}) +
         (Policy::kUsers > 1 ? bare_stores_time(waves) : lone_tile_time<Policy>(waves));
}

// The policy of least estimated time.
struct WgmmaPlan {
  int policy = 0;
  double time = kNever;
};
template <class Policies>
WgmmaPlan plan_whole_tiles(const Call& call) {
  WgmmaPlan best;
  for (int policy = 0; policy < Policies::kCount; ++policy) {
    Policies::with(policy, [&]<class Policy>() {
      if (!Policy::takes(call.b.contiguous)) return;
      const double time = whole_tiles_time<Policy>(call);
      if (time < best.time) best = {policy, time};
    });
  }
  return best;
}
inline WgmmaPlan plan_wgmma(const Call& call) { return plan_whole_tiles<WgmmaPolicies>(call); }

inline WgmmaPlan plan_pingpong(const Call& call) {
  return plan_whole_tiles<PingpongPolicies>(call);
}

// ---- stream_k: parts of waves, and an exchange of sums ------------------------------------------

inline double stream_k_time(const Call& call) {
  constexpr double kExchange = 16;
  const int clusters = clusters_of(2);
  const int tiles = WgmmaBig::raster(call).count();
  const double waves = static_cast<double>(tiles) / clusters;
  // Many workers of one tile would be added by one of them.
  if (waves < 0.4) return kNever;
  // Blocks that are at different K share less in L2.
  const double slower = rows_are_sectors(call) ? 0.06 : 0.15;
  const double cut = static_cast<double>(tile::StreamK::of(tiles, 1, clusters).cut) / clusters;
  const double work = (waves + slower * cut) * wave_time<WgmmaBig>(call);
  return kStart + kExchange + std::max(work, memory_time(call)) +
         bare_stores_time(divide_up(tiles, clusters));
}

// ---- split_k: a tile, and parts of K ------------------------------------------------------------

struct SplitPlan {
  int policy = 0;
  int parts = 1;
  double time = kNever;
};
template <class Policy>
constexpr double step_alone() {
  if constexpr (requires { Policy::kAlone; }) {
    return Policy::kAlone;
  } else {
    return Policy::kStep;
  }
}

// Fitted to 18 shapes (2026-11-22) and 16 more (2026-11-28): of those what it chooses is 2 % slower
// than the fastest of 33 candidates, 5 % at most where split_k is what a call gets.
template <class Policies>
SplitPlan plan_split_k(const Call& call) {
  constexpr double kSplitStart = 5.5;
  constexpr double kExchange = 0.67;  // of the sums, for each part but one
  constexpr double kL2 = 9.1e6;       // bytes a us
  SplitPlan best;
  for (int policy = 0; policy < Policies::kCount; ++policy) {
    Policies::with(policy, [&]<class Policy>() {
      const Call turned = Policy::kTurned ? transposed(call) : call;
      if (!Policy::takes(turned.b.contiguous)) return;
      const int tiles = Policy::raster(turned).count();
      const auto steps = static_cast<int>(divide_up(call.k, Policy::kTileK));
      // Empty rows of the narrow box weigh by their share of all rows: 1 x 28672 x 8192 takes what
      // 16 rows take.
      constexpr int kRows = Policy::kTileM * Policy::kSharers + Policy::kTileN;
      const double edge =
          edge_factor(Policy::kTileM * Policy::kSharers, turned.m) *
          edge_factor(kRows, kRows - std::max<int64_t>(0, Policy::kTileN - turned.n));
      constexpr double kBytes = 128.0 * kRows;
      const double l2_time = static_cast<double>(tiles) * steps * kBytes / kL2 * edge;
      for (int parts = 1; parts <= std::min(8 / Policy::kSharers, steps); ++parts) {
        // Blocks that share an SM take their time together.
        const int waves = divide_up(tiles, clusters_of(parts * Policy::kSharers));
        const int alone = Policy::kMinBlocks > 1 ? waves % 2 : 0;
        // A block that follows another on its SM starts as the first did, and neither's end is
        // under anything: 8192 x 8192 x 64 took 168 us where the first estimate was 20.
        const int rounds = divide_up(waves, Policy::kMinBlocks);
        constexpr double kNextBlock = Policy::kEnd + 1;
        const double work = divide_up(steps, parts) * edge *
                                ((waves - alone) * Policy::kStep + alone * step_alone<Policy>()) +
                            (rounds - 1) * kNextBlock;
        const double time = kSplitStart + (parts - 1) * kExchange + Policy::kEnd +
                            std::max({work, l2_time, memory_time(call)});
        if (time < best.time) best = {policy, parts, time};
      }
    });
  }
  return best;
}
inline SplitPlan plan_split_k(const Call& call) { return plan_split_k<SplitPolicies>(call); }

// ---- split_clusters: clusters of a tile, and an exchange of sums --------------------------------

struct ClustersPlan {
  int policy = 0;
  double time = kNever;
};
inline ClustersPlan plan_split_clusters(const Call& call) {
  ClustersPlan best;
  for (int policy = 0; policy < ClustersPolicies::kCount; ++policy) {
    ClustersPolicies::with(policy, [&]<class Policy>() {
      using Tile = typename Policy::Tile;
      const int64_t steps = divide_up(call.k, Tile::kTileK);
      const int64_t clusters = int64_t{Tile::raster(call).count()} * Policy::kParts;
      if (steps < Policy::kParts || clusters > clusters_of(Tile::kCluster)) return;
      const double work = static_cast<double>(divide_up(steps, Policy::kParts)) * Policy::kStep *
                          edge_factor<Tile>(call);
      const double time = kStart + Policy::kEnd + std::max(work, memory_time(call));
      if (time < best.time) best = {policy, time};
    });
  }
  return best;
}
// Flags of all warpgroups' exchanges, then a place for the sums of as many blocks as there can be.
inline Workspace split_clusters_workspace() {
  constexpr int kMostParts = 8;
  const int64_t blocks = device_facts().multiprocessors;
  constexpr int kWarps = 4;  // of a warpgroup, with a flag each
  const auto flags = static_cast<size_t>(
      round_up(blocks * kMostParts * Clusters128::kConsumers * kWarps * 4, 256));
  const auto sums = static_cast<size_t>(blocks * Clusters128::kTileM * Clusters128::kTileN * 4);
  return {.bytes = flags + sums, .zeroed = flags};
}

// ---- realigned: operands read and written once more, in a launch of its own ---------------------

inline bool needs_realigning(const Matrix& matrix, DType dtype) {
  const bool overlaps = matrix.runs > 1 && matrix.leading < matrix.length;
  return alignment_of(matrix, dtype) < 16 || overlaps || matrix.batch < 0;
}
// Copied rows start at multiples of 128 bytes: a row of a tile is then a line of L2, not two.
inline int64_t realigned_leading(const Matrix& matrix) {
  constexpr int64_t kLine = 64;
  return round_up(matrix.length, kLine);
}

// The tiles that it has for the product of the copies.
using RealignedPolicies = PolicyList<WgmmaBig, Low128, Low64>;
inline WgmmaPlan plan_realigned(const Call& aligned) {
  return plan_whole_tiles<RealignedPolicies>(aligned);
}

// The call of the copies, and what they take to make.
inline Call as_realigned(const Call& call) {
  Call aligned = call;
  for (Matrix* const matrix : {&aligned.a, &aligned.b}) {
    if (needs_realigning(*matrix, call.dtype)) matrix->leading = realigned_leading(*matrix);
  }
  return aligned;
}
inline double realigning_time(const Call& call) {
  constexpr double kLaunch = 3;
  double bytes = 0;
  for (const Matrix* const matrix : {&call.a, &call.b}) {
    if (!needs_realigning(*matrix, call.dtype)) continue;
    bytes +=
        2.0 * static_cast<double>(matrix->runs) * static_cast<double>(realigned_leading(*matrix));
  }
  if (bytes == 0) return 0;
  return bytes > kMostWorkspace ? kNever : kLaunch + 2 * memory_time(call);
}

inline double realigned_time(const Call& call) {
  const Call aligned = as_realigned(call);
  return realigning_time(call) + std::min({plan_split_k(aligned).time, plan_realigned(aligned).time,
                                           stream_k_time(aligned)});
}

// ---- shifted: rows that start anywhere, straight to shared memory -------------------------------

struct ShiftedPlan {
  int policy = 0;
  int parts = 1;
  double time = kNever;
};
// Of a call that is no higher than wide.
inline ShiftedPlan plan_shifted(const Call& call) {
  constexpr double kShiftedStart = 6;
  constexpr double kExchange = 0.6;
  constexpr int kMostParts = 4;
  const int multiprocessors = device_facts().multiprocessors;
  ShiftedPlan best;
  for (int policy = 0; policy < ShiftedPolicies::kCount; ++policy) {
    ShiftedPolicies::with(policy, [&]<class Policy>() {
      const int64_t tiles = divide_up(call.m, Policy::kTileM) * divide_up(call.n, Policy::kTileN);
      const int64_t steps = divide_up(call.k, Policy::kTileK);
      for (int parts = 1; parts <= std::min<int64_t>(kMostParts, steps); ++parts) {
        const int64_t waves = divide_up(tiles * parts, int64_t{2} * multiprocessors);
        if (parts > 1 && waves > 1) break;  // clusters of a second wave begin late
        const double step = tiles * parts > multiprocessors ? Policy::kShared : Policy::kStep;
        const double time = kShiftedStart + (parts > 1 ? kExchange : 0) +
                            static_cast<double>(waves * divide_up(steps, parts)) * step;
        if (time < best.time) best = {policy, parts, time};
      }
    });
  }
  return best;
}

// ---- mma_pipeline on rows that start at multiples of 2 or 4 bytes -------------------------------

inline double small_mma_time(const Call& call) {
  constexpr double kStep = 2.5;
  constexpr double kNextTile = 2.6;  // H200 2026-12-02: 10000 x 10000 x 10 in 247 us, 48 waves
  const int64_t tiles = divide_up(call.m, MmaSmall::kTileM) * divide_up(call.n, MmaSmall::kTileN);
  const int64_t waves = divide_up(tiles, device_facts().multiprocessors);
  return kStart + static_cast<double>(waves * divide_up(call.k, MmaSmall::kTileK)) * kStep +
         static_cast<double>(waves - 1) * kNextTile;
}

// H200 2026-11-29, f16, nt: 100^3 to 700^3 in 6.0, 8.7, 12.7 and 20.1 us, 101^3, 301^3 and 509^3,
// element by element, in 7.1, 11.1 and 16.0. (By the larger tiles 13.7 to 34.4.)
inline double tiny_mma_time(const Call& call) {
  const double step = copy_bytes_of(call) >= 4 ? 0.65 : 1.15;  // of a block alone
  constexpr double kShared = 0.2;                              // for each on its SM
  const int64_t tiles = divide_up(call.m, MmaTiny::kTileM) * divide_up(call.n, MmaTiny::kTileN);
  const int64_t blocks = divide_up(tiles, device_facts().multiprocessors);
  return kStartAlone + static_cast<double>(divide_up(call.k, MmaTiny::kTileK)) *
                           (step + kShared * static_cast<double>(blocks));
}

}  // namespace ws::gemm
