// Idea: rows of x come to shared memory as they are, by themselves, while those before are mixed. A
// thread has two columns of the result and goes down the rows of x: it mixes each along once, and
// from it and the one before makes the rows of the result that lie between them.
// From bilinear_bands: the first sums are kept in registers, not written to shared memory and read
// again by fours; elements lie there as they are; loads do not wait for sums, nor sums for loads.
// Traffic: each element once, a row or two of a block's again; 16 KiB of a block on their way
// in 16 bits, 8 of f32.
// Limits: contiguous planes, rows of x in whole vectors, aligned to 16 bytes, those of the result
// in pairs, up to 1024 columns; up to 2^20 rows.
// Long: a pair's columns by words where elements are of 16 bits.
#pragma once

#include "kernels/upsample/rows_ahead.hpp"

namespace ws::upsample {

template <class T>
struct BilinearAheadKernel {
  static constexpr int kThreads = 512;  // at most
  static constexpr int kMinBlocks = 2;
  static constexpr int kMostRows = 128;
  static constexpr int kPlanes = kPlanesAtOnce<T>;
  struct Arguments {
    const T* x;
    T* out;             // y
    RowParts<T> parts;  // up to kMostRows
    RowStages stage;
    LinearAxis vertical;
    LinearAxis horizontal;
  };
  struct alignas(8) Row {
    int upper;     // the row of x at or before it
    float weight;  // of the next one
  };
  struct SharedStorage {
    SharedArray<Row, kMostRows> rows;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto part = a.parts.part();
    for (int i = thread_index(); i < part.rows; i += block_threads()) {
      const float source = a.vertical.source(part.first + i);
      const int upper = LinearAxis::before(source);
      shared.rows[i] = Row{upper, source - static_cast<float>(upper)};
    }
    const int top = LinearAxis::before(a.vertical.source(part.first));
    const int last = LinearAxis::before(a.vertical.source(part.first + part.rows - 1)) + 1;

    const SharedSpan<T> stages = dynamic_shared<T>(shared, int64_t{kPlanes} * a.stage.of_plane());
    const int column = 2 * thread_index();
    const bool has_columns = column < a.horizontal.to;
    const Pair columns(a.horizontal, column);
    const int64_t of_x = int64_t{a.vertical.from} * a.horizontal.from;
    const int64_t of_y = int64_t{a.vertical.to} * a.horizontal.to;
    T* y = a.out + part.plane * of_y + int64_t{part.first} * a.horizontal.to + column;
    int next = 0;  // row of the block
    Vec<float, 2> upper[kPlanes]{};
    Vec<float, 2> lower[kPlanes]{};
    // The rows of the result whose lower row this is.
    const auto write = [&](int row) {
      for (; next < part.rows; ++next, y += a.horizontal.to) {
        const Row of = shared.rows[next];
        if (of.upper >= row) return;
#pragma unroll
        for (int p = 0; p < kPlanes; ++p) {
          Vec<float, 2> mixed;
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            mixed[c] = (1 - of.weight) * upper[p][c] + of.weight * lower[p][c];
          }
          if (has_columns && p < part.planes)
            thread::store(y + p * of_y, thread::convert<T>(mixed));
        }
      }
    };
    const auto go_down = [&] {
#pragma unroll
      for (int p = 0; p < kPlanes; ++p) upper[p] = lower[p];
    };
    for_rows_ahead(a.x + part.plane * of_x, of_x, part.planes, top,
                   std::min(last + 1, a.vertical.from), a.stage, stages, [&](int row, int at) {
                     go_down();
                     columns.mix(stages, at, a.stage.of_plane(), lower);
                     write(row);
                   });
    // Below the last row of x it is there again.
    if (last == a.vertical.from) {
      go_down();
      write(last);
    }
  }

 private:
  // Two neighbouring columns of the result.
  struct AnyPair {
    int left[2];
    int right[2];
    float weight[2];  // of the right one

