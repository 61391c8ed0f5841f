// Idea: one query has no work for a GPU but its keys: they are what blocks share out. The keys of
//   all sequences and heads are one line, cut evenly (key_line.hpp); who comes last to the rows of
//   a head puts together what others left of them, in the same launch and in one order.
// From mma_flash: heads that share keys are the rows of one product; each warp has its own keys,
//   copied far ahead into a ring of its own without a barrier; pages of any size.
// Traffic: keys and values once for each 16 or 32 rows; of each cut 8 Dv bytes a row, in f32.
// Limits: few queries: tensor cores are half empty and shared memory is read for 16 rows. D and Dv
//   up to 256; rows of q, k and v that begin at multiples of 16 bytes, dense columns; no bias.
// Long: what warps gathered is put together, and then what blocks left.
#pragma once

#include "catalogue/parts.hpp"
#include "kernels/attention/key_ring.hpp"
#include "kernels/attention/mma_products.hpp"

namespace ws::attention {

// What can be chosen.
struct SplitKvShape {
  int dim;         // D and Dv up to this
  int row_blocks;  // of 16 rows, of a tile
  int keys;        // of a unit
  int stages;      // units of a warp's ring
  int slice;       // columns that warps put together at a time
  int blocks;      // that share an SM
  bool holds_query;
};

template <class T, SplitKvShape kShape>
struct SplitKvKernel {
  static constexpr int kDim = kShape.dim;
  static constexpr int kRowBlocks = kShape.row_blocks;
  static constexpr int kRows = 16 * kRowBlocks;
  static constexpr int kKeys = kShape.keys;
  static constexpr int kStages = kShape.stages;
  static constexpr int kSlice = kShape.slice;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr bool kHoldsQuery = kShape.holds_query;
  static_assert(kDim % kSlice == 0);

  using Line = KeyLine<kRows, kKeys, kThreads>;
  using Walk = KeyWalk<Line>;
  using Tile = RowTile<T, kKeys, kDim, kWarpSize>;
  using Ring = KeyRing<T, Tile, kKeys, kStages, kWarps, Line>;
  static constexpr int kRing = kStages * Ring::kStageElements;  // of a warp
  using QueryRows = RowTile<T, kRows, kDim, kThreads>;
  using Scores = MmaScores<kRowBlocks, kKeys>;
  using Softmax = OnlineRows<kRowBlocks, true>;
  using Products = MmaProducts<T, kRowBlocks>;
  using Gathered = typename Products::template Sums<kDim>;
  using QuerySteps = typename Products::Left[kHoldsQuery ? kDim / 16 : 1];

  // What a part leaves of each row, if others have the rest: what it gathered, its maximum and its
  // weights' sum; below 0, and of no use, where a page is wrong. A block has two such parts at
  // most: its last, which others go on with, and its first, which goes on with another's.
  static constexpr int kMaxima = kRows * kDim;
  static constexpr int kSums = kMaxima + kRows;
  static constexpr int kPartFloats = kSums + kRows;
  static constexpr int64_t kPartsOfBlock = 2;
  static constexpr float kWrong = -1;

  struct Arguments {
    Call call;
    Line line;
    PageTable table;
    Parts<float> parts;  // a counter for the block that has an item's first part
    bool out_aligned;    // 16 bytes of a row at a time
  };
  // A slice's rows are apart so that lanes store eight of them without a bank conflict.
  static constexpr int kPitch = kSlice + 8;
  struct SharedStorage {
    SharedArray<T, kWarps * kRing, 128> ring;
    union {  // what is put together is so after the last product with the queries
      SharedArray<T, QueryRows::kElements, 128> queries;
      SharedArray<float, kWarps * kRows * kPitch> slices;
    };
    // Of each warp's rows, and what a row is times in the end: kWrong where nothing is written.
    SharedArray<float, kWarps * kRows> maxima;
    SharedArray<float, kWarps * kRows> sums;
    SharedArray<float, kRows> factors;
    SharedArray<uint32_t, kWarps> wrong;
    SharedArray<uint32_t, 1> order;
    // Where the block is, of a part and the next in turn: registers are dear.
    SharedArray<Walk, 2> walks;
    typename Line::Storage line;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int units = a.line.lay_out(shared.line);
    const auto block = static_cast<int>(block_index());
    const KeyCut cut(units, Line::kLeast);
    if (units > 0 && block < cut.blocks) {
      const int first = cut.first_of(block);
      Walk walk(a.line, shared.line, first, cut.first_of(block + 1) - first);
      Ring ring(a.call, a.table, shared.ring.pointer(warp_index() * kRing), walk);
      int slot = 0;
      int turn = 0;
      do {
        if (thread_index() == 0) shared.walks[turn] = walk;
        attend(shared, a, walk.part(), turn, ring, slot);
        walk = shared.walks[turn];
        turn ^= 1;
      } while (walk.next());
      ptx::cp_async_wait_group<0>();
    }
    a.line.sequences.report_lengths(block_index() * kThreads + thread_index(),
                                    grid_blocks() * kThreads);
  }

