// Idea: a block takes a band of rows of the result. Rows of x are mixed downwards first, 16 bytes a
// thread, for four rows of the result at once; these lie in shared memory, where a thread mixes
// along two columns of four rows at a time.
// From bilinear_rows: x is read in whole vectors, not an element for each column that wants it, and
// an access of shared memory brings a column's four rows; what lies between two rows is found for
// the columns of x, which are fewer, and a place along the row once a band.
// Traffic: each element once, a row or two more a band from the L2; eight accesses in flight.
// Limits: contiguous planes of up to 4096 columns, those of x in whole vectors, aligned to 16
// bytes, those of the result in pairs.
// Long: both directions of mixing, one after the other in shared memory.
#pragma once

#include "kernels/upsample/rows_of_four.hpp"

namespace ws::upsample {

template <class T>
struct BilinearBandsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int kMostColumns = 4096;
  struct Arguments {
    const T* x;
    T* y;
    int groups;               // of four rows, of a band
    thread::Divider bands;    // of a plane; the last may be short
    thread::Divider vectors;  // of a row of x
    LinearAxis vertical;
    LinearAxis horizontal;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto block = static_cast<uint32_t>(block_index());
    const int64_t plane = a.bands.quotient(block);
    const int first = static_cast<int>(block - plane * a.bands.divisor()) * a.groups * kFour;
    const int groups = std::min(a.groups, divide_up(a.vertical.to - first, kFour));
    const RowsOfFour rows(a.horizontal.from);
    const SharedSpan<float> mixed = dynamic_shared<float>(shared, int64_t{a.groups} * rows.pitch());
    mix_rows(a, a.x + plane * a.vertical.from * a.horizontal.from, first, groups, rows, mixed);
    ptx::barrier_sync();
    mix_columns(a, a.y + (plane * a.vertical.to + first) * a.horizontal.to, a.vertical.to - first,
                groups, rows, mixed);
  }

 private:
  static __device__ __forceinline__ void mix_rows(const Arguments& a, const T* x, int first,
                                                  int groups, const RowsOfFour& rows,
                                                  SharedSpan<float> mixed) {
    const auto row_bytes = static_cast<uint32_t>(a.horizontal.from * sizeof(T));
    const uint32_t vectors = groups * a.vectors.divisor();
    for (uint32_t i = thread_index(); i < vectors; i += block_threads()) {
      const auto group = static_cast<int>(a.vectors.quotient(i));
      const auto column = static_cast<int>(i - group * a.vectors.divisor()) * kWidth;
      Vec<T, kWidth> upper[kFour];
      Vec<T, kWidth> lower[kFour];
      float weight[kFour];  // of the lower one
#pragma unroll
      for (int r = 0; r < kFour; ++r) {
        // Behind the last row it is mixed again, and not written.
        const int row = std::min(first + group * kFour + r, a.vertical.to - 1);
        const float source = a.vertical.source(row);
        const int before = LinearAxis::before(source);
        weight[r] = source - static_cast<float>(before);
        const T* from = x + column;
        upper[r] = thread::load<kWidth>(rows_below(from, before, row_bytes));
        lower[r] = thread::load<kWidth>(rows_below(from, a.vertical.after(source), row_bytes));
      }
      const int at = rows.index(group, column);
#pragma unroll
      for (int c = 0; c < kWidth; ++c) {
        Vec<float, kFour> four;
#pragma unroll
        for (int r = 0; r < kFour; ++r) {
          four[r] = (1 - weight[r]) * to_float(upper[r][c]) + weight[r] * to_float(lower[r][c]);
        }
        mixed.template store<kFour>(at + kFour * c, four);
      }
    }
  }
  static __device__ __forceinline__ void mix_columns(const Arguments& a, T* to, int height,
                                                     int groups, const RowsOfFour& rows,
                                                     SharedSpan<float> mixed) {
    const int pairs = a.horizontal.to / 2;
    for (int pair = thread_index(); pair < pairs; pair += block_threads()) {
      const Column first(a.horizontal, 2 * pair, rows);
      const Column second(a.horizontal, 2 * pair + 1, rows);
      T* y = to + 2 * pair;
#pragma unroll 1
      for (int group = 0; group < groups; ++group) {
        const Vec<float, kFour> one = first.mix(mixed, group * rows.pitch());
        const Vec<float, kFour> other = second.mix(mixed, group * rows.pitch());
        const int left = height - group * kFour;
#pragma unroll
        for (int r = 0; r < kFour; ++r, y += a.horizontal.to) {
          if (r < left) thread::store(y, thread::convert<T>(Vec<float, 2>{one[r], other[r]}));
        }
      }
    }
  }

