// Attention by mma.sync as one template: MmaKernel<T, Policy, kDim>. What the rungs differ in is a
// policy each (mma_policies.hpp): which warps share what, what lies in shared memory, and how.
//
// A block has some queries of a head and walks over the keys, kKeys at a time:
//   scores = Q K^T           tensor cores; sums in registers
//   weights                  the online softmax, rows of which lie in four lanes each
//   out = out * rescale + weights V
// Warps stand in a grid. Those down it have rows of their own. Those across it share rows: each has
// its part of the keys in the first product and its part of the columns in the second, so that
// maxima and weights pass through shared memory between them.
//
// K and V, and Q where it is cut into slices too, come in tiles, in the order of their use, through
// a ring of buffers: cp.async fills one while the block computes on another.
#pragma once

#include "kernels/attention/plain.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/half.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/tile/mma_fragments.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::attention {

// Where a block keeps its queries: in shared memory all along; in registers, so that keys and
// values take their place in shared memory; or nowhere: slices of them come again with each tile of
// keys.
enum class Queries : uint8_t { kShared, kRegisters, kSliced };

template <bool kSwizzled, int kRuns, int kLength>
using MmaTile = std::conditional_t<kSwizzled, tile::SwizzledTile<kRuns, kLength>,
                                   tile::PaddedTile<kRuns, kLength>>;

// kDim: most columns of q, k and v; a power of two, 64 or more.
template <class T, class Policy, int kDim>
struct MmaKernel : Policy {
  using Accumulator = typename Policy::Accumulator;
  using Policy::kKeys, Policy::kBuffers;
  static constexpr int kAcross = Policy::warps_across(kDim);
  static constexpr int kDown = Policy::warps_down(kDim);
  static constexpr int kThreads = kAcross * kDown * kWarpSize;
  static constexpr int kMinBlocks = Policy::min_blocks(kDim);
  static constexpr int kWarpRows = Policy::kRowTiles * 16;
  static constexpr int kRows = kDown * kWarpRows;
  static constexpr bool kExchanges = kAcross > 1;
  static constexpr bool kSlicesQueries = Policy::kQueries == Queries::kSliced;

  // Columns of a tile of Q and K, and of one of V.
  static constexpr int kSlice = Policy::kSlice == 0 ? kDim : Policy::kSlice;
  static constexpr int kValueSlice = Policy::kValueSlice == 0 ? kDim : Policy::kValueSlice;
  static constexpr int kMostValueSlices = kDim / kValueSlice;
  static constexpr bool kTakeTurns = kSlice == kDim && kMostValueSlices == 1;  // K and V
  using TileQ = MmaTile<Policy::kSwizzlesQ, kRows, kSlice>;
  using TileK = MmaTile<Policy::kSwizzlesK, kKeys, kSlice>;
  using TileV = MmaTile<Policy::kSwizzlesV, kKeys, kValueSlice>;
  using TileOfWeights = tile::SwizzledTile<kRows, kKeys>;
  using TileOfOut = tile::PaddedTile<kRows, kDim>;

  static constexpr int kScoreElements = TileK::kElements + (kSlicesQueries ? TileQ::kElements : 0);
  static constexpr int kBufferElements =
      Policy::kValuesApart ? kScoreElements : std::max(kScoreElements, int{TileV::kElements});
  static constexpr int kRingAt = Policy::kQueries == Queries::kShared ? TileQ::kElements : 0;
  static constexpr int kValuesAt = kRingAt + kBuffers * kBufferElements;
  static constexpr int kElements =
      std::max({kValuesAt + (Policy::kValuesApart ? TileV::kElements : 0),
                Policy::kQueries == Queries::kRegisters ? TileQ::kElements : 0,
                Policy::kOutThroughShared ? TileOfOut::kElements : 0});

