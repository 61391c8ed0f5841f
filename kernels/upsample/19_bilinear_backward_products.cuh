// Idea: the gradient is two products of matrices with few numbers around a diagonal: what 16 rows
// of dx weigh times rows of grad, and that times what columns weigh. The tensor cores add both up.
// From bilinear_backward_fours: no element is converted, weighed or looked for by itself. Weights
// and sums between the products are two numbers of 16 bits each, a rounded one and what it lacks.
// Traffic: each element once, an eighth of grad's again from the L2; rows come to a ring in shared
// memory by themselves while those before are added up.
// Limits: f16 and bf16, contiguous planes, columns by eights, all of it aligned to 16 bytes; images
// that grew up to 1.69 fold, or shrank.
// Long: two products, two tables of weights, and warps of two kinds that share a ring.
#pragma once

#include <utility>

#include "kernels/upsample/09_bilinear_naive.cuh"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/half.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mbarrier.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/warp_store.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::upsample {

// Of how many elements of grad, at most, pixels that follow each other are a part.
class MostElements {
 public:
  explicit MostElements(const LinearAxis& axis) : axis_(axis) {
    // The last pixel may have many more than others: all that lie beyond it.
    const int64_t last = axis.end_with(axis.from - 1) - axis.first_with(axis.from - 1);
    beyond_ = std::max<int64_t>(last + 1 - of_places(1), 0);
  }
  int64_t operator()(int64_t pixels) const {
    return std::min<int64_t>(of_places(std::min<int64_t>(pixels, axis_.from)) + beyond_, axis_.to);
  }

 private:
  // Those whose places lie less than one before the first or behind the last, and what f32 rounds.
  int64_t of_places(int64_t pixels) const {
    const float elements = static_cast<float>(pixels + 1) / axis_.step + 2;
    return static_cast<int64_t>(::fminf(elements, static_cast<float>(axis_.to)));
  }

  LinearAxis axis_;
  int64_t beyond_;
};

// Two numbers as pairs of T: rounded, and what was lost.
template <class T>
struct SplitPair {
  uint32_t high;
  uint32_t low;

  SplitPair() = default;
  __device__ __forceinline__ SplitPair(float first, float second)
      : high(tile::pack<T>(first, second)) {
    const auto of = [&](int i) {
      T value;
      value.bits = static_cast<uint16_t>(high >> (16 * i));
      return to_float(value);
    };
    low = tile::pack<T>(first - of(0), second - of(1));
  }
};

template <class T>
struct BilinearBackwardProductsKernel {
  static constexpr int kMixers = 12;    // warps
  static constexpr int kProducers = 4;  // warps that fetch rows and find what they weigh
  static constexpr int kRing = 4;       // strips whose rows are in shared memory
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kThreads = (kMixers + kProducers) * kWarpSize;
  static_assert(kRing % kProducers == 0);  // a producer meets each turn of its slots
  // A strip is made of kDown times as many rows of grad, a group of tiles of kTiles tiles.
  static constexpr int kRows = 16;  // of a strip of dx
  static constexpr int kDown = 2;
  static constexpr int kWide = 8;   // columns of a tile
  static constexpr int kGroup = 4;  // tiles of dx that a warp makes at once
  static constexpr int kTiles = 8;
  // Of a row that a warp stages, in elements: rows of 16 bytes begin in all banks.
  static constexpr int kStagedPitch = (kGroup + 1) * kWide;
  // Of 16 columns of grad that a tile of dx may be made of. The first tile has the first two alone;
  // which of them others need is not known when this is compiled, and which registers must be.
  static constexpr int kPairs = kTiles / 2;
  static constexpr int pairs_of(int tile) { return tile == 0 ? 2 : kPairs; }
  static constexpr int pairs_before(int tile) { return tile == 0 ? 0 : 2 + (tile - 1) * kPairs; }
  static constexpr int kDownWords = kDown * 256;  // of a strip's weights, high and low parts
  static constexpr int kPairWords = 128;          // of a tile's for a pair
  static constexpr int kGroupWords = pairs_before(kGroup) * kPairWords;
  struct Arguments {
    const T* grad;
    T* dx;
    LinearAxis down;
    LinearAxis along;
    int strips;  // of all planes
    int strips_a_block;
    int groups_a_chunk;
    int rows;   // of a strip in the ring
    int pitch;  // of one of them, in elements
    thread::Divider strips_of_plane;
    thread::Divider chunks;  // of a row of dx
  };
  struct SharedStorage {
    SharedArray<uint32_t, kRing * kDownWords> down;
    SharedArray<T, kMixers * kRows * kStagedPitch> staged;
    SharedArray<int, kRing> rows;  // that a strip has
    ptx::Mbarrier full[kRing];
    ptx::Mbarrier empty[kRing];
  };

