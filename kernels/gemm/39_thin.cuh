// Idea: a product with few rows, or few columns, is a read of the other operand. As in gemv a warp
//   takes rows of it, 512 bytes a load, several loads in flight; here each meets several vectors.
// From naive: no element of the long operand is read twice, and a warp adds up by shuffles.
// Traffic: the long operand once; the thin one once for the rows of a warp, from L1 and L2.
// Limits: M or N up to 2 (f32: 8): beyond that the CUDA cores do not keep up with memory. Both
//   operands' rows along K, at multiples of 16 bytes.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "kernels/gemm/policies.hpp"
#include "kernels/gemv/rows.hpp"

namespace ws::gemm {

// C = A B, A long, B thin.
template <class T, class Policy>
struct ThinKernel : Policy {
  static constexpr int kRows = Policy::kRows;
  static constexpr int kColumns = Policy::kColumns;
  static constexpr int kVectors = Policy::kVectors;
  static constexpr int kWarps = Policy::kThreads / kWarpSize;
  static constexpr int kWidth = row::kWidest<T>;
  using Vector = row::Packed<T, kWidth>;
  struct Arguments {
    const T* a;
    const T* b;
    T* c;
    int64_t a_leading, b_leading;
    int64_t c_row, c_column;  // strides
    int rows, columns, k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const int64_t first = (block_index() * kWarps + warp_index()) * kRows;
    if (first >= g.rows) return;
    // Rows and columns beyond the matrix are the last ones again: they are not stored.
    const T* a[kRows];
    const T* b[kColumns];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      a[r] = g.a + std::min<int64_t>(first + r, g.rows - 1) * g.a_leading;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) b[c] = g.b + std::min(c, g.columns - 1) * g.b_leading;

    gemv::Sums<kRows * kColumns> sums{};
    const int vectors = g.k / kWidth;
    for (int v = lane_index(); v < vectors; v += kVectors * kWarpSize) {
      Vector of_a[kRows][kVectors];
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const int vector = v + i * kWarpSize;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          of_a[r][i] =
              row::load_or_zeros<kWidth>(a[r] + int64_t{vector} * kWidth, vector < vectors);
        }
      }
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const int vector = v + i * kWarpSize;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const Vector of_b =
              row::load_or_zeros<kWidth>(b[c] + int64_t{vector} * kWidth, vector < vectors);
#pragma unroll
          for (int r = 0; r < kRows; ++r) sums[r * kColumns + c] += gemv::dot(of_a[r][i], of_b);
        }
      }
    }
    if (const int k = vectors * kWidth + lane_index(); k < g.k) {  // behind the last vectors
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float of_b = to_float(thread::load(b[c] + k));
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          float& sum = sums[r * kColumns + c];
          sum = thread::fma(to_float(thread::load(a[r] + k)), of_b, sum);
        }
      }
    }
    const auto totals = warp::all_reduce(sums, gemv::AddSums{});
#pragma unroll
    for (int i = 0; i < kRows * kColumns; ++i) {
      const int64_t row = first + i / kColumns;
      const int column = i % kColumns;
      if (lane_index() == i && row < g.rows && column < g.columns) {
        thread::store(g.c + row * g.c_row + column * g.c_column, from_float<T>(totals[i]));
      }
    }
  }

  // `call` is turned already, so that A is the long operand.
  static void run(const Call& call, Stream stream) {
    launch<ThinKernel>({.blocks = divide_up(call.m, kWarps * kRows), .threads = Policy::kThreads},
                       stream,
                       {.a = call.a.as<const T>(),
                        .b = call.b.as<const T>(),
                        .c = call.c.as<T>(),
                        .a_leading = call.a.leading,
                        .b_leading = call.b.leading,
                        .c_row = call.c.row,
                        .c_column = call.c.column,
                        .rows = static_cast<int>(call.m),
                        .columns = static_cast<int>(call.n),
                        .k = static_cast<int>(call.k)});
  }
};

// The call with its longer operand as A.
inline Call long_first(const Call& call) { return call.m < call.n ? transposed(call) : call; }

// f.template operator()<kColumns>(): how many columns the kernel for a call computes.
template <class F>
void with_columns(const Call& call, F&& f) {
  if (call.n == 1) return f.template operator()<1>();
  if (call.n == 2) return f.template operator()<2>();
  if (call.n <= 4) return f.template operator()<4>();
  f.template operator()<8>();
}

struct Thin {
  // 16-bit elements come twice as fast, and are converted.
  template <class T>
  static constexpr int kMostColumns = sizeof(T) == 4 ? 8 : 2;

  static bool supports(const Call& call, Why& why) {
    const Call turned = long_first(call);
    const int most = call.dtype == DType::kF32 ? kMostColumns<float> : kMostColumns<half>;
    return operands_can_be_copied(call, why) &&
           why.unless(turned.n <= most, "takes up to ", most, " rows or columns, not ", turned.n) &&
           why.unless(turned.a.contiguous == Contiguous::kColumns &&
                          turned.b.contiguous == Contiguous::kRows,
                      "takes operands whose rows run along K");
  }
  static void run(const Call& given, const Context& context) {
    const Call call = long_first(given);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      with_columns(call, [&]<int kColumns>() {
        if constexpr (kColumns <= kMostColumns<T>) {
          ThinKernel<T, ThinPolicy<thin_shape(kColumns), kColumns>>::run(call, context.stream);
        }
      });
    });
  }
};

}  // namespace ws::gemm