  // A warp's part of the scores, and of what it gathers, of which it has kGroups.
  static constexpr int kWarpKeys = kKeys / kAcross;
  static constexpr int kWarpColumns = kValueSlice / kAcross;
  static constexpr int kGroupColumns = std::min(kWarpColumns, 64);
  static constexpr int kGroupsOfSlice = kWarpColumns / kGroupColumns;
  static constexpr int kGroups = kMostValueSlices * kGroupsOfSlice;
  using Scores = tile::MmaFragments<T, kWarpRows, kWarpKeys, Accumulator>;
  using Gather = tile::MmaFragments<T, kWarpRows, kGroupColumns, Accumulator>;
  using ScoreLane = typename Scores::template LaneOffsets<TileQ, true, TileK, true>;
  using GatherLane = typename Gather::template LaneOffsets<TileOfWeights, true, TileV, false>;
  using Gathered = typename Gather::Sums[kGroups];
  static constexpr int kTilesDown = Policy::kRowTiles;
  static constexpr int kLaneRows = 2 * kTilesDown;  // row 8 h + lane / 4 of the warp's, for each h
  // The left operand of the second product, 16 keys after 16 keys.
  using Weights = uint32_t[kKeys / 16][kTilesDown][4];

  struct Arguments {
    Call call;
    int tiles;  // of rows of a head
  };
  struct Nothing {};
  struct Exchange {
    SharedArray<T, TileOfWeights::kElements> weights;
    SharedArray<float, kAcross * kRows> rows;  // of each warp across: a number of each row
  };
  struct SharedStorage : std::conditional_t<kExchanges, Exchange, Nothing> {
    SharedArray<T, kElements, 128> memory;
  };

  // A head's q, k or v, from some row on.
  struct Matrix {
    const T* data;
    int pitch;
    int rows;
    int columns;

    // Copies kRuns rows of kLength columns; zeros where there are none.
    template <class Tile, int kRuns, int kLength>
    __device__ __forceinline__ void copy(T* to, int row, int column) const {
      using Cursor = tile::OperandCursor<T, false, kLength, kRuns, kThreads, Tile>;
      Cursor cursor(data + int64_t{row} * pitch, pitch, column, columns, rows - row, 16);
      cursor.template copy<16>({to, Tile::kElements});
    }
  };

  // Tiles in the order of their use, for each kKeys keys: slices of K (and Q), then of V.
  struct Ring {
    Matrix q, k, v;
    T* memory;
    int end;  // of the keys
    int score_slices;
    int value_slices;
    // What is copied next, and the buffer to read next.
    int key = 0;
    int slice = 0;
    int reading = 0;
    static_assert(!Policy::kValuesApart || kBuffers == 2, "values are read before they come again");

    __device__ __forceinline__ T* buffer(int index, bool of_values) const {
      return memory +
             (Policy::kValuesApart && of_values ? kValuesAt : kRingAt + index * kBufferElements);
    }

    // Copies the next tile, if there is one: a group in any case.
    __device__ __forceinline__ void issue(int index) {
      if (key < end) {
        const bool of_values = slice >= score_slices;
        T* const to = buffer(index, of_values);
        if (of_values) {
          v.template copy<TileV, kKeys, kValueSlice>(to, key, (slice - score_slices) * kValueSlice);
        } else {
          k.template copy<TileK, kKeys, kSlice>(to, key, slice * kSlice);
          if constexpr (kSlicesQueries) {
            q.template copy<TileQ, kRows, kSlice>(to + TileK::kElements, 0, slice * kSlice);
          }
        }
        if (++slice == score_slices + value_slices) {
          slice = 0;
          key += kKeys;
        }
      }
      ptx::cp_async_commit_group();
    }
    // The tile that is `ahead` of one of K, or of V: where they take turns, which it is is known to
    // the compiler.
    template <bool kOfValues, int kAhead>
    __device__ __forceinline__ void issue_ahead(int index) {
      if constexpr (kTakeTurns) slice = kOfValues != (kAhead % 2 != 0) ? 1 : 0;
      issue(index);
    }