 private:
  // A row of a part, and which query of its sequence that is.
  struct Place {
    int query;
    int head;
  };
  __device__ __forceinline__ static Place place_of(const Line& line, const KeyPart& part, int row) {
    const auto query =
        static_cast<int>(line.by_group.quotient(static_cast<uint32_t>(part.row + row)));
    return {query, part.head * line.group + part.row + row - query * line.group};
  }
  template <class U>
  __device__ __forceinline__ static U* row_of(const Heads& heads, const KeyPart& part,
                                              const Place& place) {
    return heads.at<U>(part.batch, place.head, part.first_query + place.query);
  }
  __device__ __forceinline__ static int rows_of(const Line& line, const KeyPart& part) {
    const int left = part.queries * line.group - part.row;
    return left < kRows ? left : kRows;
  }

  // The part of this turn.
  __device__ __forceinline__ static KeyPart part_of(SharedStorage& shared, int turn) {
    const Walk walk = shared.walks[turn];
    return walk.part();
  }

  __device__ __forceinline__ static void attend(SharedStorage& shared, const Arguments& a,
                                                const KeyPart& part, int turn, Ring& ring,
                                                int& slot) {
    const Call& call = a.call;
    const int rows = rows_of(a.line, part);
    const bool right = has_its_pages(a, part);
    if (lane_index() == 0) shared.wrong[warp_index()] = right ? 0U : 1U;
    ptx::barrier_sync();  // all have read what was put together before
    load_queries(shared.queries.span(), a, part, rows);
    ptx::barrier_sync();
    QuerySteps query;
    const int query_offset = QueryRows::template lane_offset<QueryRows::Order::kDown>(0);
    if constexpr (kHoldsQuery) {
#pragma unroll
      for (int k = 0; k < kDim; k += 16) {
        Products::template load<QueryRows>(query[k / 16], shared.queries.span(), query_offset, k);
      }
    }

    // Scores are as products left them, unless more is done to them than to multiply them.
    const bool changes = call.softcap > 0 || call.slopes.exists || !(call.scale > 0);
    Softmax softmax(changes ? thread::kLog2E : call.scale * thread::kLog2E);
    Gathered gathered = {};
    const SeenTogether seen =
        a.line.seen_of(part.queries, part.keys)
            .together(place_of(a.line, part, 0).query, place_of(a.line, part, rows - 1).query);
    const int keys_offset = Tile::template lane_offset<Tile::Order::kAcross>(0);
    const int values_offset = Tile::template lane_offset<Tile::Order::kDown>(0);
    const SharedSpan<T> units(shared.ring.pointer(warp_index() * kRing), kRing);
    const int first = part.first;
    const int end = part.end;
#pragma unroll 1
    for (int unit = part.from + warp_index(); unit < end; unit += kWarps) {
      ptx::syncwarp();  // none reads the unit before
      ring.ask();
      ptx::cp_async_wait_group<kStages - 1>();
      ptx::syncwarp();  // all lanes' copies have landed
      const int stage = slot * Ring::kStageElements;
      Scores scores = {};
      Products::template add_scores<Tile, kDim>(
          scores,
          [&](int k) -> const auto& {
            if constexpr (!kHoldsQuery) {
              Products::template load<QueryRows>(query[0], shared.queries.span(), query_offset, k);
            }
            return query[kHoldsQuery ? k / 16 : 0];
          },
          units, stage + keys_offset);
      const int key = first + unit * kKeys;
      if (changes) change(scores, a, part_of(shared, turn), key);
      if (key < seen.whole_first || key + kKeys > seen.whole_end) {
        hide(scores, a, part_of(shared, turn), key);
      }
      float rescale[Softmax::kRows];
      if (softmax.weigh(scores, rescale)) scale(gathered, rescale);

      Products::template gather<Tile>(gathered, scores, units,
                                      stage + Tile::kElements + values_offset);
      slot = slot + 1 == kStages ? 0 : slot + 1;
    }
    finish(shared, a, turn, gathered, softmax);
  }

