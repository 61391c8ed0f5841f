// Groups of channels that lie side by side (NHWC): a sample is a matrix of rows, each with an
// element of every channel. Neighbouring groups that are whole vectors together are a unit, one or
// more units a span; blocks that share a span of a sample have rows of it each, and threads have
// columns and rows of their own, as in columns.hpp.
#pragma once

#include <bit>
#include <numeric>

#include "kernels/batch_norm/columns.hpp"
#include "kernels/batch_norm/groups.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::batch_norm {

inline bool group_columns_supported(const Layout& layout, DType dtype, Why& why) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto width = static_cast<int64_t>(16 / size_of(dtype));
  const bool several = layout.width > 1;
  if (!why.unless(layout.axes == (several ? 2 : 1) && layout.channel_axis == (several ? 1 : -1) &&
                      layout.sets > 0 && layout.count > 0,
                  "takes groups of channels that lie side by side (NHWC)")) {
    return false;
  }
  for (size_t k = 0; static_cast<int>(k) < layout.operands; ++k) {
    if (!why.unless((!several || layout.strides[k][1] == 1) &&
                        (layout.per == 1 || layout.set[k] == layout.width) &&
                        layout.strides[k][0] >= layout.channels() &&
                        layout.channels() % width == 0 && layout.strides[k][0] % width == 0 &&
                        layout.sample[k] % width == 0 &&
                        reinterpret_cast<uintptr_t>(layout.data[k]) % 16 == 0,
                    "takes rows of whole vectors of ", width,
                    " channels that start at a multiple of 16 bytes")) {
      return false;
    }
  }
  return why.unless(layout.channels() <= kMost && layout.count / layout.width <= kMost,
                    "takes up to ", kMost, " channels, and rows of a sample");
}

// How a block's threads share a span. What a kernel divides by is prepared here: the block that all
// wait for has eight warps, which do not hide the 150 cycles of a division.
struct SpanPlan {
  static constexpr int kThreads = 256;  // of a block
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kMostGroups = 128;  // of a span
  static constexpr int kMostVectors = 256;

  thread::Divider width;  // channels of a group
  thread::Divider lanes;  // of a warp, side by side
  thread::Divider warps;  // side by side
  thread::Divider step;   // rows of a block's threads, one below the other
  thread::Divider spans;  // of a row
  thread::Divider parts;  // blocks that share a span
  int groups = 1;         // of a span
  int team = 0;           // log2 of the threads that add up a group
  int of_row = 1;         // vectors of a row
  int vectors = 1;        // of a span, fewer of the last
  int rows_of_warp = 1;   // one below the other
  int half = 0;           // the largest power of 2 below that
  int rows = 1;           // of a sample
  int share = 1;          // rows of each part