    __device__ __forceinline__ void start() {
#pragma unroll
      for (int i = 0; i < std::max(kBuffers - 1, 1); ++i) issue(i);
    }
    // The tile to use now: its copies have landed, for all threads, and nobody reads the one before
    // any more, so that another goes there.
    template <bool kOfValues>
    __device__ __forceinline__ T* acquire() {
      ptx::cp_async_wait_group<std::max(kBuffers - 2, 0)>();
      ptx::barrier_sync();
      T* const tile = buffer(reading, kOfValues);
      if (!(Policy::kValuesApart && kOfValues)) {
        reading = reading + 1 == kBuffers ? 0 : reading + 1;
      }
      if constexpr (kBuffers > 1) {
        // Two before the one to read next, around the ring.
        const bool wraps = kBuffers == 2 || reading < 2;
        issue_ahead<kOfValues, kBuffers - 1>(reading - 2 + (wraps ? kBuffers : 0));
      }
      return tile;
    }
    // After its use. A single buffer has to be free before anything is copied.
    template <bool kOfValues>
    __device__ __forceinline__ void release() {
      if constexpr (kBuffers == 1) {
        ptx::barrier_sync();
        issue_ahead<kOfValues, 1>(0);
      }
    }
  };

  // How many keys query i sees.
  __device__ __forceinline__ static int seen(const Call& call, int i) {
    const int keys = static_cast<int>(call.keys);
    const int over = i + 1 + keys - static_cast<int>(call.queries);
    return call.window.is_causal() ? std::clamp(over, 0, keys) : keys;
  }

  __device__ __forceinline__ static int warp_row() {
    return warp_index() / kAcross * kWarpRows;  // in the block's
  }
  __device__ __forceinline__ static int warp_across() { return warp_index() % kAcross; }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Call& call = a.call;
    // Blocks of a head follow one another, for they share its keys; where the last rows see most
    // keys they go first.
    const auto block = static_cast<uint32_t>(block_index());
    const auto tiles = static_cast<uint32_t>(a.tiles);
    const auto tile = static_cast<int>(block % tiles);
    const auto heads = static_cast<uint32_t>(call.heads);
    const uint32_t head = block / tiles % heads;
    const uint32_t batch = block / tiles / heads;
    const uint32_t kv_head = head / static_cast<uint32_t>(call.group());
    const int row = (call.window.is_causal() ? a.tiles - 1 - tile : tile) * kRows;
    const auto queries = static_cast<int>(call.queries);
    const auto dim = static_cast<int>(call.head_dim);
    const auto value_dim = static_cast<int>(call.value_dim);
    const auto matrix = [&](const Heads& of, uint32_t of_head, int first, int64_t rows,
                            int columns) -> Matrix {
      return {of.as<const T>() + batch * of.batch + of_head * of.head + first * of.row,
              static_cast<int>(of.row), static_cast<int>(rows) - first, columns};
    };
    Ring ring{.q = matrix(call.q, head, row, queries, dim),
              .k = matrix(call.k, kv_head, 0, call.keys, dim),
              .v = matrix(call.v, kv_head, 0, call.keys, value_dim),
              .memory = shared.memory.pointer(),
              .end = seen(call, std::min(row + kRows, queries) - 1),
              .score_slices = kSlice == kDim ? 1 : divide_up(dim, kSlice),
              .value_slices = kMostValueSlices == 1 ? 1 : divide_up(value_dim, kValueSlice)};

