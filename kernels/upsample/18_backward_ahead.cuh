// Idea: rows of grad come to shared memory as they are, by themselves, while those before are added
// up. A thread has two neighbouring columns of dx and goes down the rows of grad: a pixel's sum is
// in a register until the last row of its copies has been added.
// From backward_bands: sums downwards are not written to shared memory and read again, elements lie
// there in half the bytes of 16 bits; loads do not wait for sums, nor sums for loads.
// Traffic: each element once; 16 KiB of a block on their way in 16 bits, 8 of f32.
// Limits: contiguous planes of up to 1024 columns, 4096 of grad, those in whole vectors, aligned to
// 16 bytes, those of dx in pairs.
// Long: a pair's copies by words where elements are of 16 bits.
#pragma once

#include "kernels/upsample/rows_ahead.hpp"
#include "kernels/upsample/starts.hpp"

namespace ws::upsample {

template <class T>
struct BackwardAheadKernel {
  static constexpr int kThreads = 512;  // at most
  static constexpr int kMinBlocks = 2;
  static constexpr int kPlanes = kPlanesAtOnce<T>;
  static constexpr int kColumns = 2;  // of a thread
  static constexpr int kMostColumns = kColumns * kThreads;
  static constexpr int kMostRead = 4096;
  static constexpr int kMostRows = 64;
  struct Arguments {
    const T* grad;
    T* out;             // dx
    RowParts<T> parts;  // of dx, up to kMostRows
    int from;           // columns of dx
    RowStages stage;
    Axis vertical;
    ShortAxis horizontal;
    thread::Divider height;  // rows of a plane of dx
  };
  struct SharedStorage {
    SharedArray<int, kMostRows + 1> row_starts;
    SharedArray<uint16_t, kMostColumns + 1> column_starts;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto part = a.parts.part();
    find_row_starts(shared.row_starts.span(), a.vertical, a.height, part.first, part.rows);
    find_column_starts(shared.column_starts.span(), a.horizontal, a.from, a.stage.columns);
    ptx::barrier_sync();

    const SharedSpan<T> stages = dynamic_shared<T>(shared, int64_t{kPlanes} * a.stage.of_plane());
    const int column = kColumns * thread_index();
    const bool has_columns = column < a.from;
    const Pair pair(shared.column_starts.span(), has_columns ? column : 0, a.stage.columns);
    const int64_t of_grad = a.vertical.to * a.stage.columns;
    const int64_t of_dx = a.vertical.from * a.from;
    T* dx = a.out + part.plane * of_dx + int64_t{part.first} * a.from + column;
    Vec<float, kColumns> sum[kPlanes]{};
    int next = 0;                    // row of the block
    int end = shared.row_starts[1];  // of its copies
    // Rows whose copies all lie before `row`; of some there are none.
    const auto write = [&](int row) {
      while (next < part.rows && end <= row) {
#pragma unroll
        for (int p = 0; p < kPlanes; ++p) {
          if (has_columns && p < part.planes)
            thread::store(dx + p * of_dx, thread::convert<T>(sum[p]));
          sum[p] = {};
        }
        dx += a.from;
        if (++next < part.rows) end = shared.row_starts[next + 1];
      }
    };
    const int top = shared.row_starts[0];
    write(top);
    for_rows_ahead(a.grad + part.plane * of_grad, of_grad, part.planes, top,
                   shared.row_starts[part.rows], a.stage, stages, [&](int row, int at) {
                     pair.add(stages, at, a.stage.of_plane(), sum);
                     write(row + 1);
                   });
  }

 private:
  // Copies of two neighbours, one behind the other in a row of grad.
  struct AnyPair {
    int begin;
    int count[kColumns];

