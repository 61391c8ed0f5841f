// Idea: the row stays in registers from its sum to its output, which may be e4m3: a warp or a block
// holds it, in vectors of 16 bytes.
// From norm_any_layout: one pass over memory. A row's scale costs none: its largest magnitude is
// rstd times that of sum * weight, found beside the sum of squares, in one reduction of pairs.
// Traffic: two reads and two writes of x's dtype, or of the last a byte an element; parameters come
//   from L1 and L2, once a row.
// Limits: rows of whole vectors, aligned, up to 32 KiB.
// Long: two operations, whose rows go the same way.
#pragma once

#include "kernels/fused/12_norm_any_layout.cuh"
#include "kernels/fused/norm_totals.hpp"
#include "kernels/norm/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/row/packed.hpp"
#include "warpsmith/row/shape.hpp"

namespace ws::fused {

// kLanes threads share a row, kVectors vectors of 16 bytes each; registers are such that an SM
// holds kMinBlocks blocks, of 128 threads or of a row.
template <int kLanes_, int kVectors_, int kMinBlocks_>
struct NormShape {
  static constexpr int kLanes = kLanes_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int64_t kBytes = int64_t{16} * kLanes * kVectors;
};

// kFindsScale: each row's scale is found; else it is given, or there is none.
template <class T, bool kCentred, bool kResidual, bool kFindsScale, class Shape>
struct NormInRegistersKernel {
  static_assert(!kCentred || (kResidual && !kFindsScale));
  static constexpr int kLanes = Shape::kLanes;
  static constexpr int kVectors = Shape::kVectors;
  static constexpr bool kBlock = kLanes > kWarpSize;
  static constexpr int kThreads = kBlock ? kLanes : 128;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr int kRows = kThreads / kLanes;  // of a block
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kStep = kLanes * kWidth;  // elements from one vector of a thread to its next
  using Out = std::conditional_t<kCentred, T, e4m3>;
  using Packed = row::Packed<T, kWidth>;
  using Total = std::conditional_t<kFindsScale, SumAndMost, float>;
  using Combine = std::conditional_t<kFindsScale, Both, norm::Plus>;
  using Reduce = block::AllReduce<Total, kThreads>;
  struct Arguments {
    const T* x;
    const T* residual;
    const T* bias;
    const T* weight;
    const T* shift;
    Out* y;
    T* sum;
    int64_t strides[kNormOperands];
    int64_t rows;
    int vectors;  // of a row
    float inverse_columns;
    float eps;
    const float* scale;
    float* scales;
  };
  struct SharedStorage {
    typename Reduce::Storage totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Reduce reduce(shared.totals);
    const auto all = [&](Total value) {
      if constexpr (kBlock) {
        return reduce(value, Combine{});
      } else {
        return warp::all_reduce(value, Combine{});
      }
    };
    const int lane = kRows == 1 ? thread_index() : thread_index() % kLanes;
    int64_t r = block_index();
    int vectors = a.vectors;
    if constexpr (kRows > 1) {
      r = r * kRows + thread_index() / kLanes;
      if (r >= a.rows) r = 0, vectors = 0;  // its lanes still take part in the reductions
    }
    const auto holds = [&](int v) { return lane + v * kLanes < vectors; };
    // Where the thread's first vector is: the others are a constant further.
    const auto first = [&](auto* of, NormOperand k) {
      return of + r * a.strides[k] + lane * kWidth;
    };
    const auto parameter = [&](const T* of, int v) {
      return Packed::template load<Cache::kReadOnly>(of + lane * kWidth + v * kStep);
    };

    Packed h[kVectors];
    load(first(a.x, kNormX), holds, h);
    if constexpr (kResidual) {
      Packed other[kVectors];
      load(first(a.residual, kNormResidual), holds, other);
      T* sum = first(a.sum, kNormSum);
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (kCentred && !holds(v)) continue;
        Packed bias = Packed::filled(0.0F);
        if constexpr (kCentred) bias = parameter(a.bias, v);
        Vec<float, kWidth> added;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          added[i] = (kCentred ? h[v][i] + bias[i] : h[v][i]) + other[v][i];
        }
        const Vec<T, kWidth> sum_of = thread::convert<T>(added);
        h[v] = std::bit_cast<Packed>(sum_of);
        if (holds(v)) thread::store(sum + v * kStep, sum_of);
      }
    }
    // One parameter comes with x; two would take the registers of the next block, and are fetched
    // where they are used.
    Packed weight[kCentred ? 1 : kVectors];
    if constexpr (!kCentred) load<Cache::kReadOnly>(a.weight + lane * kWidth, holds, weight);

