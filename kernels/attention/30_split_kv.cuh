// Idea: one query has no work for a GPU but its keys: they are what blocks share out. The keys of
//   all sequences and heads are one line, cut evenly (key_line.hpp); who comes last to the rows of
//   a head, or began them and waits, puts together what others left of them, in the same launch and
//   in one order.
// From mma_flash: heads that share keys are the rows of one product; each warp has its own keys,
//   copied far ahead into a ring of its own without a barrier; pages of any size.
// Traffic: keys and values once for each 16 or 32 rows; of each cut 8 Dv bytes a row, in f32.
// Limits: few queries: tensor cores are half empty and shared memory is read for 16 rows. D and Dv
//   up to 256; rows of q, k and v that begin at multiples of 16 bytes, dense columns; no bias.
// Long: what warps gathered is put together, and then what blocks left.
#pragma once

#include "kernels/attention/key_parts.hpp"
#include "kernels/attention/mma_transposed.hpp"
#include "kernels/attention/scales.hpp"
#include "kernels/attention/shared_memory.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/thread/unmarked.hpp"

namespace ws::attention {

// What can be chosen.
struct SplitKvShape {
  int dim;         // D and Dv up to this
  int row_blocks;  // of 16 rows, of a tile; 0: of 8, which are columns (mma_transposed.hpp)
  int keys;        // of a unit
  int stages;      // units of a warp's ring
  int blocks;      // that share an SM
  bool holds_query;
  int warps = 4;  // of a block
};

// Of a dense call, or of sequences whose lengths are data. k and v of Kv: T, or e4m3, of sequences.
template <class T, SplitKvShape kShape, bool kPacked, class Kv = T>
struct SplitKvKernel {
  static constexpr bool kOf8Bits = sizeof(Kv) == 1;
  static_assert(kPacked || !kOf8Bits);
  using Factor = std::conditional_t<kOf8Bits, half, T>;  // what tensor cores multiply
  static constexpr int kDim = kShape.dim;
  static constexpr bool kTransposed = kShape.row_blocks == 0;
  static constexpr int kRowBlocks = kTransposed ? 1 : kShape.row_blocks;
  static constexpr int kRows = kTransposed ? 8 : 16 * kRowBlocks;
  static constexpr int kKeys = kShape.keys;
  static constexpr int kStages = kShape.stages;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kWarps = kShape.warps;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr bool kHoldsQuery = kShape.holds_query;
  static_assert(kHoldsQuery || !kTransposed);
  // Whether the block that has an item's first part waits for the others; else who comes last puts
  // them together. Where a block is a whole SM parts are few, and all asked for at once.
  static constexpr bool kAwaits = kTransposed;

  static constexpr int kCounters = int{std::bit_floor(unsigned{kWarps})} * kWarpSize;
  using Line = std::conditional_t<
      kPacked,
      PackedLine<kRows, kKeys, kCounters, kLeastUnits, kThreads - kCounters, true, kAwaits>,
      DenseLine<kRows, kKeys, kLeastUnits, kAwaits>>;
  using Tile = RowTile<Kv, kKeys, kDim, kWarpSize>;
  // Whether the next part's queries are asked for while keys are walked, and pages are checked as
  // their keys are looked up: where registers are not too dear for it.
  static constexpr bool kLooksAhead = kTransposed || (kRowBlocks == 1 && kDim <= 128);
  static constexpr bool kAsksEarly = kLooksAhead || !kOf8Bits;  // for the queries of a part
  using Ring = KeyRing<Kv, Tile, kKeys, kStages, kWarps, Line, kPacked && kLooksAhead>;
  static constexpr int kRing = kStages * Ring::kStageElements;  // of a warp
  // Threads that ask for a tile's queries, 8 columns at a time.
  static constexpr int kChunks = kDim / 8;
  static constexpr int kAskers = std::min(kThreads, kRows* kChunks);
  using QueryRows = RowTile<Factor, kRows, kDim, kAskers>;
  using Scores =
      std::conditional_t<kTransposed, TransposedScores<kKeys>, MmaScores<kRowBlocks, kKeys>>;
  using Softmax = std::conditional_t<kTransposed, TransposedSoftmax, OnlineRows<kRowBlocks, true>>;
  using Products = std::conditional_t<
      kTransposed, TransposedProducts<Factor, Kv>,
      std::conditional_t<kOf8Bits, MmaProductsE4m3<kRowBlocks>, MmaProducts<Factor, kRowBlocks>>>;
  using Gathered = typename Products::template Sums<kDim>;
  using QuerySteps = typename Products::Queries[kHoldsQuery ? kDim / 16 : 1];

