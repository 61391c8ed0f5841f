// Idea: the row stays in registers from its sum to its output, which may be e4m3: a warp or a block
// holds it, in vectors of 16 bytes.
// From norm_any_layout: one pass over memory. A row's scale costs none: its largest magnitude is
// rstd times that of sum * weight, found beside the sum of squares, in one reduction of pairs.
// Traffic: two reads and two writes of x's dtype, or of the last a byte an element; parameters come
//   from L1 and L2, once a row.
// Limits: rows of whole vectors, aligned, up to 32 KiB.
// Long: two operations, whose rows go the same way.
#include "kernels/fused/12_norm_any_layout.cuh"
#include "kernels/norm/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/row/packed.hpp"
#include "warpsmith/row/shape.hpp"

namespace ws::fused {
namespace {

// The sum of squares of a row, and the largest magnitude of what is quantised but for rstd.
struct SumAndMost {
  float sum;
  float most;
};
struct Both {
  __device__ __forceinline__ SumAndMost operator()(SumAndMost p, SumAndMost q) const {
    return {p.sum + q.sum, thread::max(p.most, q.most)};
  }
};

template <class T, bool kCentred, int kLanes, int kVectors>
struct NormInRegistersKernel {
  static constexpr bool kBlock = kLanes > kWarpSize;
  static constexpr int kThreads = kBlock ? kLanes : 128;
  static constexpr int kRows = kThreads / kLanes;  // of a block
  static constexpr int kWidth = row::kWidest<T>;
  using Out = std::conditional_t<kCentred, T, e4m3>;
  using Packed = row::Packed<T, kWidth>;
  using Total = std::conditional_t<kCentred, float, SumAndMost>;
  using Combine = std::conditional_t<kCentred, norm::Plus, Both>;
  using Reduce = block::AllReduce<Total, kThreads>;
  struct Arguments {
    const T* x;
    const T* residual;  // null: none
    const T* bias;
    const T* weight;
    const T* shift;
    Out* y;
    T* sum;  // null: none
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
    const int lane = thread_index() % kLanes;
    int64_t r = block_index() * kRows + thread_index() / kLanes;
    const bool exists = r < a.rows;
    if (!exists) r = 0;  // its lanes still take part in the reductions
    const auto holds = [&](int v) { return exists && lane + v * kLanes < a.vectors; };
    const auto at = [&](int v) { return (lane + v * kLanes) * kWidth; };

    Packed h[kVectors];
    read(a, r, holds, at, h);
    Vec<float, kWidth> z[kVectors];  // what is normalised, then times its weight
    float mean = 0;
    Total total{};
    if constexpr (kCentred) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {  // what a lane does not hold is 0
#pragma unroll
        for (int i = 0; i < kWidth; ++i) total += h[v][i];
      }
      mean = all(total) * a.inverse_columns;
      total = 0;
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!holds(v)) continue;
      Packed weight = Packed::filled(1.0F);
      if constexpr (!kCentred) weight = Packed::load(a.weight + at(v));
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float away = h[v][i] - mean;
        if constexpr (kCentred) {
          total = thread::fma(away, away, total);
        } else {
          total.sum = thread::fma(away, away, total.sum);
          z[v][i] = away * weight[i];
          total.most = thread::max(total.most, ::fabsf(z[v][i]));
        }
      }
    }
    total = all(total);
    float squares = 0;
    if constexpr (kCentred) {
      squares = total;
    } else {
      squares = total.sum;
    }
    const float rstd = thread::rsqrt(thread::fma(squares, a.inverse_columns, a.eps));
    float factor = rstd;
    if constexpr (!kCentred) {
      const float scale = a.scale != nullptr ? thread::load(a.scale) : scale_of(rstd * total.most);
      if (a.scales != nullptr && exists && lane == 0) thread::store(a.scales + r, scale);
      factor = rstd * (1 / scale);
    }
    write(a, r, holds, at, h, z, mean, factor);
  }

 private:
  template <class Holds, class At>
  static __device__ __forceinline__ void read(const Arguments& a, int64_t r, const Holds& holds,
                                              const At& at, Packed (&h)[kVectors]) {
    const T* x = a.x + r * a.strides[kNormX];
    const T* residual = a.residual + r * a.strides[kNormResidual];
    Packed other[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      h[v] = Packed::filled(0.0F);
      other[v] = Packed::filled(0.0F);
      if (holds(v)) h[v] = Packed::load(x + at(v));
      if (a.residual != nullptr && holds(v)) other[v] = Packed::load(residual + at(v));
    }
    if (a.sum == nullptr) return;
    T* sum = a.sum + r * a.strides[kNormSum];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!holds(v)) continue;
      Packed bias = Packed::filled(0.0F);
      if constexpr (kCentred) bias = Packed::load(a.bias + at(v));
      Vec<float, kWidth> added;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) added[i] = h[v][i] + bias[i] + other[v][i];
      const Vec<T, kWidth> rounded = thread::convert<T>(added);
      h[v] = std::bit_cast<Packed>(rounded);
      thread::store(sum + at(v), rounded);
    }
  }

  template <class Holds, class At>
  static __device__ __forceinline__ void write(const Arguments& a, int64_t r, const Holds& holds,
                                               const At& at, const Packed (&h)[kVectors],
                                               Vec<float, kWidth> (&z)[kVectors], float mean,
                                               float factor) {
    Out* y = a.y + r * a.strides[kNormY];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!holds(v)) continue;
      if constexpr (kCentred) {
        const Packed weight = Packed::load(a.weight + at(v));
        const Packed shift = Packed::load(a.shift + at(v));
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          z[v][i] = thread::fma((h[v][i] - mean) * factor, weight[i], shift[i]);
        }
      } else {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) z[v][i] *= factor;
      }
      thread::store(y + at(v), thread::convert<Out>(z[v]));
    }
  }
};

// Lanes x vectors. A warp's rows need no barrier; 16 KiB leave half of the last shape's idle.
using Shapes = row::ShapeList<row::Shape<32, 4>, row::Shape<128, 4>, row::Shape<512, 4>>;

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
      Shapes::first_that_holds(call.rows.row_bytes(), [&]<int kLanes, int kVectors>() {
        launch_on<NormInRegistersKernel<T, Call::kCentred, kLanes, kVectors>, T>(call, context);
      });
    });
  }

 private:
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

}  // namespace

extern const Rung kNormInRegisters;
const Rung kNormInRegisters = rung_of<NormInRegisters, BiasResidualLayerNorm, RmsNormQuantized>({
    .name = "norm_in_registers",
    .from = "norm_any_layout",
    .idea = "the row in registers from sum to output; its scale from the reduction of its squares",
});

}  // namespace ws::fused