  // Whether this part's share of all pages of the sequence is there; what is not is reported.
  __device__ __forceinline__ static bool has_its_pages(const Arguments& a, const KeyPart& part) {
    if (a.table.pages == nullptr) return true;
    const int64_t pages = divide_up(part.keys, a.table.page);
    const bool mine =
        a.line.sequences.report_pages(part.batch, pages * part.from / part.units + thread_index(),
                                      pages * part.end / part.units, kThreads);
    return ptx::vote_sync_all(kFullMask, mine);
  }

  // Rows that there are not are zeros.
  __device__ __forceinline__ static void load_queries(SharedSpan<T> to, const Arguments& a,
                                                      const KeyPart& part, int rows) {
    const auto columns = static_cast<int>(a.call.head_dim);
#pragma unroll 2
    for (int at = thread_index(); at < kRows * (kDim / 8); at += kThreads) {
      const int row = at / (kDim / 8);
      const int column = at % (kDim / 8) * 8;
      Vec<T, 8> chunk{};
      if (row < rows && column < columns) {
        const T* const from = row_of<const T>(a.call.q, part, place_of(a.line, part, row)) + column;
        if (column + 8 <= columns) {
          chunk = thread::load<8>(from);
        } else {
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            if (column + i < columns) chunk[i] = thread::load(from + i);
          }
        }
      }
      to.template store<8>(QueryRows::Tile::offset(row, column), chunk);
    }
  }

  // All that an operation can do to scores but hide and bias them. `key` is the unit's first.
  __device__ __forceinline__ static void change(Scores& scores, const Arguments& a,
                                                const KeyPart& part, int key) {
    const Call& call = a.call;
    scores.change([&](int, int, float score) { return score * call.scale; });
    if (call.softcap > 0) {
      // tanh(x) = 1 - 2 / (1 + e^2x), off by 2^-23 of the cap.
      const float factor = 2 * thread::kLog2E / call.softcap;
      scores.change([&](int, int, float score) {
        const float part = thread::reciprocal(1.0F + thread::exp2(score * factor));
        return thread::fma(-2 * call.softcap, part, call.softcap);
      });
    }
    if (!call.slopes.exists) return;
    float slopes[Scores::kRows];
    int over[Scores::kRows];
#pragma unroll
    for (int i = 0; i < Scores::kRows; ++i) {
      const bool exists = Scores::row(i) < rows_of(a.line, part);
      const Place place = place_of(a.line, part, exists ? Scores::row(i) : 0);
      slopes[i] = thread::load(call.slopes.data + part.batch * call.slopes.batch +
                               place.head * call.slopes.head);
      over[i] = place.query + part.keys - part.queries - key - Scores::first_key();
    }
    scores.change([&](int i, int in_unit, float score) {
      return score - slopes[i] * fabsf(static_cast<float>(over[i] - in_unit));
    });
  }
  __device__ __forceinline__ static void hide(Scores& scores, const Arguments& a,
                                              const KeyPart& part, int key) {
    const Seen<int> seen = a.line.seen_of(part.queries, part.keys);
    const int from = key + Scores::first_key();
    int first[Scores::kRows];
    int end[Scores::kRows];
#pragma unroll
    for (int i = 0; i < Scores::kRows; ++i) {
      const Place place = place_of(a.line, part, Scores::row(i));
      first[i] = seen.first(place.query) - from;
      end[i] = seen.end(place.query) - from;
    }
    scores.change([&](int i, int in_unit, float score) {
      return in_unit >= first[i] && in_unit < end[i] ? score : -thread::kInfinity;
    });
  }
  __device__ __forceinline__ static void scale(Gathered& gathered,
                                               const float (&factor)[Softmax::kRows]) {
#pragma unroll
    for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) gathered[r][n][i] *= factor[r * 2 + i / 2];
      }
    }
  }

  // What the warps have gathered, put together; written, or left for the block that comes last.
  __device__ __forceinline__ static void finish(SharedStorage& shared, const Arguments& a, int turn,
                                                Gathered& gathered, const Softmax& softmax) {
    const KeyPart part = part_of(shared, turn);
    const int rows = rows_of(a.line, part);
    const bool whole = part.is_whole();
#pragma unroll
    for (int i = 0; i < Softmax::kRows; ++i) {
      const float sum = warp::all_reduce<4>(softmax.sum[i], [](float a, float b) { return a + b; });
      if (lane_index() % 4 != 0) continue;
      const int at = warp_index() * kRows + Scores::row(i);
      shared.maxima[at] = softmax.max[i];
      shared.sums[at] = sum;
    }
    ptx::barrier_sync();

    float factor[Softmax::kRows];
#pragma unroll
    for (int i = 0; i < Softmax::kRows; ++i) {
      const float from = thread::finite_or_zero(highest(shared, Scores::row(i)));
      factor[i] = thread::exp2((softmax.max[i] - from) * softmax.scale);
    }
    scale(gathered, factor);
    const auto block = static_cast<int>(block_index());
    float* const left =
        a.parts.partials + (block * kPartsOfBlock + (part.from == 0 ? 1 : 0)) * kPartFloats;
    if (thread_index() < rows) {
      const int row = thread_index();
      const float max = highest(shared, row);
      float sum = 0;
      bool is_wrong = false;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        const float mine = shared.maxima[warp * kRows + row];
        const float weights = shared.sums[warp * kRows + row];
        sum += weights * thread::exp2((mine - thread::finite_or_zero(max)) * softmax.scale);
        const uint32_t says = shared.wrong[warp];
        is_wrong |= says != 0;
      }
      if (whole) {
        shared.factors[row] = is_wrong ? kWrong : finish_row(a, part, row, max, sum, softmax.scale);
      } else {
        thread::store(left + kMaxima + row, max);
        thread::store(left + kSums + row, is_wrong ? kWrong : sum);
      }
    }

    const auto columns = static_cast<int>(a.call.value_dim);