  using Own = KeyParts<T, Line, kRows, kDim, kKeys, kThreads>;

  // What a block then leaves of an item that begins in another's stretch: floats of a row, and
  // rows. Of sequences any has as many as a tile, whatever the call says of them.
  static constexpr int kRowFloats = kDim + kDim / 2;
  __host__ __device__ __forceinline__ static int64_t part_rows(const Call& call) {
    const int64_t rows = kPacked ? kRows : call.queries * call.group();
    return rows < kRows ? rows : kRows;
  }
  static Workspace workspace(const Call& call, int64_t blocks) {
    if constexpr (!kAwaits) return counted_parts(blocks, Own::kPartFloats).workspace();
    // All zeros before and after; in pieces of 256 bytes, which Python keeps so from call to call.
    const auto floats = static_cast<size_t>(blocks * part_rows(call) * kRowFloats);
    const size_t bytes = round_up(floats * sizeof(float), size_t{256});
    return {.bytes = bytes, .zeroed = bytes};
  }
  static Parts<float> parts(int64_t blocks, void* workspace) {
    if constexpr (!kAwaits) {
      return Parts<float>(counted_parts(blocks, Own::kPartFloats), workspace);
    }
    Parts<float> parts;
    parts.partials = static_cast<float*>(workspace);
    return parts;
  }

  struct Arguments : KeyArguments<Line> {
    ScalesOf<Kv> scales;
  };
  // Of 8 bits: what the products of each row are times, and what is gathered.
  struct Factors {
    SharedArray<float, kRows> products;
    SharedArray<float, 1> values;
  };
  struct NoFactors {};
  // Warps' rows are put together so many at a time: one of each lane.
  static constexpr int kTogether = 8;
  struct SharedStorage {
    union {  // the last of the block's items is put together when all units have been read
      SharedArray<Kv, kWarps * kRing, 128> ring;
      SharedArray<float, std::max(kRows*(kDim / 4), kThreads) * 6> kept;
    };
    union {  // what is put together is so after the last product with the queries
      SharedArray<Factor, QueryRows::kElements, 128> queries;
      SharedArray<float, kWarps * kTogether * kDim> gathered;
    };
    SharedArray<float, kWarps * kTogether * 2> weights;  // their maxima and sums
    SharedArray<uint8_t, kThreads> wrong;  // a thread's number: a warp's would cost a register
    SharedArray<uint32_t, 1> order;
    // Where the block is, of a part and the next in turn: registers are dear.
    SharedArray<KeyWalk, 2> walks;
    [[no_unique_address]] typename Line::Storage line;
    [[no_unique_address]] std::conditional_t<kOf8Bits, Factors, NoFactors> factors;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    KeyWalk walk;
    if (a.line.start(shared.line, walk)) {
      // The queries are asked for first: behind keys they would come when all of those have come.
      // Then keys, before all else: what follows runs while they are on their way.
      QueryPieces pieces;
      if constexpr (kAsksEarly) ask_queries(pieces, a, walk.part);
      Ring ring(a.call, a.line, a.table, shared.ring.pointer(warp_index() * kRing), walk);
      if (thread_index() == 0) shared.walks[0] = walk;
      for (int turn = 0; attend(shared, a, walk.part, turn, ring, pieces);) {
        turn ^= 1;
        walk = shared.walks[turn];
        if constexpr (kAsksEarly && !kLooksAhead) ask_queries(pieces, a, walk.part);
      }
      ptx::cp_async_wait_group<0>();
    }
    a.line.report();
    if constexpr (kOf8Bits) {
      a.scales.report(block_index() * kThreads + thread_index(), grid_blocks() * kThreads);
    }
  }

 private:
  // What a thread has of a tile's queries on their way: 8 columns each, of rows kAtOnce apart. What
  // there is not is zeros.
  static constexpr int kAtOnce = kAskers / kChunks;
  static constexpr bool kAsksScales = kOf8Bits && kLooksAhead;
  struct QueryPieces {
    Vec<T, 8> at[kRows / kAtOnce];
    [[no_unique_address]] std::conditional_t<kAsksScales, HeadScales::OfHead, NoFactors> scales;
  };