  // Of the tables and the ring of a block, in words.
  static __host__ __device__ int64_t words_of(int64_t groups, int64_t rows, int64_t pitch) {
    return groups * (kGroupWords + 1) + kRing * rows * pitch / 2;
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto block = static_cast<uint32_t>(block_index());
    const auto part = static_cast<int>(a.chunks.quotient(block));
    const int chunk = static_cast<int>(block) - part * static_cast<int>(a.chunks.divisor());
    const Chunk here(shared, a, chunk);
    const int begin = part * a.strips_a_block;
    const int count = std::min(a.strips_a_block, a.strips - begin);
    if (thread_index() == 0) {
      for (auto& full : shared.full) ptx::mbarrier_init(full, kWarpSize);
      for (auto& empty : shared.empty) ptx::mbarrier_init(empty, kMixers);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp_index() >= kMixers) {
      produce(shared, a, here, begin, count);
    } else {
      here.find_starts(a);
      here.clear_margin(a);
      ptx::barrier_sync(1, kMixers * kWarpSize);
      here.find_weights(a);
      ptx::barrier_sync(1, kMixers * kWarpSize);
      mix(shared, a, here, begin, count);
    }
  }

 private:
  // Groups of tiles of a row of dx, what they are made of, and where tables and ring lie.
  struct Chunk {
    int first;  // tile
    int groups;
    int from;     // tile of grad
    int columns;  // of grad
    SharedSpan<uint32_t> weights;
    SharedSpan<T> ring;
    SharedSpan<int> starts;  // tile of grad that each group begins with, from `from` on

    __device__ __forceinline__ Chunk(SharedStorage& shared, const Arguments& a, int chunk)
        : first(chunk * a.groups_a_chunk * kGroup),
          groups(std::min(a.groups_a_chunk, divide_up(tiles_of(a) - first, kGroup))),
          from(std::min(a.along.first_with(first * kWide), a.along.to - 1) / kWide),
          weights(dynamic_shared<uint32_t>(shared, words_of(a.groups_a_chunk, a.rows, a.pitch))),
          ring(reinterpret_cast<T*>(weights.pointer(int64_t{kGroupWords} * a.groups_a_chunk)),
               int64_t{kRing} * a.rows * a.pitch),
          starts(reinterpret_cast<int*>(ring.pointer(ring.size())), a.groups_a_chunk) {
      const int last = std::min((first + groups * kGroup) * kWide, a.along.from) - 1;
      columns = std::max(round_up(a.along.end_with(last), kWide) - from * kWide, int{kWide});
    }
    static __device__ __forceinline__ int tiles_of(const Arguments& a) {
      return a.along.from / kWide;
    }