#pragma unroll
    for (int slice = 0; slice < kDim; slice += kSlice) {
      if (slice > 0) ptx::barrier_sync();  // all have read the one before
#pragma unroll
      for (int i = 0; i < Softmax::kRows; ++i) {
        const int row = Scores::row(i);
        if (row >= rows) continue;
#pragma unroll
        for (int n = 0; n < kSlice / 8; ++n) {
          const float (&four)[4] = gathered[i / 2][slice / 8 + n];
          shared.slices.template store<2>(
              (warp_index() * kRows + row) * kPitch + n * 8 + Scores::first_key(),
              Vec<float, 2>{four[i % 2 * 2], four[i % 2 * 2 + 1]});
        }
      }
      ptx::barrier_sync();
      for (int at = thread_index(); at < rows * (kSlice / 4); at += kThreads) {
        const int row = at / (kSlice / 4);
        const int in_slice = at % (kSlice / 4) * 4;
        if (slice + in_slice >= columns) continue;
        Vec<float, 4> sum{};
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) {
          const auto more =
              shared.slices.template load<4>((warp * kRows + row) * kPitch + in_slice);
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[i] += more[i];
        }
        if (whole) {
          write(shared, a, part, row, slice + in_slice, sum);
        } else {
          thread::store(left + row * kDim + slice + in_slice, sum);
        }
      }
    }
    if (!whole) combine(shared, a, turn, rows, softmax.scale);
  }

  __device__ __forceinline__ static float highest(SharedStorage& shared, int row) {
    float max = shared.maxima[row];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) {
      const float other = shared.maxima[warp * kRows + row];
      max = fmaxf(max, other);
    }
    return max;
  }

  // Writes the row's lse; gives what its sums are times in the end.
  __device__ __forceinline__ static float finish_row(const Arguments& a, const KeyPart& part,
                                                     int row, float max, float sum, float scale) {
    const Place place = place_of(a.line, part, row);
    const float sink = a.call.sinks.exists
                           ? thread::load(a.call.sinks.data + place.head * a.call.sinks.head)
                           : -thread::kInfinity;
    float factor = 0;
    float lse = 0;
    Softmax::finish(max, sum, scale, sink, factor, lse);
    thread::store(row_of<float>(a.call.lse, part, place), lse);
    return factor;
  }

  // Four columns of a row, from their sums.
  __device__ __forceinline__ static void write(SharedStorage& shared, const Arguments& a,
                                               const KeyPart& part, int row, int column,
                                               const Vec<float, 4>& sum) {
    const float factor = shared.factors[row];
    if (factor == kWrong) return;
    const Heads& heads = a.call.out;
    T* const to = row_of<T>(heads, part, place_of(a.line, part, row)) + column * heads.column;
    Vec<float, 4> scaled;
#pragma unroll
    for (int i = 0; i < 4; ++i) scaled[i] = sum[i] * factor;
    const auto rounded = thread::convert<T>(scaled);
    const auto columns = static_cast<int>(a.call.value_dim);
    if (a.out_aligned && column + 4 <= columns) {
      thread::store(to, rounded);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column + i < columns) thread::store(to + i * heads.column, rounded[i]);
    }
  }

  // The block that is the last to leave its part puts them together, in their order.
  __device__ __forceinline__ static void combine(SharedStorage& shared, const Arguments& a,
                                                 int turn, int rows, float scale) {
    const Walk walk = shared.walks[turn];
    const KeyPart& part = walk.part();
    const int units = shared.line.starts[kThreads];
    const KeyCut cut(units, Line::kLeast);
    const int first = cut.block_of(walk.item_at());
    const int count = cut.block_of(walk.item_at() + part.units - 1) - first + 1;
    Parts<float> parts = a.parts;
    parts.parts = count;
    if (!parts.came_last(first, shared.order)) return;
    const auto part_of = [&](int nth) {
      return parts.partials + ((first + nth) * kPartsOfBlock + (nth == 0 ? 1 : 0)) * kPartFloats;
    };
    // A warp a row, a lane a part.
    for (int row = warp_index(); row < rows; row += kWarps) {
      float max = -thread::kInfinity;
      for (int nth = lane_index(); nth < count; nth += kWarpSize) {
        max = fmaxf(max, thread::load(part_of(nth) + kMaxima + row));
      }
      max = warp::all_reduce(max, [](float a, float b) { return fmaxf(a, b); });
      float sum = 0;
      bool wrong = false;
      for (int nth = lane_index(); nth < count; nth += kWarpSize) {
        const float own = thread::load(part_of(nth) + kMaxima + row);
        const float weights = thread::load(part_of(nth) + kSums + row);
        wrong |= weights < 0;
        sum += weights * thread::exp2((own - thread::finite_or_zero(max)) * scale);
      }
      sum = warp::all_reduce(sum, [](float a, float b) { return a + b; });
      const bool right = ptx::vote_sync_all(kFullMask, !wrong);
      if (lane_index() == 0) {
        shared.maxima[row] = max;
        shared.factors[row] = right ? finish_row(a, part, row, max, sum, scale) : kWrong;
      }
    }
    ptx::barrier_sync();
    constexpr int kAtOnce = 16;  // parts that are asked for before one is added
    for (int at = thread_index(); at < rows * (kDim / 4); at += kThreads) {
      const int row = at / (kDim / 4);
      const int column = at % (kDim / 4) * 4;
      if (column >= static_cast<int>(a.call.value_dim)) continue;
      const float max = shared.maxima[row];
      Vec<float, 4> sum{};
      for (int from = 0; from < count; from += kAtOnce) {
        Vec<float, 4> gathered[kAtOnce];
        float maxima[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const float* const left = part_of(from + i < count ? from + i : from);
          maxima[i] = thread::load(left + kMaxima + row);
          gathered[i] = thread::load<4>(left + row * kDim + column);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (from + i >= count) break;
          const float weight = thread::exp2((maxima[i] - thread::finite_or_zero(max)) * scale);
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[j] = thread::fma(gathered[i][j], weight, sum[j]);
        }
      }
      write(shared, a, part, row, column, sum);
    }
  }
};

// Few queries of each head: decoding.
struct SplitKv {
  static constexpr int64_t kMostRows = 1024;  // that share keys; by_worth asks for fewer

  static bool supports(const Attention::Call& call, Why& why);
  static bool supports(const AttentionVarlen::Call& call, Why& why);
  static Workspace workspace(const Attention::Call& call);
  static Workspace workspace(const AttentionVarlen::Call& call);
  static void run(const Attention::Call& call, const Context& context);
  static void run(const AttentionVarlen::Call& call, const Context& context);
};

}  // namespace ws::attention