  // Of spans of so many units.
  static SpanPlan of(const Layout& layout, DType dtype, int64_t units) {
    const auto width = static_cast<int64_t>(16 / size_of(dtype));
    SpanPlan plan;
    plan.width = thread::Divider(layout.width);
    plan.of_row = static_cast<int>(layout.channels() / width);
    plan.vectors = static_cast<int>(units * unit_of(layout, dtype));
    plan.groups = static_cast<int>(plan.vectors * width / layout.width);
    while (plan.team < 5 && 1 << plan.team < layout.width) ++plan.team;
    plan.spans = thread::Divider(divide_up(plan.of_row, plan.vectors));
    const int warps = divide_up(plan.vectors, kWarpSize);
    const int lanes = divide_up(plan.vectors, warps);
    plan.warps = thread::Divider(warps);
    plan.lanes = thread::Divider(lanes);
    plan.rows_of_warp = kWarpSize / lanes;
    plan.half = static_cast<int>(std::bit_ceil(static_cast<uint32_t>(plan.rows_of_warp)) / 2);
    plan.step = thread::Divider(std::max(kWarps / warps * plan.rows_of_warp, 1));
    plan.rows = static_cast<int>(layout.count / layout.width);
    return plan.in_parts(1);
  }
  // Vectors of the least span.
  static int64_t unit_of(const Layout& layout, DType dtype) {
    const auto width = static_cast<int64_t>(16 / size_of(dtype));
    return layout.width / std::gcd(layout.width, width);
  }
  // Calls f(plan) with spans of one unit, two, ..., as far as a block takes them.
  template <class F>
  static void each(const Layout& layout, DType dtype, const F& f) {
    for (int64_t units = 1;; ++units) {
      const SpanPlan plan = of(layout, dtype, units);
      if (plan.vectors > plan.of_row || plan.vectors > kMostVectors || plan.groups > kMostGroups) {
        return;
      }
      if (units > 1 && plan.vectors > kWarpSize) return;
      f(plan);
    }
  }
  // The best spans to read rows of, which are at most 512 bytes where a unit is; in parts for so
  // many blocks an SM, where each of them has `loads` rows and more.
  static SpanPlan to_read(const Layout& layout, DType dtype, int loads, int blocks_of_sm) {
    SpanPlan best;
    int most = 0;
    each(layout, dtype, [&](const SpanPlan& plan) {
      const int worth = plan.busy() * std::min(plan.vectors, 8);
      if (worth <= most) return;
      most = worth;
      best = plan;
    });
    const int64_t least = int64_t{best.step.divisor()} * loads;
    return best.in_parts(Plan::of(best.all_spans(layout), best.rows, least, blocks_of_sm).parts);
  }
  static bool supported(const Layout& layout, DType dtype, Why& why) {
    const auto bytes = unit_of(layout, dtype) * 16;
    return group_columns_supported(layout, dtype, why) &&
           why.unless(bytes <= 16 * kMostVectors, "takes groups that are whole vectors in up to ",
                      16 * kMostVectors, " bytes of a row, not ", bytes);
  }
  // Of a sample's.
  int64_t bytes_of_rows() const { return int64_t{16} * rows * vectors; }
  // Of all samples.
  int64_t all_spans(const Layout& layout) const {
    return layout.sets / layout.per * static_cast<int64_t>(spans.divisor());
  }
  int64_t blocks(const Layout& layout) const { return all_spans(layout) * count(); }
  // With `wanted` parts, or fewer.
  SpanPlan in_parts(int64_t wanted) const {
    return in_shares(std::max<int64_t>(divide_up(int64_t{rows}, wanted), 1));
  }
  // With parts of so many rows, of which the last may have fewer.
  SpanPlan in_shares(int64_t rows_of_part) const {
    SpanPlan plan = *this;
    plan.share = static_cast<int>(rows_of_part);
    plan.parts = thread::Divider(divide_up(rows, plan.share));
    return plan;
  }
  __host__ __device__ __forceinline__ int count() const {
    return static_cast<int>(parts.divisor());
  }
  __host__ __device__ __forceinline__ int columns() const { return groups * of_group(); }
  __host__ __device__ __forceinline__ int of_group() const {
    return static_cast<int>(width.divisor());
  }
  // Warps one below the other.
  __host__ __device__ __forceinline__ int below() const {
    return static_cast<int>(warps.quotient(kWarps));
  }
  // Of the columns of all warps that have rows of their own, and the most that may be.
  __host__ __device__ __forceinline__ int64_t sums() const { return int64_t{below()} * columns(); }
  // Of each group from each block, in whole vectors of 16 bytes.
  __host__ __device__ __forceinline__ int64_t letters() const {
    return round_up(int64_t{count()} * groups, 2);
  }
  template <class T>
  static constexpr int most_sums() {
    return kThreads * static_cast<int>(16 / sizeof(T));
  }
  // Lanes that have columns, of 32.
  int busy() const { return static_cast<int>(lanes.divisor()) * rows_of_warp; }
};

// A tensor: row r of sample n begins at data + n * sample + r * pitch.
template <class T>
struct Samples {
  T* data;
  int64_t sample;
  int64_t pitch;

  static Samples of(const Layout& layout, int k) {
    const auto at = static_cast<size_t>(k);
    return {layout.as<T>(k), layout.sample[at], layout.strides[at][0]};
  }
  __device__ __forceinline__ T* row(int64_t n, int64_t r) const {
    return data + n * sample + r * pitch;
  }
};

#if WS_DEVICE_CODE

// A block's part of a span of a sample, a thread's columns and rows.
template <class T>
struct SpanPlace {
  static constexpr int kWidth = row::kWidest<T>;

