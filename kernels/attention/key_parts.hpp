// What kernels that share out keys (key_line.hpp) have in common: the rows of a part, what is done
// to their scores, and how the parts of an item are put together: by the block that comes last,
// where none waits for others (30_split_kv.cuh).
#pragma once

#include "catalogue/parts.hpp"
#include "kernels/attention/key_ring.hpp"
#include "kernels/attention/mma_scores.hpp"

namespace ws::attention {

// What a kernel is told. What a block reads first is first: constants come by lines, too.
template <class Line>
struct KeyArguments {
  Line line;
  Call call;
  Parts<float> parts;  // a counter for the block that has an item's first part
  bool out_aligned;    // 16 bytes of a row at a time
  PageTable table;
};

// Of `blocks` that each leave a first and a last part of so many floats, for who comes last: what
// counts those that have, and the parts.
inline PartsPlan counted_parts(int64_t blocks, uint32_t floats) {
  return {.groups = blocks, .parts = 2, .partials = floats, .partial_bytes = sizeof(float)};
}

#if WS_DEVICE_CODE
// Of tiles of kRows rows, whose values have up to kColumns columns, and units of kKeys keys.
template <class T, class Line, int kRows, int kColumns, int kKeys, int kThreads>
struct KeyParts {
  using Arguments = KeyArguments<Line>;
  static constexpr bool kPacked = Line::kPacked;

  // What a part leaves of each row, if others have the rest: its maximum and its weights' sum,
  // below 0, and of no use, where a page is wrong; and what it gathered. A block has two such parts
  // at most: its last, which others go on with, and its first, which goes on with another's.
  static constexpr uint32_t kGathered = 2 * kRows;
  static constexpr uint32_t kPartFloats = kGathered + kRows * kColumns;
  static constexpr uint32_t kPartsOfBlock = 2;
  static constexpr float kWrong = -1;

  // The thread's index, of which the compiler knows that it has no sign.
  __device__ __forceinline__ static int thread() {
    return static_cast<int>(static_cast<unsigned>(thread_index()) % kThreads);
  }

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
    return row_at<U>(heads, part.batch, place.head, part.first_query + place.query);
  }
  __device__ __forceinline__ static int rows_of(const Line& line, const KeyPart& part) {
    const int left = part.queries * line.group - part.row;
    return left < kRows ? left : kRows;
  }

  // Whether this part's share of all pages of the sequence is there; what is not is reported.
  __device__ __forceinline__ static bool has_its_pages(const Arguments& a, const KeyPart& part) {
    if (a.table.pages == nullptr) return true;
    // Those that the first keys of its units lie in, and behind them up to the next part's.
    // Behind the last keys there may be units without any.
    const auto before = [&](int unit) {
      const int end = part.keys + a.table.page - 1;
      const int key = unit == 0            ? 0
                      : unit == part.units ? end
                                           : std::min(end, part.first + unit * kKeys);
      return static_cast<int>(a.table.by_page.quotient(static_cast<uint32_t>(key)));
    };
    const bool mine = a.line.sequences.report_pages(part.batch, before(part.from) + thread_index(),
                                                    before(part.end), kThreads);
    return ptx::vote_sync_all(kFullMask, mine);
  }

  // The same of those pages that no unit lies in: what a window leaves out of a sequence's keys.
  __device__ __forceinline__ static bool has_unseen_pages(const Arguments& a, const KeyPart& part) {
    if (a.table.pages == nullptr || part.from > 0 || part.first == 0) return true;
    const auto end = static_cast<int>(a.table.by_page.quotient(static_cast<uint32_t>(part.first)));
    const bool mine = a.line.sequences.report_pages(part.batch, thread_index(), end, kThreads);
    return ptx::vote_sync_all(kFullMask, mine);
  }