  // The part of this turn.
  __device__ __forceinline__ static KeyPart part_of(SharedStorage& shared, int turn) {
    const KeyWalk walk = shared.walks[turn];
    return walk.part;
  }

  // Of the part of this turn, whose queries have been asked for. False: it was the block's last;
  // else the next turn is that of the next part, whose queries have been if it looks ahead.
  __device__ __forceinline__ static bool attend(SharedStorage& shared, const Arguments& a,
                                                const KeyPart& part, int turn, Ring& ring,
                                                QueryPieces& pieces) {
    const Call& call = a.call;
    const int rows = Own::rows_of(a.line, part);
    [[maybe_unused]] float of_products = call.scale;
    [[maybe_unused]] float of_values = 1;
    if constexpr (kPacked) {
      bool right = kLooksAhead ? Own::has_unseen_pages(a, part) : Own::has_its_pages(a, part);
      if constexpr (kOf8Bits) {
        HeadScales::OfHead scales;
        if constexpr (kAsksScales) {
          scales = pieces.scales;
        } else {
          scales = a.scales.of(part.batch, 0, part.head);
        }
        right = right && scales.are_right;
        of_products *= scales.products;
        of_values = scales.values;
      }
      shared.wrong[thread_index()] = right ? 0 : 1;
    }
    ptx::barrier_sync();  // all have read what was put together before
    if constexpr (kOf8Bits) {
      if (thread_index() == 0) shared.factors.values[0] = of_values;
      if constexpr (!kAsksEarly) ask_queries(pieces, a, part);
      narrow_queries(shared, pieces, of_products);
    } else {
      store_queries(shared.queries.span(), pieces);
      if (call.head_dim % 8 != 0) load_last_columns(shared.queries.span(), a, part, rows);
    }
    ptx::barrier_sync();
    QuerySteps query;
    [[maybe_unused]] const int query_offset =
        QueryRows::template lane_offset<QueryRows::Order::kDown>(0);
    if constexpr (kTransposed) {
      Products::template load<QueryRows>(query, shared.queries.span());
      ptx::barrier_sync();  // what is put together may lie where they lay
    } else if constexpr (kHoldsQuery) {
#pragma unroll
      for (int k = 0; k < kDim; k += 16) {
        Products::template load<QueryRows>(query[k / 16], shared.queries.span(), query_offset, k);
      }
      ptx::barrier_sync();  // what is put together may lie where they lay
    }

    bool goes_on = false;
    if constexpr (kLooksAhead) {
      KeyWalk next = shared.walks[turn];
      goes_on = go_on(shared, a, next, turn);
      if (goes_on) ask_queries(pieces, a, next.part);
    }

    // Scores are as products left them, unless more is done to them than to multiply them.
    const bool changes = kOf8Bits || call.softcap > 0 || call.slopes.exists || !(call.scale > 0);
    Softmax softmax(changes ? thread::kLog2E : call.scale * thread::kLog2E);
    Gathered gathered = {};
    const SeenTogether seen = a.line.seen_of(part.queries, part.keys)
                                  .together(Own::place_of(a.line, part, 0).query,
                                            Own::place_of(a.line, part, rows - 1).query);
    const int keys_offset = Products::template keys_offset<Tile>();
    const int values_offset = Products::template values_offset<Tile>();
    const SharedSpan<Kv> units(shared.ring.pointer(warp_index() * kRing), kRing);
    const int end = part.end;
#pragma unroll 1
    for (int unit = part.from + warp_index(); unit < end; unit += kWarps) {
      ptx::cp_async_wait_group<kStages - 1>();
      ptx::syncwarp();  // all lanes' copies have landed
      const int stage = ring.slot() * Ring::kStageElements;
      Scores scores = {};
      if constexpr (kTransposed) {
        Products::template add_scores<Tile, kDim>(scores, query, units, stage + keys_offset);
      } else {
        Products::template add_scores<Tile, kDim>(
            scores,
            [&](int k) -> const auto& {
              if constexpr (!kHoldsQuery) {
                Products::template load<QueryRows>(query[0], shared.queries.span(), query_offset,
                                                   k);
              }
              return query[kHoldsQuery ? k / 16 : 0];
            },
            units, stage + keys_offset);
      }
      const int key = part_of(shared, turn).first + unit * kKeys;
      if (changes) change(scores, shared, a, part_of(shared, turn), key);
      if (key < seen.whole_first || key + kKeys > seen.whole_end) {
        Own::hide(scores, a, part_of(shared, turn), key);
      }
      float rescale[Softmax::kRows];
      if (softmax.weigh(scores, rescale)) Products::scale(gathered, rescale);

      if constexpr (kPacked && kLooksAhead) {
        if (ring.is_wrong()) shared.wrong[thread_index()] = 1;
      }
      Products::template gather<Tile>(gathered, scores, units,
                                      stage + Tile::kElements + values_offset);
      ptx::syncwarp();  // none reads the unit any more
      ring.ask();
    }
    if constexpr (!kHoldsQuery) ptx::barrier_sync();  // as above
    if constexpr (!kLooksAhead) {
      KeyWalk next = shared.walks[turn];
      goes_on = go_on(shared, a, next, turn);
    }
    finish(shared, a, turn, gathered, softmax);  // behind whose barrier the next walk is there
    return goes_on;
  }
  __device__ __forceinline__ static bool go_on(SharedStorage& shared, const Arguments& a,
                                               KeyWalk& walk, int turn) {
    if (!a.line.next(walk)) return false;
    if (thread_index() == 0) shared.walks[turn ^ 1] = walk;
    return true;
  }