  const SpanPlan& plan;
  int nth;  // of all samples' spans
  int sample;
  int channel;  // of the sample, the thread's first
  int span;
  int part;
  int vector;  // of the span
  int begin;   // of the part's rows in the sample
  int end;
  int first;  // row of this thread, and how far its next is
  int step;
  int below;   // number of the warp, of those one below the other
  bool leads;  // of those over the same columns in its warp the first, if there are columns
  bool mine;   // there are columns, and they are in the tensor

  // Parts of a span follow each other, then spans.
  __device__ __forceinline__ SpanPlace(const SpanPlan& of, int64_t item) : plan(of) {
    const auto divide = [](const thread::Divider& by, int n, int& rest) {
      const auto quotient = static_cast<int>(by.quotient(static_cast<uint32_t>(n)));
      rest = n - quotient * static_cast<int>(by.divisor());
      return quotient;
    };
    nth = divide(of.parts, static_cast<int>(item), part);
    sample = divide(of.spans, nth, span);
    int column = 0;
    int of_lane = 0;
    const int row = divide(of.lanes, lane_index(), of_lane);
    below = divide(of.warps, warp_index(), column);
    vector = column * static_cast<int>(of.lanes.divisor()) + of_lane;
    const bool has_columns = row < of.rows_of_warp && vector < of.vectors && below < of.below();
    leads = has_columns && row == 0;
    mine = has_columns && span * of.vectors + vector < of.of_row;
    channel = (span * of.vectors + vector) * kWidth;
    begin = part * of.share;
    end = of.rows - begin < of.share ? of.rows : begin + of.share;
    first = begin + below * of.rows_of_warp + row;
    step = static_cast<int>(of.step.divisor());
  }
  __device__ __forceinline__ bool has_rows() const { return mine && first < end; }
  // Elements of a group in a part.
  __device__ __forceinline__ float count(int of_part) const {
    const int left = plan.rows - of_part * plan.share;
    return static_cast<float>(left < plan.share ? left : plan.share) *
           static_cast<float>(plan.of_group());
  }
  // The span's first channel and group, of the sample.
  __device__ __forceinline__ int first_channel() const { return span * plan.vectors * kWidth; }
  __device__ __forceinline__ int first_group() const { return span * plan.groups; }
  // The span's, fewer of the last.
  __device__ __forceinline__ int groups() const {
    const int left = (plan.of_row - span * plan.vectors) * kWidth;
    return left < plan.vectors * kWidth
               ? static_cast<int>(plan.width.quotient(static_cast<uint32_t>(left)))
               : plan.groups;
  }
  // f(row, x), x of each input, for the rows of this thread, kLoads of which are under way, the
  // first while prepare(first) runs.
  template <int kLoads, int kInputs, class Prepare, class F>
  __device__ __forceinline__ void each_row(const Samples<const T> (&inputs)[kInputs],
                                           const Prepare& prepare, const F& f) const {
    using Packed = row::Packed<T, kWidth>;
    Packed next[kLoads][kInputs];
    const int rows_end = mine ? end : begin;
    const auto fetch = [&](int r) {
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int at = r + j * step;
#pragma unroll
        for (int k = 0; k < kInputs; ++k) {
          if (at < rows_end) next[j][k] = Packed::load(inputs[k].row(sample, at) + channel);
        }
      }
    };
    fetch(first);
    prepare(next);
    for (int r = first; r < rows_end; r += kLoads * step) {
      Packed now[kLoads][kInputs];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
#pragma unroll
        for (int k = 0; k < kInputs; ++k) now[j][k] = next[j][k];
      }
      fetch(r + kLoads * step);
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (r + j * step < rows_end) f(r + j * step, now[j]);
      }
    }
  }
  // The span's channels: [0, channels()) and, of its first, the number in a row.
  __device__ __forceinline__ int channels() const { return groups() * plan.of_group(); }
  // f(i, g, begins): the i-th column is of the span's group g, and its first where that begins.
  template <class F>
  __device__ __forceinline__ void each_column(const F& f) const {
    int g = static_cast<int>(plan.width.quotient(static_cast<uint32_t>(vector * kWidth)));
    int at = vector * kWidth - g * plan.of_group();
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      f(i, g, at == 0);
      const bool ends = ++at == plan.of_group();
      g += ends ? 1 : 0;
      at = ends ? 0 : at;
    }
  }
  // of(g), where group g of the span is looked up once, for each column.
  template <class Value, class Of>
  __device__ __forceinline__ void of_groups(Value (&values)[kWidth], const Of& of) const {
    if (!mine) return;
    each_column([&](int i, int g, bool begins) {
      if (i == 0 || begins) {
        values[i] = of(g);
      } else {
        values[i] = values[i - 1];
      }
    });
  }
};