  struct Column {
    int left;
    int right;
    float weight;  // of the right one

    __device__ __forceinline__ Column(const LinearAxis& axis, int column, const RowsOfFour& rows) {
      const float source = axis.source(column);
      const int before = LinearAxis::before(source);
      left = rows.index(0, before);
      right = rows.index(0, axis.after(source));
      weight = source - static_cast<float>(before);
    }
    __device__ __forceinline__ Vec<float, kFour> mix(SharedSpan<float> mixed, int group) const {
      const Vec<float, kFour> a = mixed.template load<kFour>(group + left);
      const Vec<float, kFour> b = mixed.template load<kFour>(group + right);
      Vec<float, kFour> between;
#pragma unroll
      for (int r = 0; r < kFour; ++r) between[r] = (1 - weight) * a[r] + weight * b[r];
      return between;
    }
  };
};

struct BilinearBands {
  static bool supports(const ForwardCall& call, Why& why) {
    constexpr int64_t kMost = BilinearBandsKernel<float>::kMostColumns;
    const int64_t width = width_of(call);
    return is_dense(call, why) &&
           why.unless(call.columns.from <= kMost && call.columns.to <= kMost, "takes up to ", kMost,
                      " columns, not ", call.columns.from, " and ", call.columns.to) &&
           why.unless(call.columns.from % width == 0 && is_aligned(call.in),
                      "reads whole vectors of ", width, " columns, aligned to 16 bytes, not ",
                      call.columns.from) &&
           why.unless(call.columns.to % 2 == 0 && is_aligned(call.out),
                      "writes pairs of columns, aligned to 16 bytes, not ", call.columns.to) &&
           is_counted(call.planes() * call.rows.to, why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BilinearBandsKernel<T>;
      // As few turns along the row as there must be, and no warp without columns in them.
      const int64_t pairs = call.columns.to / 2;
      const int64_t turns = divide_up(pairs, int64_t{Kernel::kThreads});
      const int64_t threads = round_up(divide_up(pairs, turns), int64_t{kWarpSize});
      const int64_t vectors = call.columns.from / Kernel::kWidth;
      const RowsOfFour rows(static_cast<int>(call.columns.from));
      const int groups =
          rows.groups(std::min(threads / vectors, divide_up(call.rows.to, int64_t{kFour})));
      const int64_t bands = divide_up(call.rows.to, int64_t{groups} * kFour);
      launch<Kernel>({.blocks = call.planes() * bands,
                      .threads = static_cast<int>(threads),
                      .dynamic_shared = size_t(groups) * rows.pitch() * sizeof(float)},
                     context.stream,
                     {.x = static_cast<const T*>(call.in),
                      .y = static_cast<T*>(call.out),
                      .groups = groups,
                      .bands = thread::Divider(bands),
                      .vectors = thread::Divider(vectors),
                      .vertical = LinearAxis(call.rows),
                      .horizontal = LinearAxis(call.columns)});
    });
  }
};

inline constexpr Rung kBilinearBands = rung_of<BilinearBands, UpsampleBilinear2d>({
    .name = "bilinear_bands",
    .from = "bilinear_rows",
    .idea = "a band of rows a block: mixed downwards in vectors, then along four rows at once",
});

}  // namespace ws::upsample