    float max[kLaneRows];
    float sum[kLaneRows] = {};
#pragma unroll
    for (int h = 0; h < kLaneRows; ++h) max[h] = -thread::kInfinity;
    Gathered out = {};
    if (ring.end > 0) attend(shared, call, row, ring, max, sum, out);

#pragma unroll
    for (int h = 0; h < kLaneRows; ++h) {
      sum[h] = warp::all_reduce<4>(sum[h], [](float x, float y) { return x + y; });
    }
    if constexpr (kExchanges) {
      combine_across(shared, sum, [](float x, float y) { return x + y; });
    }
    float* lse = call.lse.as<float>() + batch * call.lse.batch + head * call.lse.head;
    float scale[kLaneRows];
#pragma unroll
    for (int h = 0; h < kLaneRows; ++h) {
      scale[h] = sum[h] > 0 ? 1 / sum[h] : 0.0F;
      const int at = row + warp_row() + h * 8 + lane_index() / 4;
      if (lane_index() % 4 == 0 && warp_across() == 0 && at < queries) {
        thread::store(lse + at * call.lse.row,
                      sum[h] == 0 ? -thread::kInfinity : max[h] * call.scale + thread::log(sum[h]));
      }
    }
    T* to = call.out.as<T>() + batch * call.out.batch + head * call.out.head + row * call.out.row;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) rescale(out[g], scale);
    write(shared, out, to, call.out.row, queries - row, value_dim);
  }

 private:
  __device__ __forceinline__ static void attend(SharedStorage& shared, const Call& call, int row,
                                                Ring& ring, float (&max)[kLaneRows],
                                                float (&sum)[kLaneRows], Gathered& out) {
    const ScoreLane score_lane(warp_row(), warp_across() * kWarpKeys);
    uint32_t queries[kSlice / 16][kTilesDown][4];
    T* const memory = shared.memory.pointer();
    if constexpr (!kSlicesQueries) ring.q.template copy<TileQ, kRows, kSlice>(memory, 0, 0);
    if constexpr (Policy::kQueries == Queries::kRegisters) {
      ptx::cp_async_commit_group();
      ptx::cp_async_wait_group<0>();
      ptx::barrier_sync();
#pragma unroll
      for (int k = 0; k < kSlice; k += 16) {
        Scores fragments;
#pragma unroll
        for (int i = 0; i < kTilesDown; ++i) {
          fragments.load_a(i, {memory, TileQ::kElements}, score_lane, k);
          copy(queries[k / 16][i], fragments.a[i]);
        }
      }
      ptx::barrier_sync();  // all have read them
    }
    ring.start();

    const float scale = call.scale * thread::kLog2E;
    const int all_see = seen(call, row);
#pragma unroll 1
    for (int key = 0; key < ring.end; key += kKeys) {
      typename Scores::Sums sums = {};
#pragma unroll 1
      for (int slice = 0; slice < ring.score_slices; ++slice) {
        T* const tile = ring.template acquire<false>();
        const SharedSpan<T> tile_k{tile, TileK::kElements};
        const SharedSpan<T> tile_q{kSlicesQueries ? tile + TileK::kElements : memory,
                                   TileQ::kElements};
#pragma unroll
        for (int k = 0; k < kSlice; k += 16) {
          Scores fragments;
#pragma unroll
          for (int i = 0; i < kTilesDown; ++i) {
            if constexpr (Policy::kQueries == Queries::kRegisters) {
              copy(fragments.a[i], queries[k / 16][i]);
            } else {
              fragments.load_a(i, tile_q, score_lane, k);
            }
            fragments.load_b(i, tile_k, score_lane, k);
          }
          fragments.multiply_add(sums);
        }
        ring.template release<false>();
      }

      float scores[kTilesDown][kWarpKeys / 8][4];
      unpack(sums, scores);
      if (key + kKeys > all_see) hide(call, row, key, scores);
      float factors[kLaneRows];
      soften(shared, scale, scores, max, sum, factors);
      if constexpr (Policy::kReusesSums) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) rescale(out[g], factors);
      }
      gather(shared, ring, scores, factors, out);
    }
  }

  __device__ __forceinline__ static void copy(uint32_t (&to)[4], const uint32_t (&from)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = from[i];
  }

  // The sums of a product as floats: of each 16 x 8, two of a row and two of the row 8 below.
  template <int kTiles>
  __device__ __forceinline__ static void unpack(const typename Scores::Sums& sums,
                                                float (&scores)[kTilesDown][kTiles][4]) {
#pragma unroll
    for (int i = 0; i < kTilesDown; ++i) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if constexpr (std::is_same_v<Accumulator, float>) {
            scores[i][j][e] = sums[i][j][e];
          } else {
            scores[i][j][e] = to_float(std::bit_cast<Vec<half, 2>>(sums[i][j][e / 2])[e % 2]);
          }
        }
      }
    }
  }

  // -infinity where a row does not see the key.
  template <int kTiles>
  __device__ __forceinline__ static void hide(const Call& call, int row, int key,
                                              float (&scores)[kTilesDown][kTiles][4]) {
    const int first = key + warp_across() * kWarpKeys + lane_index() % 4 * 2;
#pragma unroll
    for (int h = 0; h < kLaneRows; ++h) {
      const int sees = seen(call, row + warp_row() + h * 8 + lane_index() / 4) - first;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (j * 8 + e >= sees) scores[h / 2][j][h % 2 * 2 + e] = -thread::kInfinity;
        }
      }
    }
  }

  // Scores become weights, exp(score - maximum): max and sum go on, and what was gathered so far is
  // to be multiplied by `factors`. A lane's sum is that of its own weights, to the end.
  template <int kTiles>
  __device__ __forceinline__ static void soften(SharedStorage& shared, float scale,
                                                float (&scores)[kTilesDown][kTiles][4],
                                                float (&max)[kLaneRows], float (&sum)[kLaneRows],
                                                float (&factors)[kLaneRows]) {
    float highest[kLaneRows];
#pragma unroll
    for (int h = 0; h < kLaneRows; ++h) {
      highest[h] = -thread::kInfinity;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        highest[h] =
            fmaxf(highest[h], fmaxf(scores[h / 2][j][h % 2 * 2], scores[h / 2][j][h % 2 * 2 + 1]));
      }
      highest[h] = warp::all_reduce<4>(highest[h], [](float x, float y) { return fmaxf(x, y); });
    }
    if constexpr (kExchanges) {
      combine_across(shared, highest, [](float x, float y) { return fmaxf(x, y); });
    }
