// Idea: an element of grad is a part of two rows of dx. A thread reads the rows of grad that four
// rows of dx are made of, 16 bytes each, and adds each of them to its two; the sums of a column's
// four rows lie side by side in shared memory, where one access brings them to a column of dx.
// From bilinear_backward_bands: a row of grad is read and converted once for four rows of dx, not
// for each that it is a part of, up to ten of them at once in flight; a quarter of the accesses of
// shared memory; ranges and weights are found once for several bands, by asking each element.
// Traffic: each element once, a quarter of them again, from the L1 or the L2.
// Limits: contiguous planes of up to 1024 columns, and 4096 of grad, those in whole vectors,
// aligned to 16 bytes, those of dx in pairs.
// Long: three tables and two sums, one after the other in shared memory.
#pragma once

#include "kernels/upsample/rows_of_four.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::upsample {

template <class T>
struct BilinearBackwardFoursKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 4;
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int kMostColumns = 1024;
  static constexpr int kMostRead = 4096;   // columns of grad
  static constexpr int kMostRows = 128;    // of a block
  static constexpr int kGaps = kFour + 1;  // between, above and below four rows
  static constexpr int kAtOnce = 2;        // rows of a gap; those of up to twice the size
  static constexpr int kWeights = 4;       // of a column in the table, all of twice the size
  struct Arguments {
    const T* grad;
    T* dx;
    int groups;               // of four rows of dx, of a band
    int rows_a_block;         // of dx, in whole bands
    int side;                 // groups that threads lie along at once
    bool has_more;            // columns may have more than kWeights
    thread::Divider blocks;   // of a plane; the last may be short
    thread::Divider vectors;  // of a row of grad
    thread::Divider lanes;    // threads along a row of dx
    LinearAxis vertical;
    LinearAxis horizontal;
  };
  // Rows of grad from one of dx to before the next: how much of the next there is in the first.
  struct alignas(16) Gap {
    int begin;
    float weight[kAtOnce];
    int unused;
  };
  struct SharedStorage {
    SharedArray<Gap, kMostRows + 2> gaps;
    SharedArray<uint16_t, kMostColumns + 2> column_starts;
  };
  // In dynamic shared memory: of each column of dx its first weights and where what they weigh
  // lies, and the sums.
  struct Tables {
    SharedSpan<float> weights;
    SharedSpan<int> places;
    SharedSpan<float> sums;

    __device__ __forceinline__ Tables(SharedSpan<float> all, int columns)
        : weights(all.pointer(), int64_t{kWeights} * columns),
          places(reinterpret_cast<int*>(all.pointer(kWeights * columns)),
                 int64_t{kWeights} * columns),
          sums(all.pointer(2 * kWeights * columns), all.size() - 2 * kWeights * columns) {}
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto block = static_cast<uint32_t>(block_index());
    const int64_t plane = a.blocks.quotient(block);
    const int first = static_cast<int>(block - plane * a.blocks.divisor()) * a.rows_a_block;
    const int height = std::min(a.rows_a_block, a.vertical.from - first);
    const RowsOfFour rows(a.horizontal.to);
    const int columns = a.horizontal.from;
    const Tables tables(dynamic_shared<float>(shared, floats_of(a.horizontal.from, rows, a.groups)),
                        columns);
    find_starts(shared, a, first, height);
    ptx::barrier_sync();
    find_weights(shared, a, rows, tables);
    const T* grad = a.grad + plane * a.vertical.to * a.horizontal.to;
    T* dx = a.dx + (plane * a.vertical.from + first) * columns;
    const int band = a.groups * kFour;
    for (int row = 0; row < height; row += band) {
      if (row > 0) ptx::barrier_sync();
      const int groups = std::min(a.groups, divide_up(height - row, kFour));
      add_rows(shared, a, grad, first, row, groups, rows, tables.sums);
      ptx::barrier_sync();
      add_columns(shared, a, dx + int64_t{row} * columns, height - row, groups, rows, tables);
    }
  }

  static __host__ __device__ int64_t floats_of(int64_t columns, const RowsOfFour& rows,
                                               int groups) {
    return 2 * kWeights * columns + int64_t{groups} * rows.pitch();
  }

 private:
  static __device__ __forceinline__ float part_of_next(const LinearAxis& axis, int i, int pixel) {
    return axis.source(i) - static_cast<float>(pixel);
  }
  // Elements between a pixel and the next begin where places reach the pixel. A gap is known by the
  // pixel before it, counted from the one before the first, so that there is one above it.
  static __device__ __forceinline__ void find_starts(SharedStorage& shared, const Arguments& a,
                                                     int first, int height) {
    const int gaps = round_up(height, kFour) + 2;
    for (int i = thread_index(); i < gaps; i += kThreads) {
      const int pixel = first - 1 + i;
      const int begin = a.vertical.first_of(pixel);
      shared.gaps[i] = {
          begin,
          {part_of_next(a.vertical, begin, pixel), part_of_next(a.vertical, begin + 1, pixel)},
          0};
    }
    const LinearAxis& axis = a.horizontal;
    const auto gap_of = [&](int i) { return LinearAxis::before(axis.source(i)) + 1; };
    for (int i = thread_index(); i <= axis.to; i += kThreads) {
      const int before = i > 0 ? gap_of(i - 1) : -1;
      const int here = i < axis.to ? gap_of(i) : axis.from + 1;
#pragma unroll 1
      for (int gap = before + 1; gap <= here; ++gap) {
        shared.column_starts[gap] = static_cast<uint16_t>(i);
      }
    }
  }
  // Of columns that have fewer elements, the rest is zero times the zeros behind the last column.
  static __device__ __forceinline__ void find_weights(SharedStorage& shared, const Arguments& a,
                                                      const RowsOfFour& rows,
                                                      const Tables& tables) {
    const LinearAxis& axis = a.horizontal;
#pragma unroll 1
    for (int column = thread_index(); column < axis.from; column += kThreads) {
      const int begin = shared.column_starts[column];
      const int end = shared.column_starts[column + 2];
      Vec<float, kWeights> weights;
      Vec<int, kWeights> places;
#pragma unroll
      for (int i = 0; i < kWeights; ++i) {
        const bool has = begin + i < end;
        places[i] = rows.index(0, has ? begin + i : axis.to);
        weights[i] = has ? LinearAxis::weight(axis.source(begin + i), column) : 0;
      }
      tables.weights.template store<kWeights>(kWeights * column, weights);
      tables.places.template store<kWeights>(kWeights * column, places);
    }
#pragma unroll 1
    for (int i = thread_index(); i < a.groups; i += kThreads) {
      tables.sums.template store<kFour>(rows.index(i, axis.to), Vec<float, kFour>{});
    }
  }
  static __device__ __forceinline__ void add_rows(SharedStorage& shared, const Arguments& a,
                                                  const T* grad, int first, int row, int groups,
                                                  const RowsOfFour& rows, SharedSpan<float> sums) {
    const auto row_bytes = static_cast<uint32_t>(a.horizontal.to * sizeof(T));
    const uint32_t vectors = groups * a.vectors.divisor();
    for (uint32_t i = thread_index(); i < vectors; i += kThreads) {
      const auto group = static_cast<int>(a.vectors.quotient(i));
      const auto column = static_cast<int>(i - group * a.vectors.divisor()) * kWidth;
      const int above = row + group * kFour;
      Gap gaps[kGaps + 1];
#pragma unroll
      for (int g = 0; g <= kGaps; ++g) gaps[g] = shared.gaps[above + g];
      Vec<T, kWidth> read[kGaps][kAtOnce];
#pragma unroll
      for (int g = 0; g < kGaps; ++g) {
        const T* from = rows_below(grad + column, gaps[g].begin, row_bytes);
        const int count = gaps[g + 1].begin - gaps[g].begin;
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          if (k < count) read[g][k] = thread::load<kWidth>(rows_below(from, k, row_bytes));
        }
      }
      Vec<float, kWidth> sum[kFour]{};
#pragma unroll
      for (int g = 0; g < kGaps; ++g) {
        const auto add = [&](float weight, const Vec<T, kWidth>& values) {
          const Vec<float, kWidth> added = thread::convert<float>(values);
#pragma unroll
          for (int c = 0; c < kWidth; ++c) {
            if (g > 0) sum[g - 1][c] += (1 - weight) * added[c];
            if (g < kFour) sum[g][c] += weight * added[c];
          }
        };
        const int count = gaps[g + 1].begin - gaps[g].begin;
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          if (k < count) add(gaps[g].weight[k], read[g][k]);
        }
#pragma unroll 1
        for (int k = gaps[g].begin + kAtOnce; k < gaps[g + 1].begin; ++k) {
          add(part_of_next(a.vertical, k, first - 1 + above + g),
              thread::load<kWidth>(rows_below(grad + column, k, row_bytes)));
        }
      }
      const int at = rows.index(group, column);