  __device__ __forceinline__ static int first_row() { return Own::thread() / kChunks; }
  __device__ __forceinline__ static int column() { return Own::thread() % kChunks * 8; }
  __device__ __forceinline__ static bool asks() {
    return kAskers == kThreads || first_row() < kAtOnce;
  }

  __device__ __forceinline__ static void ask_queries(QueryPieces& pieces, const Arguments& a,
                                                     const KeyPart& part) {
    if constexpr (kAsksScales) pieces.scales = a.scales.of(part.batch, 0, part.head);
    const int rows = Own::rows_of(a.line, part);
    const bool has_column = column() + 8 <= static_cast<int>(a.call.head_dim);
#pragma unroll
    for (int i = 0; i < kRows / kAtOnce; ++i) {
      const int row = i * kAtOnce + first_row();
      pieces.at[i] = {};
      if (row < rows && has_column) {
        pieces.at[i] = thread::load<8>(query_at(a, part, row) + column());
      }
    }
  }
  __device__ __forceinline__ static void store_queries(SharedSpan<T> to,
                                                       const QueryPieces& pieces) {
    if (!asks()) return;
#pragma unroll
    for (int i = 0; i < kRows / kAtOnce; ++i) {
      to.template store<8>(QueryRows::Tile::offset(i * kAtOnce + first_row(), column()),
                           pieces.at[i]);
    }
  }
  // Fewer than 8, of which the pieces have zeros.
  __device__ __forceinline__ static void load_last_columns(SharedSpan<T> to, const Arguments& a,
                                                           const KeyPart& part, int rows) {
    const auto columns = static_cast<int>(a.call.head_dim);
    const int column = SplitKvKernel::column();
    if (column != columns / 8 * 8 || !asks()) return;
#pragma unroll 1
    for (int row = first_row(); row < rows; row += kAtOnce) {
#pragma unroll 1
      for (int at = column; at < columns; ++at) {
        to[QueryRows::Tile::offset(row, at)] = thread::load(query_at(a, part, row) + at);
      }
    }
  }
  // The same of T as f16, which multiplies e4m3. Rows of bf16 are times a power of two first that
  // takes their largest to 2^14 and more: what is not exact then is below 2^-31 of it. Scores are
  // times what undoes that, and `factor`.
  __device__ __forceinline__ static void narrow_queries(SharedStorage& shared,
                                                        const QueryPieces& pieces, float factor) {
    if (!asks()) return;
    const int column = SplitKvKernel::column();
#pragma unroll
    for (int i = 0; i < kRows / kAtOnce; ++i) {
      const int row = i * kAtOnce + first_row();
      const Vec<T, 8>& chunk = pieces.at[i];
      float undone = factor;
      if constexpr (std::is_same_v<T, half>) {
        Products::template store<QueryRows>(shared.queries.span(), row, column, chunk);
      } else {
        auto wide = thread::convert<float>(chunk);
        float most = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) most = fmaxf(most, fabsf(wide[i]));
        most = warp::all_reduce<kChunks>(most, [](float a, float b) { return fmaxf(a, b); });
        // Exponents as f32 has them, off by 127; neither power is out of range.
        constexpr uint32_t kTop = 14;
        const uint32_t found = std::bit_cast<uint32_t>(most) >> 23;
        const uint32_t exponent = found < kTop + 1 ? kTop + 1 : found;
        const auto up = std::bit_cast<float>((2 * 127 + kTop - exponent) << 23);
        undone *= std::bit_cast<float>((exponent - kTop) << 23);
#pragma unroll
        for (int i = 0; i < 8; ++i) wide[i] *= up;
        Products::template store<QueryRows>(shared.queries.span(), row, column,
                                            thread::convert<half>(wide));
      }
      if (column == 0) shared.factors.products[row] = undone;
    }
  }
  __device__ __forceinline__ static const T* query_at(const Arguments& a, const KeyPart& part,
                                                      int row) {
    return Own::template row_of<const T>(a.call.q, part, Own::place_of(a.line, part, row));
  }