  // All that an operation can do to products but hide and bias them, which are times `factors`
  // first. The tile's rows from `first_row` on; `key` is the unit's first.
  template <class Scores>
  __device__ __forceinline__ static void change(Scores& scores,
                                                const float (&factors)[Scores::kRows],
                                                const Arguments& a, const KeyPart& part, int key,
                                                int first_row = 0) {
    const Call& call = a.call;
    scores.change([&](int i, int, float score) { return score * factors[i]; });
    if (call.softcap > 0) scores.cap(call.softcap);
    if (!call.slopes.exists) return;
    float slopes[Scores::kRows];
    int over[Scores::kRows];
#pragma unroll
    for (int i = 0; i < Scores::kRows; ++i) {
      const bool exists = first_row + Scores::row(i) < rows_of(a.line, part);
      const Place place = place_of(a.line, part, exists ? first_row + Scores::row(i) : 0);
      slopes[i] = thread::load(call.slopes.data + part.batch * call.slopes.batch +
                               place.head * call.slopes.head);
      over[i] = place.query + part.keys - part.queries - key - Scores::first_key();
    }
    scores.change([&](int i, int in_unit, float score) {
      return score - slopes[i] * fabsf(static_cast<float>(over[i] - in_unit));
    });
  }
  template <class Scores>
  __device__ __forceinline__ static void hide(Scores& scores, const Arguments& a,
                                              const KeyPart& part, int key, int first_row = 0) {
    const Seen<int> seen = a.line.seen_of(part.queries, part.keys);
    const int from = key + Scores::first_key();
    int first[Scores::kRows];
    int end[Scores::kRows];
#pragma unroll
    for (int i = 0; i < Scores::kRows; ++i) {
      const Place place = place_of(a.line, part, first_row + Scores::row(i));
      first[i] = seen.first(place.query) - from;
      end[i] = seen.end(place.query) - from;
    }
    scores.change([&](int i, int in_unit, float score) {
      return in_unit >= first[i] && in_unit < end[i] ? score : -thread::kInfinity;
    });
  }