#pragma unroll
      for (int c = 0; c < kWidth; ++c) {
        sums.template store<kFour>(at + kFour * c,
                                   Vec<float, kFour>{sum[0][c], sum[1][c], sum[2][c], sum[3][c]});
      }
    }
  }
  static __device__ __forceinline__ void add_columns(SharedStorage& shared, const Arguments& a,
                                                     T* to, int height, int groups,
                                                     const RowsOfFour& rows, const Tables& tables) {
    const auto lanes = static_cast<int>(a.lanes.divisor());
    const auto start = static_cast<int>(a.lanes.quotient(thread_index()));
    if (start >= a.side) return;
    const auto row_bytes = static_cast<uint32_t>(a.horizontal.from * sizeof(T));
    for (int pair = thread_index() - start * lanes; 2 * pair < a.horizontal.from; pair += lanes) {
      Column columns[2] = {Column(tables, 2 * pair), Column(tables, 2 * pair + 1)};
      T* dx = rows_below(to, start * kFour, row_bytes) + 2 * pair;
#pragma unroll 1
      for (int group = start; group < groups; group += a.side) {
        Vec<float, kFour> sum[2];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          sum[c] = columns[c].sum(tables.sums, group * rows.pitch());
          if (a.has_more) {
            add_more(shared, a.horizontal, tables.sums, rows, group, 2 * pair + c, sum[c]);
          }
        }
#pragma unroll
        for (int r = 0; r < kFour; ++r) {
          if (group * kFour + r < height) {
            thread::store(rows_below(dx, r, row_bytes),
                          thread::convert<T>(Vec<float, 2>{sum[0][r], sum[1][r]}));
          }
        }
        dx = rows_below(dx, a.side * kFour, row_bytes);
      }
    }
  }
  static __device__ __forceinline__ void add(float weight, SharedSpan<float> sums, int at,
                                             Vec<float, kFour>& sum) {
    const Vec<float, kFour> read = sums.template load<kFour>(at);
#pragma unroll
    for (int r = 0; r < kFour; ++r) sum[r] += weight * read[r];
  }
  // What the table has not.
  static __device__ __forceinline__ void add_more(SharedStorage& shared, const LinearAxis& axis,
                                                  SharedSpan<float> sums, const RowsOfFour& rows,
                                                  int group, int column, Vec<float, kFour>& sum) {
    const int end = shared.column_starts[column + 2];
#pragma unroll 1
    for (int i = shared.column_starts[column] + kWeights; i < end; ++i) {
      add(LinearAxis::weight(axis.source(i), column), sums, rows.index(group, i), sum);
    }
  }

  struct Column {
    Vec<float, kWeights> weights;
    Vec<int, kWeights> places;

    __device__ __forceinline__ Column(const Tables& tables, int column)
        : weights(tables.weights.template load<kWeights>(kWeights * column)),
          places(tables.places.template load<kWeights>(kWeights * column)) {}
    __device__ __forceinline__ Vec<float, kFour> sum(SharedSpan<float> sums, int group) const {
      Vec<float, kFour> sum{};
#pragma unroll
      for (int i = 0; i < kWeights; ++i) add(weights[i], sums, group + places[i], sum);
      return sum;
    }
  };
};