#pragma unroll
    for (int h = 0; h < kLaneRows; ++h) {
      highest[h] = fmaxf(max[h], highest[h]);
      // 2^(scale * score - scale * maximum): one multiply-add and one ex2 a score.
      const float shift = thread::finite_or_zero(highest[h]) * scale;
      factors[h] = thread::exp2(thread::fma(max[h], scale, -shift));
      max[h] = highest[h];
      sum[h] *= factors[h];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[h / 2][j][h % 2 * 2 + e];
          score = thread::exp2(thread::fma(score, scale, -shift));
          sum[h] += score;
        }
      }
    }
  }

  // Each warp across gave a number for each row: the numbers of all, combined.
  template <class Combine>
  __device__ __forceinline__ static void combine_across(SharedStorage& shared,
                                                        float (&values)[kLaneRows],
                                                        Combine&& combine) {
    const int row = warp_row() + lane_index() / 4;
    if (lane_index() % 4 == 0) {
#pragma unroll
      for (int h = 0; h < kLaneRows; ++h) {
        shared.rows[warp_across() * kRows + row + h * 8] = values[h];
      }
    }
    ptx::barrier_sync();
#pragma unroll
    for (int h = 0; h < kLaneRows; ++h) {
      float combined = shared.rows[row + h * 8];
#pragma unroll
      for (int across = 1; across < kAcross; ++across) {
        const float other = shared.rows[across * kRows + row + h * 8];
        combined = combine(combined, other);
      }
      values[h] = combined;
    }
  }

  // The second product.
  template <int kTiles>
  __device__ __forceinline__ static void gather(SharedStorage& shared, Ring& ring,
                                                const float (&scores)[kTilesDown][kTiles][4],
                                                const float (&factors)[kLaneRows], Gathered& out) {
    const GatherLane lane(warp_row(), warp_across() * kWarpColumns);
    Weights weights;
    // Two products side by side are the left operand of one of the second: nothing moves.
#pragma unroll
    for (int i = 0; i < kTilesDown; ++i) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int down = 0; down < 2; ++down) {
          const auto pair =
              thread::convert<T>(Vec<float, 2>{scores[i][j][down * 2], scores[i][j][down * 2 + 1]});
          if constexpr (kExchanges) {
            const int row = warp_row() + i * 16 + down * 8 + lane_index() / 4;
            const int key = warp_across() * kWarpKeys + j * 8 + lane_index() % 4 * 2;
            shared.weights.template store<2>(TileOfWeights::offset(row, key), pair);
          } else {
            weights[j / 2][i][j % 2 * 2 + down] = std::bit_cast<uint32_t>(pair);
          }
        }
      }
    }