    float mean = 0;
    if constexpr (kCentred) {
      float total = 0;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {  // what a lane does not hold is 0
#pragma unroll
        for (int i = 0; i < kWidth; ++i) total += h[v][i];
      }
      mean = all(total) * a.inverse_columns;
    }
    float squares = 0;
    float most = 0;
    Vec<float, kWidth> z[kFindsScale ? kVectors : 1];  // times their weight
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (kCentred && !holds(v)) continue;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float away = kCentred ? h[v][i] - mean : h[v][i];
        squares = thread::fma(away, away, squares);
      }
      if constexpr (kFindsScale) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          z[v][i] = h[v][i] * weight[v][i];
          most = thread::max(most, ::fabsf(z[v][i]));
        }
      }
    }
    if constexpr (kFindsScale) {
      const SumAndMost total = all({squares, most});
      squares = total.sum;
      most = total.most;
    } else {
      squares = all(squares);
    }
    const float rstd = thread::rsqrt(thread::fma(squares, a.inverse_columns, a.eps));
    float factor = rstd;
    if constexpr (!kCentred) {
      const float scale = kFindsScale ? scale_of(rstd * most) : thread::load(a.scale);
      if (kFindsScale && lane == 0 && vectors > 0) thread::store(a.scales + r, scale);
      factor = rstd * (1 / scale);
    }

    Out* y = first(a.y, kNormY);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      Vec<float, kWidth> out;
      if constexpr (kCentred) {
        if (!holds(v)) continue;
        const Packed scale = parameter(a.weight, v);
        const Packed shift = parameter(a.shift, v);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          out[i] = thread::fma((h[v][i] - mean) * factor, scale[i], shift[i]);
        }
      } else {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          out[i] = kFindsScale ? z[v][i] * factor : h[v][i] * factor * weight[v][i];
        }
      }
      if (holds(v)) thread::store(y + v * kStep, rounded(out));
    }
  }

 private:
  // Of e4m3 four at once: of pairs the compiler puts the words together byte by byte.
  static __device__ __forceinline__ Vec<Out, kWidth> rounded(const Vec<float, kWidth>& value) {
    if constexpr (kCentred) {
      return thread::convert<Out>(value);
    } else {
      Vec<uint32_t, kWidth / 4> words;
#pragma unroll
      for (int w = 0; w < kWidth / 4; ++w) {
        words[w] = ptx::cvt_rn_satfinite_e4m3x4_f32(
            {value[4 * w], value[4 * w + 1], value[4 * w + 2], value[4 * w + 3]});
      }
      return std::bit_cast<Vec<Out, kWidth>>(words);
    }
  }

  // All loads are under way before anything waits for one.
  template <Cache kCache = Cache::kDefault, class Holds>
  static __device__ __forceinline__ void load(const T* first, const Holds& holds,
                                              Packed (&to)[kVectors]) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      to[v] = Packed::filled(0.0F);
      if (holds(v)) to[v] = Packed::template load<kCache>(first + v * kStep);
    }
  }
};

// A warp's rows need no barrier. The longer the row, the more threads: a thread pays a hundred
// instructions once, so that it holds two to eight vectors wherever a row has them. Shapes and
// ShapesOfFew are NormShape by capacity, the latter without a residual and with a scale that is
// given, which takes fewer registers.
template <class Shapes, class ShapesOfFew>
struct NormInRegisters {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.rows.row_bytes() <= Shapes::kMostBytes, "holds rows of up to ",
                      Shapes::kMostBytes, " bytes, not ", call.rows.row_bytes()) &&
           norm::vectors_supported(call.rows, call.dtype, why) &&
           norm::columns_supported(call.bias, "bias", why) &&
           norm::columns_supported(call.weight, "weight", why) &&
           norm::columns_supported(call.shift, "norm_bias", why) &&
           why.unless(call.scales.data[0] == nullptr || call.scales.outer == 0 ||
                          (call.scales.outer == 1 && call.scales.stride(0) == 1),
                      "takes scales that lie one after the other");
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      with_flags(call, [&]<bool kResidual, bool kFindsScale>() {
        constexpr bool kFew = !kResidual && !kFindsScale;
        std::conditional_t<kFew, ShapesOfFew, Shapes>::first_that_holds(
            call.rows.row_bytes(), [&]<class Shape>() {
              using Kernel =
                  NormInRegistersKernel<T, Call::kCentred, kResidual, kFindsScale, Shape>;
              launch_on<Kernel, T>(call, context);
            });
      });
    });
  }

 private:
  template <class Call, class F>
  static void with_flags(const Call& call, const F& f) {
    if constexpr (Call::kCentred) {
      f.template operator()<true, false>();
    } else {
      const bool has_residual = call.rows.data[kNormResidual] != nullptr;
      if (call.scale != nullptr) {
        has_residual ? f.template operator()<true, false>() : f.template operator()<false, false>();
      } else {
        has_residual ? f.template operator()<true, true>() : f.template operator()<false, true>();
      }
    }
  }
  template <class Kernel, class T, class Call>
  static void launch_on(const Call& call, const Context& context) {
    const auto& rows = call.rows;
    const auto column = [](const Columns& of) { return static_cast<const T*>(of.data); };
    typename Kernel::Arguments a{
        .x = rows.template as<const T>(kNormX),
        .residual = rows.template as<const T>(kNormResidual),
        .bias = column(call.bias),
        .weight = column(call.weight),
        .shift = column(call.shift),
        .y = rows.template as<typename Kernel::Out>(kNormY),
        .sum = rows.template as<T>(kNormSum),
        .strides = {},
        .rows = rows.rows,
        .vectors = static_cast<int>(rows.columns / Kernel::kWidth),
        .inverse_columns = 1.0F / static_cast<float>(rows.columns),
        .eps = call.eps,
        .scale = call.scale,
        .scales = static_cast<float*>(call.scales.data[0]),
    };
    for (int k = 0; k < kNormOperands; ++k) a.strides[k] = rows.stride(k);
    launch<Kernel>(
        {.blocks = divide_up(rows.rows, int64_t{Kernel::kRows}), .threads = Kernel::kThreads},
        context.stream, a);
  }
};

}  // namespace ws::fused