    __device__ __forceinline__ AnyPair(SharedSpan<uint16_t> starts, int column, int /*columns*/ = 0)
        : begin(starts[column]) {
      const int middle = starts[column + 1];
      count[0] = middle - begin;
      count[1] = starts[column + 2] - middle;
    }
    __device__ __forceinline__ void add(SharedSpan<T> stages, int at, int of_plane,
                                        Vec<float, kColumns> (&sum)[kPlanes]) const {
#pragma unroll
      for (int p = 0; p < kPlanes; ++p) add(stages, at + begin + p * of_plane, sum[p]);
    }
    __device__ __forceinline__ void add(SharedSpan<T> stages, int at,
                                        Vec<float, kColumns>& sum) const {
#pragma unroll
      for (int c = 0; c < kColumns; ++c, at += count[0]) {
        // Most have one copy or two, which need no loop.
        if (count[c] > 0) sum[c] += to_float(T{stages[at]});
        if (count[c] > 1) sum[c] += to_float(T{stages[at + 1]});
#pragma unroll 1
        for (int i = 2; i < count[c]; ++i) sum[c] += to_float(T{stages[at + i]});
      }
    }
  };
  // Of 16 bits, where each has one copy or two: these lie in three words, or in the last two of a
  // row, of which two permutations take them.
  struct NearPair {
    AnyPair any;
    int word;   // the first of two neighbours; below 0: not so
    int other;  // the one before or behind the second of them
    uint32_t taken[kColumns];
    uint32_t kept[kColumns];  // without what is no copy

    __device__ __forceinline__ NearPair(SharedSpan<uint16_t> starts, int column, int columns)
        : any(starts, column) {
      const auto& count = any.count;
      const bool is_near = std::min(count[0], count[1]) >= 1 && std::max(count[0], count[1]) <= 2;
      const int low = std::min(any.begin / 2, columns / 2 - 2);
      const int first = any.begin - 2 * low;
      const int second = first + count[0];
      word = thread::forget(is_near ? low : -1);
      taken[0] = thread::forget(halves(first, first + 1));
      // Of the second word, and of the first or the third.
      other = thread::forget(second == 1 ? low : std::min(low + 2, columns / 2 - 1));
      taken[1] = thread::forget(second == 1 ? halves(3, 0) : halves(second - 2, second - 1));
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        kept[c] = thread::forget(count[c] > 1 ? 0xFFFFFFFFU : 0xFFFFU);
      }
    }
    __device__ __forceinline__ void add(SharedSpan<T> stages, int at, int of_plane,
                                        Vec<float, kColumns> (&sum)[kPlanes]) const {
      if (word < 0) return any.add(stages, at, of_plane, sum);
      const SharedSpan<uint32_t> words = words_of(stages);
      int first = (at >> 1) + word;
      int third = (at >> 1) + other;
#pragma unroll
      for (int p = 0; p < kPlanes; ++p, first += of_plane >> 1, third += of_plane >> 1) {
        const uint32_t low = words[first];
        const uint32_t middle = words[first + 1];
        const uint32_t high = words[third];
        const uint32_t pairs[kColumns] = {ptx::permute_bytes(low, middle, taken[0]) & kept[0],
                                          ptx::permute_bytes(middle, high, taken[1]) & kept[1]};
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const Vec<float, 2> copies = floats_of<T>(pairs[c]);
          sum[p][c] += copies[0];
          sum[p][c] += copies[1];
        }
      }
    }
  };
  using Pair = std::conditional_t<sizeof(T) == 2, NearPair, AnyPair>;
};

struct BackwardAhead {
  static bool supports(const BackwardCall& call, Why& why) {
    using Kernel = BackwardAheadKernel<float>;
    return fits_bands(call, Kernel::kMostRead, why) &&
           why.unless(call.columns.from <= Kernel::kMostColumns, "takes up to ",
                      Kernel::kMostColumns, " columns of the result, not ", call.columns.from) &&
           why.unless(call.columns.from % 2 == 0 && is_aligned(call.out),
                      "writes pairs of columns, aligned to 16 bytes, not ", call.columns.from);
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardAheadKernel<T>;
      launch_ahead<Kernel>(call.columns.from, context,
                           {.grad = static_cast<const T*>(call.in),
                            .out = static_cast<T*>(call.out),
                            .parts = RowParts<T>(call.planes(), call.rows.from, Kernel::kMostRows),
                            .from = static_cast<int>(call.columns.from),
                            .stage = RowStages(call.columns.to, sizeof(T)),
                            .vertical = call.rows,
                            .horizontal = ShortAxis(call.columns),
                            .height = thread::Divider(call.rows.from)});
    });
  }
};

inline constexpr Rung kBackwardAhead = rung_of<BackwardAhead, UpsampleNearest2dBackward>({
    .name = "backward_ahead",
    .from = "backward_bands",
    .idea = "rows of grad come as they are while those before are added up, sums in registers",
});

}  // namespace ws::upsample