  // A lane's sums of two rows, times a factor each.
  template <int kAcross>
  __device__ __forceinline__ static void scale(float (&gathered)[kAcross][4], float first,
                                               float second) {
#pragma unroll
    for (int n = 0; n < kAcross; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) gathered[n][i] *= i < 2 ? first : second;
    }
  }

  // Four columns of a row, put together.
  struct Merged {
    float max = -thread::kInfinity;
    float sum = 0;
    bool is_wrong = false;
    Vec<float, 4> gathered{};

    // As a part has them.
    __device__ __forceinline__ Vec<float, 2> weights() const {
      return {max, is_wrong ? kWrong : sum};
    }

    // Adds the first `count` of some parts, of each its maximum and sum, and what it gathered. All
    // of them have been loaded by then: under an `if` the compiler would load each where it is
    // used, one after the other.
    template <int kMost>
    __device__ __forceinline__ void add(const Vec<float, 2> (&weights)[kMost],
                                        const Vec<float, 4> (&more)[kMost], int count,
                                        float scale) {
      float high = max;
#pragma unroll
      for (int i = 0; i < kMost; ++i) high = fmaxf(high, weights[i][0]);
      const float from = thread::finite_or_zero(high);
      const float rescale = thread::exp2((max - from) * scale);
      max = high;
      sum *= rescale;
#pragma unroll
      for (int j = 0; j < 4; ++j) gathered[j] *= rescale;
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        const bool exists = i < count;
        const float weight = thread::exp2((weights[i][0] - from) * scale);
        if constexpr (kPacked) is_wrong |= weights[i][1] < 0;
        sum = exists ? thread::fma(weights[i][1], weight, sum) : sum;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          gathered[j] = exists ? thread::fma(more[i][j], weight, gathered[j]) : gathered[j];
        }
      }
    }
  };

  // Where, of all partials, a block leaves its part of an item; if that is the item's first, behind
  // the one that it goes on with. In 32 bits, without a sign: half the instructions.
  __device__ __forceinline__ static uint32_t left_at(int block, bool is_first) {
    return (static_cast<uint32_t>(block) * kPartsOfBlock + (is_first ? 1U : 0U)) * kPartFloats;
  }

  // How a row ends.
  struct Ending {
    T* to;
    float factor;  // of what was gathered
    float lse;
  };
  __device__ __forceinline__ static Ending ending(const Arguments& a, const KeyPart& part, int row,
                                                  float max, float sum, float scale) {
    const Place place = place_of(a.line, part, row);
    const float sink = a.call.sinks.exists
                           ? thread::load(a.call.sinks.data + place.head * a.call.sinks.head)
                           : -thread::kInfinity;
    Ending ending;
    OnlineRows<1, true>::finish(max, sum, scale, sink, ending.factor, ending.lse);
    ending.to = row_of<T>(a.call.out, part, place);
    return ending;
  }
  __device__ __forceinline__ static void tell(const Arguments& a, const KeyPart& part, int row,
                                              float lse) {
    thread::store(row_of<float>(a.call.lse, part, place_of(a.line, part, row)), lse);
  }
  // Some columns of a row, from `column` on.
  template <int kCount>
  __device__ __forceinline__ static void write(const Arguments& a, T* row, int column,
                                               const Vec<float, kCount>& gathered, float factor) {
    const auto columns = static_cast<int>(a.call.value_dim);
    const int64_t apart = a.call.out.column;
    T* const to = row + column * apart;
    Vec<float, kCount> scaled;
#pragma unroll
    for (int i = 0; i < kCount; ++i) scaled[i] = gathered[i] * factor;
    const auto rounded = thread::convert<T>(scaled);
    if (a.out_aligned && column + kCount <= columns) {
      thread::store(to, rounded);
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (column + i < columns) thread::store(to + i * apart, rounded[i]);
    }
  }
  // Four columns of a row, and with the first ones its lse. of_values: what values are times.
  __device__ __forceinline__ static void write(const Arguments& a, const KeyPart& part, int row,
                                               int column, const Merged& merged, float scale,
                                               float of_values) {
    if (merged.is_wrong || (column >= static_cast<int>(a.call.value_dim) && column > 0)) return;
    const Ending end = ending(a, part, row, merged.max, merged.sum, scale);
    if (column == 0) tell(a, part, row, end.lse);
    write(a, end.to, column, merged.gathered, end.factor * of_values);
  }

  // What `count` blocks from `first` on left of a row, in their order: its weights lie at `of_row`
  // of each, sums of four of its columns at `of_columns`.
  __device__ __forceinline__ static Merged merge(const float* partials, int first, int count,
                                                 uint32_t of_row, uint32_t of_columns,
                                                 float scale) {
    constexpr int kAtOnce = 8;  // parts that are asked for before one is added
    Merged merged;
#pragma unroll 1
    for (int from = 0; from < count; from += kAtOnce) {
      Vec<float, 2> weights[kAtOnce];
      Vec<float, 4> more[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int nth = from + i < count ? from + i : from;
        const uint32_t left = left_at(first + nth, nth == 0);
        weights[i] = thread::load<2>(partials + (left + of_row));
        more[i] = thread::load<4>(partials + (left + of_columns));
      }
      merged.add(weights, more, count - from, scale);
    }
    return merged;
  }

  // The block that is the last to leave its part puts them together.
  __device__ __forceinline__ static void combine(const Arguments& a, typename Line::Storage& line,
                                                 SharedArray<uint32_t, 1>& order, KeyWalk walk,
                                                 float scale, float of_values = 1) {
    const KeyPart& part = walk.part;
    const int first = a.line.block_of(line, walk.at);
    const int count = a.line.block_of(line, walk.at + part.units - 1) - first + 1;
    Parts<float> parts = a.parts;
    parts.parts = count;
    if (!parts.came_last(first, order)) return;
    const int pieces = rows_of(a.line, part) * (kColumns / 4);
#pragma unroll 1
    for (int at = thread(); at < pieces; at += kThreads) {
      const int row = at / (kColumns / 4);
      const int column = at % (kColumns / 4) * 4;
      const auto of_row = static_cast<uint32_t>(row * 2);
      const auto of_columns = static_cast<uint32_t>(row * kColumns + column) + kGathered;
      const Merged merged = merge(parts.partials, first, count, of_row, of_columns, scale);
      write(a, part, row, column, merged, scale, of_values);
    }
  }
};
#endif

}  // namespace ws::attention