    __device__ __forceinline__ void find_starts(const Arguments& a) const {
#pragma unroll 1
      for (int i = thread_index(); i < groups; i += kMixers * kWarpSize) {
        const int element = a.along.first_with((first + i * kGroup) * kWide);
        starts[i] = std::min(element, a.along.to - 1) / kWide - from;
      }
    }
    // Zeros behind the columns of the ring, which are multiplied by zeros.
    __device__ __forceinline__ void clear_margin(const Arguments& a) const {
      const int margin = (a.pitch - columns) / kWide;
      const int vectors = kRing * a.rows * margin;
      const SharedSpan<uint32_t> words(reinterpret_cast<uint32_t*>(ring.pointer()),
                                       ring.size() / 2);
#pragma unroll 1
      for (int i = thread_index(); i < vectors; i += kMixers * kWarpSize) {
        const int row = i / margin;
        const int column = columns + (i - row * margin) * kWide;
        words.template store<4>((row * a.pitch + column) / 2, Vec<uint32_t, 4>{});
      }
    }
    // A lane's weights of each pair of each tile, of two columns that follow each other.
    __device__ __forceinline__ void find_weights(const Arguments& a) const {
      const LinearAxis& along = a.along;
#pragma unroll 1
      for (int i = thread_index(); i < groups * 2 * kWarpSize; i += kMixers * kWarpSize) {
        const int group = i / (2 * kWarpSize);
        const int half = i / kWarpSize % 2;
        const int lane = i % kWarpSize;
        for_pairs([&]<int kPair, int kTile>() {
          const int start = from + starts[group] + 2 * kPair + half;
          const int element = start * kWide + lane % 4 * 2;
          const int pixel = (first + group * kGroup + kTile) * kWide + lane / 4;
          const auto split = weights_of(along, pixel, element);
          const int at = weights_at<kPair, kTile>(group, lane) + half;
          weights[at] = split.high;
          weights[at + 2] = split.low;
        });
      }
    }
    template <int kPair, int kTile>
    static __device__ __forceinline__ int weights_at(int group, int lane) {
      constexpr int kPlace = pairs_before(kTile) + kPair;
      return group * kGroupWords + kPlace * kPairWords + lane * 4;
    }
  };
  // f.operator()<pair, tile>() for each pair that a tile is made of; pair by pair.
  template <class F>
  static __device__ __forceinline__ void for_pairs(const F& f) {
    unroll<kPairs>([&]<int kPair>() { for_tiles_of<kPair>(f); });
  }
  template <int kPair, class F>
  static __device__ __forceinline__ void for_tiles_of(const F& f) {
    unroll<kGroup>([&]<int kTile>() {
      if constexpr (kPair < pairs_of(kTile)) {
        f.template operator()<kPair, kTile>();
      }
    });
  }
  template <int kTimes, class F>
  static __device__ __forceinline__ void unroll(const F& f) {
    [&]<int... kNumbers>(std::integer_sequence<int, kNumbers...>) {
      (f.template operator()<kNumbers>(), ...);
    }(std::make_integer_sequence<int, kTimes>{});
  }

  // Where strip i lies, of all planes.
  struct Strip {
    int plane;
    int top;  // row of dx

    __device__ __forceinline__ Strip(const Arguments& a, int i)
        : plane(static_cast<int>(a.strips_of_plane.quotient(static_cast<uint32_t>(i)))),
          top((i - plane * static_cast<int>(a.strips_of_plane.divisor())) * kRows) {}
  };

  // Rows of grad of strips, and what they weigh as lanes take it. A copy takes its warp some 75
  // cycles, and a strip all of it together thousands, so that producers take strips in turns.
  static __device__ __forceinline__ void produce(SharedStorage& shared, const Arguments& a,
                                                 const Chunk& here, int begin, int count) {
    const int lane = lane_index();
    const auto bytes = static_cast<uint32_t>(here.columns * sizeof(T));
    int firsts = 0;  // of a lane's strip: of its next 32 strips a warp finds them at once
    int ends = 0;
    int turn = 0;
#pragma unroll 1
    for (int n = warp_index() - kMixers; n < count; n += kProducers, ++turn) {
      if (turn % kWarpSize == 0) {
        const Strip of(a, std::min(begin + n + lane * kProducers, a.strips - 1));
        firsts = a.down.first_with(of.top);
        ends = a.down.end_with(std::min(of.top + kRows, a.down.from) - 1);
      }
      const int first = warp::shuffle(firsts, turn % kWarpSize);
      const int end = warp::shuffle(ends, turn % kWarpSize);
      const Strip strip(a, begin + n);
      const int slot = n % kRing;
      if (n >= kRing) ptx::mbarrier_wait_parity(shared.empty[slot], (n / kRing - 1) % 2);
      if (lane == 0) {
        shared.rows[slot] = end - first;
        ptx::mbarrier_expect_tx(shared.full[slot], static_cast<uint32_t>(end - first) * bytes);
      }
      ptx::syncwarp();
      const int64_t above = int64_t{strip.plane} * a.down.to + first;
      const T* grad = a.grad + above * a.along.to + here.from * kWide;
#pragma unroll 1
      for (int k = lane; k < end - first; k += kWarpSize) {
        ptx::bulk_load(here.ring.pointer(int64_t{slot * a.rows + k} * a.pitch),
                       grad + int64_t{k} * a.along.to, bytes, shared.full[slot]);
      }
#pragma unroll
      for (int k = 0; k < kDown * 4; ++k) {
        const int word = k % 4;
        const int step = k / 4;
        const int element = first + step * 16 + word / 2 * 8 + lane % 4 * 2;
        const int pixel = strip.top + word % 2 * 8 + lane / 4;
        const auto split = weights_of(a.down, pixel, element);
        const int at = down_at(slot, step, lane) + word;
        shared.down[at] = split.high;
        shared.down[at + kWarpSize * 4] = split.low;
      }
      ptx::mbarrier_arrive(shared.full[slot]);
    }
  }
  // What a pixel has of two elements that follow each other; beyond grad there are none. Factors,
  // as the compiler would branch.
  static __device__ __forceinline__ SplitPair<T> weights_of(const LinearAxis& axis, int pixel,
                                                            int element) {
    const auto weight = [&](int i) {
      const float part = ::fmaxf(LinearAxis::weight(axis.source(i), pixel), 0.0F);
      return part * (i < axis.to ? 1.0F : 0.0F);
    };
    return {weight(element), weight(element + 1)};
  }
  static __device__ __forceinline__ int down_at(int slot, int step, int lane) {
    return slot * kDownWords + (step * 2 * kWarpSize + lane) * 4;
  }