// The sums of a block's columns, and of its groups, in a fixed order.
template <class T>
struct AddUpSpan {
  static constexpr int kWidth = row::kWidest<T>;

  // `sums` has plan.sums() places. weigh(c, total) is the term that channel c of the span has in
  // its group; of_group(g, lane, total) is called for every group of the span by all lanes of its
  // team. When the block has met again, column(sums, plan, c) is the sum of channel c.
  template <class Weigh, class OfGroup>
  __device__ __forceinline__ static void groups(const SharedSpan<Sums>& sums,
                                                const SpanPlace<T>& place,
                                                thread::Tile<Sums, kWidth>& own, const Weigh& weigh,
                                                const OfGroup& of_group) {
    const SpanPlan& plan = place.plan;
    const int apart = plan.vectors * kWidth;  // from warp to warp
    const int lanes = static_cast<int>(plan.lanes.divisor());
    const int row = static_cast<int>(plan.lanes.quotient(static_cast<uint32_t>(lane_index())));
    for (int half = plan.half; half > 0; half /= 2) {
      const bool has = row + half < plan.rows_of_warp;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const Sums below = warp::shuffle_down(own[i], half * lanes);
        if (has) own[i] = PlusSums{}(own[i], below);
      }
    }
    if (place.leads) {
      const int to = place.below * apart + place.vector;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[to + i * plan.vectors] = own[i];
    }
    ptx::barrier_sync();
    const int count = place.groups();
    const int team = 1 << plan.team;
    const int lane = thread_index() & (team - 1);
    const int warps = plan.below();
#pragma unroll 1
    for (int from = 0; from < count; from += SpanPlan::kThreads >> plan.team) {
      const int g = from + (thread_index() >> plan.team);
      Sums total = Sums::none();
      if (g < count) {
        const int end = (g + 1) * plan.of_group();
#pragma unroll 1
        for (int c = g * plan.of_group() + lane; c < end; c += team) {
          const int at = place_of(plan, c);
          Sums of_column = sums[at];
#pragma unroll
          for (int w = 1; w < SpanPlan::kWarps; ++w) {
            Sums more = Sums::none();
            if (w < warps) more = sums[at + w * apart];
            of_column = PlusSums{}(of_column, more);
          }
          sums[at] = of_column;
          total = PlusSums{}(total, weigh(c, of_column));
        }
      }
      for (int distance = team / 2; distance > 0; distance /= 2) {
        total = PlusSums{}(total, warp::shuffle_xor(total, distance));
      }
      if (g < count) of_group(g, lane, total);
    }
  }
  // pivots[g], what distances in group g are measured from in this block: the mean of the rows
  // `first` that its threads begin with. It is no further from the mean of all n rows of a thread
  // than root(n) deviations, whatever one of them is: what cancels is log2(n) bits at most. The
  // block has met afterwards.
  template <class Pivots>
  __device__ __forceinline__ static void find_pivots(const SharedSpan<Sums>& sums,
                                                     const SpanPlace<T>& place,
                                                     const row::Packed<T, kWidth>& first,
                                                     Pivots& pivots) {
    constexpr float kMost = SpanPlan::kThreads * kWidth;  // numbers, whose sum could leave f32
    const bool has_row = place.has_rows();
    thread::Tile<Sums, kWidth> own;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) own[i] = has_row ? Sums{first[i] / kMost, 1.0F} : Sums::none();
    groups(
        sums, place, own, [](int /*c*/, const Sums& of_column) { return of_column; },
        [&](int g, int lane, const Sums& total) {
          if (lane == 0) pivots[g] = total.grad * thread::reciprocal(total.product) * kMost;
        });
    ptx::barrier_sync();
  }
  __device__ __forceinline__ static Sums column(const SharedSpan<Sums>& sums, const SpanPlan& plan,
                                                int c) {
    return sums[place_of(plan, c)];
  }

 private:
  __device__ __forceinline__ static int place_of(const SpanPlan& plan, int c) {
    return c % kWidth * plan.vectors + c / kWidth;
  }
};

#endif

}  // namespace ws::batch_norm