#pragma unroll
    for (int slice = 0; slice < kMostValueSlices; ++slice) {
      if (slice >= ring.value_slices) break;
      const SharedSpan<T> tile{ring.template acquire<true>(), TileV::kElements};
      if (kExchanges && slice == 0) read_weights(shared, lane, weights);
#pragma unroll
      for (int g = 0; g < kGroupsOfSlice; ++g) {
        GatherLane group = lane;
        group.b += g * kGroupColumns;
        auto& sums = out[slice * kGroupsOfSlice + g];
        if constexpr (Policy::kReusesSums) {
          multiply_add(tile, group, weights, sums);
        } else {
          typename Gather::Sums product = {};
          multiply_add(tile, group, weights, product);
          rescale(sums, factors, product);
        }
      }
      ring.template release<true>();
    }
  }

  __device__ __forceinline__ static void read_weights(SharedStorage& shared, const GatherLane& lane,
                                                      Weights& weights) {
    if constexpr (kExchanges) {
#pragma unroll
      for (int k = 0; k < kKeys; k += 16) {
#pragma unroll
        for (int i = 0; i < kTilesDown; ++i) {
          Gather fragments;
          fragments.load_a(i, shared.weights.span(), lane, k);
          copy(weights[k / 16][i], fragments.a[i]);
        }
      }
    }
  }

  __device__ __forceinline__ static void multiply_add(SharedSpan<T> tile, const GatherLane& lane,
                                                      const Weights& weights,
                                                      typename Gather::Sums& sums) {
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      Gather fragments;
#pragma unroll
      for (int i = 0; i < kTilesDown; ++i) {
        copy(fragments.a[i], weights[k / 16][i]);
        fragments.load_b(i, tile, lane, k);
      }
      fragments.multiply_add(sums);
    }
  }

  // sums * factors of their rows + addends.
  __device__ __forceinline__ static void rescale(typename Gather::Sums& sums,
                                                 const float (&factors)[kLaneRows],
                                                 const typename Gather::Sums& addends = {}) {
    constexpr int kRegisters = sizeof(Accumulator);  // of a lane, of 16 x 8
#pragma unroll
    for (int i = 0; i < kTilesDown; ++i) {
#pragma unroll
      for (int j = 0; j < Gather::kAcross; ++j) {
#pragma unroll
        for (int e = 0; e < kRegisters; ++e) {
          const float factor = factors[i * 2 + e / (kRegisters / 2)];
          if constexpr (std::is_same_v<Accumulator, float>) {
            sums[i][j][e] = thread::fma(sums[i][j][e], factor, addends[i][j][e]);
          } else {
            const auto both = thread::convert<half>(Vec<float, 2>{factor, factor});
            sums[i][j][e] =
                ptx::fma_rn_f16x2(sums[i][j][e], std::bit_cast<uint32_t>(both), addends[i][j][e]);
          }
        }
      }
    }
  }

  __device__ __forceinline__ static void write(SharedStorage& shared, const Gathered& out, T* to,
                                               int64_t pitch, int rows, int columns) {
    const SharedSpan<T> staged{shared.memory.pointer(), kElements};
    if constexpr (Policy::kOutThroughShared) ptx::barrier_sync();  // tiles are read
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int first = g / kGroupsOfSlice * kValueSlice + warp_across() * kWarpColumns +
                        g % kGroupsOfSlice * kGroupColumns;
      Gather::for_each_pair(out[g], [&](int i, int j, float left, float right) {
        const int row = warp_row() + i;
        const int column = first + j;
        const auto pair = thread::convert<T>(Vec<float, 2>{left, right});
        if constexpr (Policy::kOutThroughShared) {
          staged.template store<2>(TileOfOut::offset(row, column), pair);
        } else if (row < rows && column < columns) {
          thread::store(to + row * pitch + column, pair);
        }
      });
    }
    if constexpr (Policy::kOutThroughShared) {
      ptx::barrier_sync();
#pragma unroll 4
      for (int at = thread_index() * 8; at < kRows * kDim; at += kThreads * 8) {
        const int row = at / kDim;
        const int column = at % kDim;
        if (row < rows && column < columns) {
          thread::store(to + row * pitch + column,
                        staged.template load<8>(TileOfOut::offset(row, column)));
        }
      }
    }
  }
};