  // `key` is the unit's first.
  __device__ __forceinline__ static void change(Scores& scores, SharedStorage& shared,
                                                const Arguments& a, const KeyPart& part, int key) {
    float factors[Scores::kRows];
#pragma unroll
    for (int i = 0; i < Scores::kRows; ++i) {
      if constexpr (kOf8Bits) {
        factors[i] = shared.factors.products[Scores::row(i)];
      } else {
        factors[i] = a.call.scale;
      }
    }
    Own::change(scores, factors, a, part, key);
  }
  // Where warps leave columns of their rows to be put together, one to four at a time: the rows of
  // one access meet all banks.
  __device__ __forceinline__ static int gathered_at(int warp, int row, int column) {
    const int apart = kTransposed ? row / 2 * 8 : kOf8Bits ? row % 2 * 16 : row % 4 * 8;
    return (warp * kTogether + row) * kDim + (column ^ apart);
  }
  // Leaves the columns of the lane's i-th row.
  __device__ __forceinline__ static void leave(SharedStorage& shared, const Gathered& gathered,
                                               int i) {
    const int row = Scores::row(kTransposed ? i : 0);
    if constexpr (kTransposed) {
      const int first = lane_index() / 4 * (kOf8Bits ? 2 : 1);
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        const float (&four)[4] = gathered[n];
        const int at = gathered_at(warp_index(), row, n * 16 + first);
        if constexpr (kOf8Bits) {  // even columns, odd columns
          shared.gathered.template store<2>(at, Vec<float, 2>{four[i], four[2 + i]});
        } else {
          shared.gathered[at] = four[i];
          shared.gathered[gathered_at(warp_index(), row, n * 16 + 8 + first)] = four[2 + i];
        }
      }
    } else if constexpr (kOf8Bits) {  // even columns, odd columns
      const int at = i % 2 * 2;
      const int place[2] = {gathered_at(warp_index(), row, 2 * Scores::first_key()),
                            gathered_at(warp_index(), row, 16 + 2 * Scores::first_key())};
#pragma unroll
      for (int n = 0; n < kDim / 8; n += 2) {
        const float (&even)[4] = gathered[i / 2][n];
        const float (&odd)[4] = gathered[i / 2][n + 1];
        shared.gathered.template store<4>(
            place[n / 2 % 2] + n / 4 * 32,
            Vec<float, 4>{even[at], odd[at], even[at + 1], odd[at + 1]});
      }
    } else {
      const int at = i % 2 * 2;
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const float (&four)[4] = gathered[i / 2][n];
        shared.gathered.template store<2>(
            gathered_at(warp_index(), row, n * 8 + Scores::first_key()),
            Vec<float, 2>{four[at], four[at + 1]});
      }
    }
  }

  // What the warps have gathered, put together; then written, or left for the block that has the
  // item's first part.
  __device__ __forceinline__ static void finish(SharedStorage& shared, const Arguments& a, int turn,
                                                const Gathered& gathered, const Softmax& softmax) {
    const KeyPart part = part_of(shared, turn);
    const int rows = Own::rows_of(a.line, part);
    const bool whole = part.is_whole();
    int wrong = 0;
    if constexpr (kPacked) {
      wrong = ptx::vote_sync_any(kFullMask, shared.wrong[thread_index()] != 0) ? 1 : 0;
    }
    float of_values = 1;
    if constexpr (kOf8Bits) of_values = shared.factors.values[0];
    constexpr int kAcross = kDim / 4;
#pragma unroll 1
    for (int first = 0; first < rows; first += kTogether) {
      if (first > 0) ptx::barrier_sync();  // all have read those before
#pragma unroll
      for (int i = 0; i < Softmax::kRows; ++i) {
        if (!kTransposed && i * kTogether != first) continue;
        const float sum = softmax.sum_of(i);
        const int row = Scores::row(i);
        if (row >= rows) continue;
        if (Scores::tells()) {
          shared.weights.template store<2>(
              (warp_index() * kTogether + Scores::row(kTransposed ? i : 0)) * 2,
              Vec<float, 2>{softmax.max[i], wrong != 0 ? Own::kWrong : sum});
        }
        leave(shared, gathered, i);
      }
      ptx::barrier_sync();
      const int count = rows - first < kTogether ? rows - first : kTogether;
#pragma unroll 1
      for (int at = Own::thread(); at < count * kAcross; at += kThreads) {
        const int in_pass = at / kAcross;
        const int row = first + in_pass;
        const int column = at % kAcross * 4;
        Vec<float, 2> weights[kWarps];
        Vec<float, 4> more[kWarps];
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) {
          weights[warp] = shared.weights.template load<2>((warp * kTogether + in_pass) * 2);
          more[warp] = shared.gathered.template load<4>(gathered_at(warp, in_pass, column));
        }
        typename Own::Merged merged;
        merged.add(weights, more, kWarps, softmax.scale);
        if (whole) {
          Own::write(a, part, row, column, merged, softmax.scale, of_values);
        } else if constexpr (!kAwaits) {
          float* const left =
              a.parts.partials + Own::left_at(static_cast<int>(Line::block()), part.from == 0);
          if (column == 0) thread::store(left + row * 2, merged.weights());
          thread::store(left + Own::kGathered + row * kDim + column, merged.gathered);
        } else if (part.from > 0) {
          const Left left = left_of(a, Line::block(), row, column);
          thread::Unmarked::tell(left.columns, merged.gathered);
          thread::Unmarked::tell(left.weights, merged.weights());
        } else {
          keep(shared, row * kAcross + column / 4, merged);
        }
      }
    }
    if (whole) return;
    if constexpr (!kAwaits) {
      Own::combine(a, shared.line, shared.order, shared.walks[turn], softmax.scale, of_values);
    } else if (part.from == 0) {
      put_together(shared, a, shared.walks[turn], softmax.scale, of_values);
    }
  }

  // Where a block leaves four columns of a row of a part, and, behind those of all rows, their
  // maximum and sum, which each four has for itself: so each word has one reader.
  struct Left {
    float* columns;
    float* weights;
    uint32_t apart;  // from what the next block leaves

    __device__ __forceinline__ Left behind(int blocks) const {
      const uint32_t further = static_cast<uint32_t>(blocks) * apart;
      return {columns + further, weights + further, apart};
    }
  };
  __device__ __forceinline__ static Left left_of(const Arguments& a, int64_t block, int row,
                                                 int column) {
    const auto rows = static_cast<uint32_t>(part_rows(a.call));
    const auto at = static_cast<uint32_t>(row * kDim + column);
    const uint32_t apart = rows * kRowFloats;
    float* const first = a.parts.partials + static_cast<uint32_t>(block) * apart;
    return {first + at, first + rows * kDim + at / 2, apart};
  }
  // The same in shared memory, of one block: the ring's place is free behind its last part.
  static constexpr int kKept = std::max(kRows * (kDim / 4), kThreads);
  __device__ __forceinline__ static void keep(SharedStorage& shared, int at,
                                              const typename Own::Merged& merged) {
    shared.kept.template store<4>(at * 4, merged.gathered);
    shared.kept.template store<2>(kKept * 4 + at * 2, merged.weights());
  }
  __device__ __forceinline__ static void add_kept(typename Own::Merged& merged,
                                                  SharedStorage& shared, int at, float scale) {
    const Vec<float, 2> weights[1] = {shared.kept.template load<2>(kKept * 4 + at * 2)};
    const Vec<float, 4> more[1] = {shared.kept.template load<4>(at * 4)};
    merged.add(weights, more, 1, scale);
  }

  // What other blocks leave of the item of a walk, with what this one has kept. Where there are
  // more threads than fours of columns, they share out the parts.
  __device__ __forceinline__ static void put_together(SharedStorage& shared, const Arguments& a,
                                                      const KeyWalk& walk, float scale,
                                                      float of_values) {
    const KeyPart& part = walk.part;
    const int rows = Own::rows_of(a.line, part);
    const int64_t block = Line::block();
    const int count =
        a.line.block_of(shared.line, walk.at + part.units - 1) - static_cast<int>(block);
    constexpr int kAcross = kDim / 4;
    constexpr int kSlots = kThreads / kAcross;  // rows at once
    static_assert(std::has_single_bit(unsigned{kSlots}), "each part has one reader");
    const int column = Own::thread() % kAcross * 4;
    const int slot = Own::thread() / kAcross;
    const int width = kWarpSize - ptx::leading_zeros(static_cast<uint32_t>(rows - 1));
    const int groups = kSlots >> width > 1 ? kSlots >> width : 1;
    const int group = slot >> width;
    ptx::barrier_sync();  // all is kept
#pragma unroll 1
    for (int row = slot & ((1 << width) - 1); row - slot < rows; row += kSlots) {
      typename Own::Merged merged;
      if (row < rows) {
        add_parts(merged, left_of(a, block + 1, row, column), group, groups, count, scale);
      }
      if (groups > 1) {
        if (group > 0) keep(shared, Own::thread(), merged);
        ptx::barrier_sync();
        if (group > 0 || row >= rows) continue;
#pragma unroll 1
        for (int g = 1; g < groups; ++g) {
          add_kept(merged, shared, Own::thread() + (g << width) * kAcross, scale);
        }
      }
      if (row >= rows) continue;
      add_kept(merged, shared, row * kAcross + column / 4, scale);
      Own::write(a, part, row, column, merged, scale, of_values);
    }
  }
  // Every step-th of `count` parts, the first one `first` blocks behind `left`: waits for them, and
  // leaves zeros.
  __device__ __forceinline__ static void add_parts(typename Own::Merged& merged, const Left& left,
                                                   int first, int step, int count, float scale) {
    constexpr int kAtOnce = 8;  // that are asked for before one is added
#pragma unroll 1
    for (int from = first; from < count; from += step * kAtOnce) {
      const auto nth = [&](int i) {
        const int at = from + i * step;
        return left.behind(at < count ? at : from);
      };
      Vec<float, 2> weights[kAtOnce];
      Vec<float, 4> more[kAtOnce];
      bool are_there = false;
      while (!are_there) {
        are_there = true;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          weights[i] = thread::Unmarked::look<2>(nth(i).weights, are_there);
          more[i] = thread::Unmarked::look<4>(nth(i).columns, are_there);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        thread::Unmarked::clear<2>(nth(i).weights);
        thread::Unmarked::clear<4>(nth(i).columns);
      }
      merged.add(weights, more, divide_up(count - from, step), scale);
    }
  }
};