struct BilinearBackwardFours {
  static bool supports(const BackwardCall& call, Why& why) {
    using Kernel = BilinearBackwardFoursKernel<float>;
    return fits_bands(call, Kernel::kMostRead, why) &&
           why.unless(call.columns.from <= Kernel::kMostColumns, "takes up to ",
                      Kernel::kMostColumns, " columns of the result, not ", call.columns.from) &&
           why.unless(call.columns.from % 2 == 0 && is_aligned(call.out),
                      "writes pairs of columns, aligned to 16 bytes, not ", call.columns.from);
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BilinearBackwardFoursKernel<T>;
      // Four times as many as run at once, so that the last ones are few.
      const int64_t enough = int64_t{4} * Kernel::kMinBlocks * device_facts().multiprocessors;
      const RowsOfFour rows(static_cast<int>(call.columns.to));
      const int groups = rows.groups(
          std::min<int64_t>(divide_up(call.rows.from, int64_t{kFour}), Kernel::kMostRows / kFour));
      const int64_t band = int64_t{groups} * kFour;
      const int64_t bands = divide_up(call.rows.from, band);
      const int64_t of_block = std::clamp<int64_t>(call.planes() * bands / enough, 1,
                                                   std::min(bands, Kernel::kMostRows / band));
      const int64_t blocks = divide_up(bands, of_block);
      const int64_t lanes = std::min<int64_t>(call.columns.from / 2, Kernel::kThreads);
      launch<Kernel>({.blocks = call.planes() * blocks,
                      .threads = Kernel::kThreads,
                      .dynamic_shared = static_cast<size_t>(
                          Kernel::floats_of(call.columns.from, rows, groups) * sizeof(float))},
                     context.stream,
                     {.grad = static_cast<const T*>(call.in),
                      .dx = static_cast<T*>(call.out),
                      .groups = groups,
                      .rows_a_block = static_cast<int>(of_block * band),
                      .side = static_cast<int>(Kernel::kThreads / lanes),
                      .has_more = most_elements(LinearAxis(call.columns)) > Kernel::kWeights,
                      .blocks = thread::Divider(blocks),
                      .vectors = thread::Divider(call.columns.to / Kernel::kWidth),
                      .lanes = thread::Divider(lanes),
                      .vertical = LinearAxis(call.rows),
                      .horizontal = LinearAxis(call.columns)});
    });
  }

 private:
  // At most, of a pixel: those whose places lie less than one before or behind it, and what f32
  // rounds; of the outermost also what lies beyond.
  static float most_elements(const LinearAxis& axis) {
    const int outside = std::max(axis.end_with(0), axis.to - axis.first_with(axis.from - 1));
    return std::max(2 / axis.step + 0.01F, static_cast<float>(outside));
  }
};

inline constexpr Rung kBilinearBackwardFours =
    rung_of<BilinearBackwardFours, UpsampleBilinear2dBackward>({
        .name = "bilinear_backward_fours",
        .from = "bilinear_backward_bands",
        .idea = "a row of grad is read once for four rows of dx, which lie side by side",
    });

}  // namespace ws::upsample