    __device__ __forceinline__ AnyPair(const LinearAxis& axis, int column) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const float source = axis.source(column + c);
        left[c] = LinearAxis::before(source);
        right[c] = axis.after(source);
        weight[c] = source - static_cast<float>(left[c]);
      }
    }
    __device__ __forceinline__ void mix(SharedSpan<T> stages, int at, int of_plane,
                                        Vec<float, 2> (&mixed)[kPlanes]) const {
#pragma unroll
      for (int p = 0; p < kPlanes; ++p, at += of_plane) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          mixed[p][c] =
              between(c, to_float(T{stages[at + left[c]]}), to_float(T{stages[at + right[c]]}));
        }
      }
    }
    __device__ __forceinline__ float between(int c, float a, float b) const {
      return (1 - weight[c]) * a + weight[c] * b;
    }
  };
  // Of 16 bits, where all four lie in two words, as those of a result do that is no smaller.
  struct NearPair {
    AnyPair any;
    int word;  // below 0: they do not
    uint32_t taken[2];

    __device__ __forceinline__ NearPair(const LinearAxis& axis, int column) : any(axis, column) {
      const int first = std::min(any.left[0] / 2, axis.from / 2 - 2);
      const auto place = [&](int element) { return element - 2 * first; };
      word = thread::forget(place(any.right[1]) < 4 ? first : -1);
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        taken[c] = thread::forget(halves(place(any.left[c]), place(any.right[c])));
      }
    }
    __device__ __forceinline__ void mix(SharedSpan<T> stages, int at, int of_plane,
                                        Vec<float, 2> (&mixed)[kPlanes]) const {
      if (word < 0) return any.mix(stages, at, of_plane, mixed);
      const SharedSpan<uint32_t> words = words_of(stages);
      int first = (at >> 1) + word;
#pragma unroll
      for (int p = 0; p < kPlanes; ++p, first += of_plane >> 1) {
        const uint32_t low = words[first];
        const uint32_t high = words[first + 1];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const auto sides = floats_of<T>(ptx::permute_bytes(low, high, taken[c]));
          mixed[p][c] = any.between(c, sides[0], sides[1]);
        }
      }
    }
  };
  using Pair = std::conditional_t<sizeof(T) == 2, NearPair, AnyPair>;
};

struct BilinearAhead {
  static bool supports(const ForwardCall& call, Why& why) {
    constexpr int64_t kMost = 2 * BilinearAheadKernel<float>::kThreads;
    constexpr int64_t kMostRows = int64_t{1} << 20;
    const int64_t width = width_of(call);
    return is_dense(call, why) &&
           why.unless(call.columns.from <= kMost && call.columns.to <= kMost, "takes up to ", kMost,
                      " columns, not ", call.columns.from, " and ", call.columns.to) &&
           why.unless(call.rows.from <= kMostRows && call.rows.to <= kMostRows, "takes up to 2^20",
                      " rows, not ", call.rows.from, " and ", call.rows.to) &&
           why.unless(call.columns.from % width == 0 && is_aligned(call.in),
                      "reads whole vectors of ", width, " columns, aligned to 16 bytes, not ",
                      call.columns.from) &&
           why.unless(call.columns.to % 2 == 0 && is_aligned(call.out),
                      "writes pairs of columns, aligned to 16 bytes, not ", call.columns.to) &&
           is_counted(call.planes() * call.rows.to, why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BilinearAheadKernel<T>;
      launch_ahead<Kernel>(call.columns.to, context,
                           {.x = static_cast<const T*>(call.in),
                            .out = static_cast<T*>(call.out),
                            .parts = RowParts<T>(call.planes(), call.rows.to, Kernel::kMostRows),
                            .stage = RowStages(call.columns.from, sizeof(T)),
                            .vertical = LinearAxis(call.rows),
                            .horizontal = LinearAxis(call.columns)});
    });
  }
};

inline constexpr Rung kBilinearAhead = rung_of<BilinearAhead, UpsampleBilinear2d>({
    .name = "bilinear_ahead",
    .from = "bilinear_bands",
    .idea = "rows of x come as they are while those before are mixed, along and then down",
});

}  // namespace ws::upsample