// ---- On the host -------------------------------------------------------------------------------

// f.template operator()<T, kShape>() for the shape that takes a call: narrow ones have 16 rows,
// tall ones 32.
template <class Shapes, class F>
auto with_split_kv_shape(const Call& call, F&& f) {
  const int64_t dim = std::max(call.head_dim, call.value_dim);
  const bool is_narrow = call.queries * call.group() <= 16;
  return with_type<kHalves>(call.dtype, [&]<class T>() {
    if (dim > Shapes::kNarrow128.dim) return f.template operator()<T, Shapes::kNarrow256>();
    if (dim > Shapes::kNarrow64.dim) {
      return is_narrow ? f.template operator()<T, Shapes::kNarrow128>()
                       : f.template operator()<T, Shapes::kTall128>();
    }
    return is_narrow ? f.template operator()<T, Shapes::kNarrow64>()
                     : f.template operator()<T, Shapes::kTall64>();
  });
}

struct SplitKvExtents {
  int64_t batches;  // of keys: or pages
  int64_t queries, keys;
  int64_t most_keys;  // of a sequence

  explicit SplitKvExtents(const Call& call)
      : batches(call.batch), queries(call.queries), keys(call.keys), most_keys(call.keys) {}
  explicit SplitKvExtents(const VarlenCall& call)
      : batches(call.paged ? call.total_pages : 1),
        queries(call.total_queries),
        keys(call.total_keys),
        most_keys(call.keys) {}
};