  // A strip's weights, and where a lane finds its row of each step, in registers.
  struct Down {
    uint32_t high[kDown][4];
    uint32_t low[kDown][4];
    const T* rows[kDown];

    __device__ __forceinline__ Down(SharedStorage& shared, const Arguments& a, const Chunk& here,
                                    int slot, int count) {
      const int lane = lane_index();
#pragma unroll
      for (int step = 0; step < kDown; ++step) {
        const int at = down_at(slot, step, lane);
        take(high[step], shared.down.template load<4>(at));
        take(low[step], shared.down.template load<4>(at + kWarpSize * 4));
        // Behind the last row it comes again, times zero.
        const int row = slot * a.rows + std::min(step * 16 + lane % 16, count - 1);
        rows[step] = here.ring.pointer(int64_t{row} * a.pitch) + lane / 16 * kWide;
      }
    }

   private:
    static __device__ __forceinline__ void take(uint32_t (&to)[4], const Vec<uint32_t, 4>& from) {
#pragma unroll
      for (int k = 0; k < 4; ++k) to[k] = from[k];
    }
  };

  // Strip by strip: groups in turns, a warp a group.
  static __device__ __forceinline__ void mix(SharedStorage& shared, const Arguments& a,
                                             const Chunk& here, int begin, int count) {
    const SharedSpan<T> staged(shared.staged.pointer(warp_index() * kRows * kStagedPitch),
                               kRows * kStagedPitch);
    int group = warp_index();
#pragma unroll 1
    for (int n = 0; n < count; ++n, group -= here.groups) {
      const int slot = n % kRing;
      ptx::mbarrier_wait_parity(shared.full[slot], n / kRing % 2);
      const int rows = shared.rows[slot];
      if (group >= here.groups) free(shared.empty[slot]);
#pragma unroll 1
      for (; group < here.groups; group += kMixers) {
        const Strip strip(a, begin + n);
        const bool is_last = group + kMixers >= here.groups;
        bool is_wrong = rows == 0;  // made of nothing
        if (rows > 0) {
          SplitPair<T> sums[kTiles][2];
          mix_down(Down(shared, a, here, slot, rows), here.starts[group] * kWide, sums);
          if (is_last) free(shared.empty[slot]);
          is_wrong = mix_along(here, group, sums, staged);
          ptx::syncwarp();
          write(a, strip, here.first + group * kGroup, staged);
          ptx::syncwarp();
        } else if (is_last) {
          free(shared.empty[slot]);
        }
        if (ptx::vote_sync_any(kFullMask, is_wrong)) {
          write_exactly(a, strip, (here.first + group * kGroup) * kWide);
        }
      }
    }
  }
  static __device__ __forceinline__ void free(ptx::Mbarrier& empty) {
    ptx::syncwarp();
    if (lane_index() == 0) ptx::mbarrier_arrive(empty);
  }
  // Products that do not wait for each other lie side by side here, and in mix_along.
  static __device__ __forceinline__ void mix_down(const Down& down, int column,
                                                  SplitPair<T> (&sums)[kTiles][2]) {
    constexpr int kAtOnce = 4;
#pragma unroll
    for (int t = 0; t < kTiles; t += kAtOnce) {
      uint32_t rows[kDown][kAtOnce][2];
#pragma unroll
      for (int step = 0; step < kDown; ++step) {
#pragma unroll
        for (int k = 0; k < kAtOnce; k += 2) {
          uint32_t two[4];
          ptx::ldmatrix_x4<true>(two, down.rows[step] + column + (t + k) * kWide);
#pragma unroll
          for (int r = 0; r < 4; ++r) rows[step][k + r / 2][r % 2] = two[r];
        }
      }
      float sum[kAtOnce][4]{};
#pragma unroll
      for (int step = 0; step < kDown; ++step) {
        const auto add = [&](const uint32_t (&weights)[4]) {
#pragma unroll
          for (int k = 0; k < kAtOnce; ++k) {
            ptx::mma_m16n8k16<T>(sum[k], weights, rows[step][k], sum[k]);
          }
        };
        add(down.low[step]);
        add(down.high[step]);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        sums[t + k][0] = SplitPair<T>(sum[k][0], sum[k][1]);
        sums[t + k][1] = SplitPair<T>(sum[k][2], sum[k][3]);
      }
    }
  }
  // Whether this lane has found a sum that is none: what is not finite, or not in T between the
  // products, spoils what lies beside it.
  static __device__ __forceinline__ bool mix_along(const Chunk& here, int group,
                                                   const SplitPair<T> (&sums)[kTiles][2],
                                                   SharedSpan<T> staged) {
    const int lane = lane_index();
    uint32_t largest = 0;
    float along[kGroup][4]{};
    unroll<kPairs>([&]<int kPair>() {
      const auto& left = sums[2 * kPair];
      const auto& right = sums[2 * kPair + 1];
      const uint32_t high[4] = {left[0].high, left[1].high, right[0].high, right[1].high};
      const uint32_t low[4] = {left[0].low, left[1].low, right[0].low, right[1].low};
      Vec<uint32_t, 4> weights[kGroup];
      for_tiles_of<kPair>([&]<int, int kTile>() {
        weights[kTile] =
            here.weights.template load<4>(Chunk::template weights_at<kPair, kTile>(group, lane));
      });
      const auto add = [&](const uint32_t (&of)[4], int part) {
        for_tiles_of<kPair>([&]<int, int kTile>() {
          const uint32_t by[2] = {weights[kTile][2 * part], weights[kTile][2 * part + 1]};
          ptx::mma_m16n8k16<T>(along[kTile], of, by, along[kTile]);
        });
      };
      add(high, 1);
      add(low, 0);
      add(high, 0);
    });
#pragma unroll
    for (int t = 0; t < kGroup; t += 2) {
      uint32_t words[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        words[k] = tile::pack<T>(along[t + k / 2][k % 2 * 2], along[t + k / 2][k % 2 * 2 + 1]);
        largest = ptx::max_nan_x2<T>(largest, words[k]);
      }
      ptx::stmatrix_x4(staged.pointer(lane % 16 * kStagedPitch + (t + lane / 16) * kWide), words);
    }
    const auto is_nan = [](uint32_t bits) {
      T value;
      value.bits = static_cast<uint16_t>(bits);
      const float number = to_float(value);
      return number != number;
    };
    return is_nan(largest) || is_nan(largest >> 16);
  }
  // Staged tiles, 16 bytes of a row a lane.
  static __device__ __forceinline__ void write(const Arguments& a, const Strip& strip, int first,
                                               SharedSpan<T> staged) {
    const int lane = lane_index();
    const int tile = first + lane % kGroup;
    const int64_t top = int64_t{strip.plane} * a.down.from + strip.top;
#pragma unroll
    for (int k = 0; k < kRows; k += kWarpSize / kGroup) {
      const int row = k + lane / kGroup;
      if (tile < Chunk::tiles_of(a) && strip.top + row < a.down.from) {
        thread::store(a.dx + (top + row) * a.along.from + tile * kWide,
                      staged.template load<kWide>(row * kStagedPitch + lane % kGroup * kWide));
      }
    }
  }
  // A group again, a column a lane.
  static __device__ void write_exactly(const Arguments& a, const Strip& strip, int first) {
    const int column = first + lane_index();
    const int width = a.along.from;
    if (column >= width) return;
    const T* grad = a.grad + int64_t{strip.plane} * a.down.to * a.along.to;
    const auto at = [&](int k, int l) {
      return to_float(thread::load(grad + int64_t{k} * a.along.to + l));
    };
    T* dx = a.dx + int64_t{strip.plane} * a.down.from * width + column;
    const int end = std::min(strip.top + kRows, a.down.from);
#pragma unroll 1
    for (int row = strip.top; row < end; ++row) {
      thread::store(dx + int64_t{row} * width,
                    from_float<T>(gathered(a.down, a.along, row, column, at)));
    }
  }
};