// Whether rows of all tensors are 16-byte pieces, and no count leaves 31 bits.
inline bool takes_mma(const Call& call, int most_dim, Why& why) {
  constexpr int64_t kMost = 0x7FFFFFFF - 1024;
  const auto in_pieces = [&](const char* name, const Heads& heads, int64_t count, int64_t rows) {
    const auto whole = [](int64_t stride, int64_t count) { return count <= 1 || stride % 8 == 0; };
    return why.unless(heads.column == 1 && whole(heads.row, rows) && whole(heads.head, count) &&
                          whole(heads.batch, call.batch) &&
                          reinterpret_cast<uintptr_t>(heads.data) % 16 == 0,
                      "needs rows of ", name, " that begin at multiples of 16 bytes") &&
           why.unless(rows <= 1 || (heads.row >= 0 && heads.row <= kMost), "rows of ", name,
                      " are too far apart");
  };
  const auto is_dim = [&](const char* name, int64_t dim) {
    return why.unless(dim >= 8 && dim % 8 == 0 && dim <= most_dim, "takes ", name,
                      " that are multiples of 8 up to ", most_dim, ", not ", dim);
  };
  return has_plain_scores(call, why) && is_dim("D", call.head_dim) &&
         is_dim("Dv", call.value_dim) && in_pieces("q", call.q, call.heads, call.queries) &&
         in_pieces("k", call.k, call.kv_heads, call.keys) &&
         in_pieces("v", call.v, call.kv_heads, call.keys) &&
         in_pieces("out", call.out, call.heads, call.queries) &&
         why.unless(call.scale > 0, "takes a scale above 0, not ", call.scale) &&
         why.unless(call.queries <= kMost && call.keys <= kMost, "has too many rows") &&
         why.unless(call.batch * call.heads * divide_up(call.queries, int64_t{16}) <= kMost,
                    "has too many heads and rows");
}

inline constexpr DTypes kF16Only = {DType::kF16};

// A rung: the kernels of Policy for head dims of up to each of kDims, which ascend.
template <class Policy, DTypes kTaken, int... kDims>
struct MmaRung {
  static constexpr int kMostDim = std::max({kDims...});

  static bool supports(const Call& call, Why& why) { return takes_mma(call, kMostDim, why); }
  static void run(const Call& call, const Context& context) {
    const int64_t dim = std::max(call.head_dim, call.value_dim);
    with_type<kTaken>(call.dtype, [&]<class T>() {
      bool done = false;
      ((done = done || (dim <= kDims && run<T, kDims>(call, context))), ...);
    });
  }

 private:
  template <class T, int kDim>
  static bool run(const Call& call, const Context& context) {
    using Kernel = MmaKernel<T, Policy, kDim>;
    const int64_t tiles = divide_up(call.queries, int64_t{Kernel::kRows});
    launch<Kernel>({.blocks = call.batch * call.heads * tiles, .threads = Kernel::kThreads},
                   context.stream, {call, static_cast<int>(tiles)});
    return true;
  }
};

}  // namespace ws::attention