// Tiles of so many rows, of all sequences, whatever is said of the longest one.
inline int64_t split_kv_tiles(const Call& call, int64_t rows) {
  return call.batch * divide_up(call.queries * call.group(), rows);
}
inline int64_t split_kv_tiles(const VarlenCall& call, int64_t rows) {
  return call.batch + call.total_queries * call.group() / rows;
}

// Few queries of each head: decoding. Rule: kName, the dtype of k and v by kKvBytes, kMostDim, and
// with(call, f), which calls f.template operator()<Kernel>() for the kernel that takes a call.
template <class Rule>
struct SplitKv {
  static constexpr int64_t kMostRows = 1024;  // that share keys; by_worth asks for fewer

  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    constexpr int64_t kMostDim = Rule::kMostDim;
    constexpr int64_t kMostUnits = int64_t{1} << 30;
    const DType of_kv = Rule::kKvBytes == 1 ? DType::kE4m3 : call.dtype;
    const SplitKvExtents all(call);
    return why.unless(!call.bias.exists, "takes no bias") &&
           why.unless(call.head_dim <= kMostDim && call.value_dim <= kMostDim,
                      "takes D and Dv up to ", kMostDim) &&
           why.unless(call.queries * call.group() <= kMostRows, "takes up to ", kMostRows,
                      " queries times heads that share keys, not ", call.queries * call.group()) &&
           why.unless(all.queries < kMostSeen && all.keys < kMostSeen && all.most_keys < kMostSeen,
                      "takes up to 2^29 rows") &&
           why.unless(
               is_aligned(call.q, call.dtype, call.batch, call.heads, all.queries, call.head_dim),
               "needs rows of q that begin at multiples of 16 bytes") &&
           why.unless(
               is_aligned(call.k, of_kv, all.batches, call.kv_heads, all.keys, call.head_dim),
               "needs rows of k that begin at multiples of 16 bytes") &&
           why.unless(
               is_aligned(call.v, of_kv, all.batches, call.kv_heads, all.keys, call.value_dim),
               "needs rows of v that begin at multiples of 16 bytes") &&
           Rule::with(call, [&]<class Kernel>() {
             const int64_t tiles = split_kv_tiles(call, Kernel::kRows);
             const double units = static_cast<double>(tiles) * static_cast<double>(call.kv_heads) *
                                  (static_cast<double>(all.most_keys) / Kernel::kKeys + 1);
             return why.unless(tiles <= kMostUnits && call.kv_heads <= kMostUnits &&
                                   units <= static_cast<double>(kMostUnits),
                               "counts up to 2^30 times ", Kernel::kKeys, " keys of all heads") &&
                    has_shared_memory<Kernel>(why);
           });
  }

  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    return Rule::with(call, [&]<class Kernel>() {
      static_assert(Kernel::kMinBlocks * (sizeof(typename Kernel::SharedStorage) +
                                          Multiprocessor::kSharedReserved) <=
                        Multiprocessor::kSharedBytes,
                    "blocks that are counted on to share an SM");
      return Kernel::workspace(call, most_blocks<Kernel>());
    });
  }

  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    const int64_t queries = SplitKvExtents(call).queries;
    if (call.batch == 0 || call.heads == 0 || (queries == 0 && call.queries == 0)) return;
    const Sequences sequences(call, Rule::kName);
    const bool aligned =
        is_aligned(call.out, call.dtype, call.batch, call.heads, queries, call.value_dim);
    Rule::with(call, [&]<class Kernel>() {
      const typename Kernel::Line line(call, sequences, most_blocks<Kernel>());
      launch<Kernel>({.blocks = line.blocks(), .threads = Kernel::kThreads}, context.stream,
                     {{line, call, Kernel::parts(most_blocks<Kernel>(), context.workspace), aligned,
                       PageTable(sequences)},
                      {call, Rule::kName}});
    });
  }

 private:
  // Blocks that are resident where shared memory is that of a GPU for data centres. Where more are
  // launched than are resident, some run later: those that wait do so for blocks of smaller numbers
  // alone, which have begun.
  template <class Kernel>
  static int64_t most_blocks() {
    return int64_t{device_facts().multiprocessors} * Kernel::kMinBlocks;
  }
};

}  // namespace ws::attention