struct BilinearBackwardProducts {
  static bool supports(const BackwardCall& call, Why& why) {
    const auto in_tiles = [](const Axis& axis) { return axis.from % 8 == 0 && axis.to % 8 == 0; };
    return is_dense(call, why) &&
           why.unless(in_tiles(call.columns) && is_aligned(call.in) && is_aligned(call.out),
                      "takes columns by eights, aligned to 16 bytes, not ", call.columns.from,
                      " and ", call.columns.to) &&
           is_counted(call.planes() * std::max(call.rows.from, call.rows.to), why) &&
           why.unless(fits(call), "takes images that grew up to 1.69 fold, not ", call.rows.from,
                      " x ", call.columns.from, " to ", call.rows.to, " x ", call.columns.to);
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() { launch_of<T>(call, context); });
  }

 private:
  // Rows of a strip, and columns of a tile and of a group, which begins within a tile of grad.
  static bool fits(const BackwardCall& call) {
    using Kernel = BilinearBackwardProductsKernel<half>;
    const MostElements rows(LinearAxis(call.rows));
    const MostElements columns(LinearAxis(call.columns));
    return rows(Kernel::kRows) <= Kernel::kDown * 16 && columns(8) + 7 <= 32 &&
           columns(Kernel::kGroup * 8) + 7 <= Kernel::kTiles * 8;
  }
  template <class T>
  static void launch_of(const BackwardCall& call, const Context& context) {
    using Kernel = BilinearBackwardProductsKernel<T>;
    constexpr int64_t kGroupWide = int64_t{Kernel::kGroup} * Kernel::kWide;
    constexpr int64_t kMostBytes = 227 * 1024 - int64_t{sizeof(typename Kernel::SharedStorage)};
    const LinearAxis down(call.rows);
    const LinearAxis along(call.columns);
    const MostElements most(along);
    const int64_t rows = MostElements(down)(Kernel::kRows);
    // In tiles an odd number, so that ldmatrix finds eight rows in all banks.
    const auto pitch_of = [&](int64_t groups) {
      const int64_t columns = std::min<int64_t>(most(groups * kGroupWide) + 14, along.to);
      return ((columns / Kernel::kWide + Kernel::kTiles - 1) | 1) * Kernel::kWide;
    };
    const auto bytes_of = [&](int64_t groups) {
      return Kernel::words_of(groups, rows, pitch_of(groups)) * int64_t{sizeof(uint32_t)};
    };
    const int64_t all = divide_up(int64_t{along.from}, kGroupWide);
    int64_t groups = all;
    while (groups > 1 && bytes_of(groups) > kMostBytes) groups -= divide_up(groups, int64_t{8});
    groups = divide_up(all, divide_up(all, groups));
    const int64_t chunks = divide_up(all, groups);
    const int64_t strips_of_plane = divide_up(int64_t{down.from}, int64_t{Kernel::kRows});
    const int64_t strips = call.planes() * strips_of_plane;
    const int64_t at_once = device_facts().multiprocessors;
    const int64_t of_block = divide_up(strips, std::max<int64_t>(at_once / chunks, 1));
    if (strips == 0) return;
    launch<Kernel>({.blocks = divide_up(strips, of_block) * chunks,
                    .threads = Kernel::kThreads,
                    .dynamic_shared = static_cast<size_t>(bytes_of(groups))},
                   context.stream,
                   {.grad = static_cast<const T*>(call.in),
                    .dx = static_cast<T*>(call.out),
                    .down = down,
                    .along = along,
                    .strips = static_cast<int>(strips),
                    .strips_a_block = static_cast<int>(of_block),
                    .groups_a_chunk = static_cast<int>(groups),
                    .rows = static_cast<int>(rows),
                    .pitch = static_cast<int>(pitch_of(groups)),
                    .strips_of_plane = thread::Divider(strips_of_plane),
                    .chunks = thread::Divider(chunks)});
  }
};

}  // namespace ws::upsample
