// The rows of a call as the upper rungs take them: vectors of 16 bytes, all operands and parameters
// starting at a multiple of one.
#pragma once

#include "kernels/norm/operations.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/packed.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/moments.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::norm {

// A forward call.
template <class T>
struct Rows {
  const T* x;
  const T* residual;  // null: there is none; sum, weight, bias, mean and rstd likewise
  T* y;
  T* sum;
  int64_t x_stride;  // from row to row
  int64_t residual_stride;
  int64_t y_stride;
  int64_t sum_stride;
  int64_t count;
  int64_t vectors;  // of a row
  float* mean;
  float* rstd;
  const void* weight;
  const void* bias;
  bool f32_parameters;  // else of T
  float eps;
  float inverse_columns;
};

template <class T, bool kCentred>
Rows<T> rows_of(const ForwardCall<kCentred>& call) {
  const auto& rows = call.rows;
  const auto statistic = [&](int which) {
    return call.wants_statistics ? call.statistics.template as<float>(which) : nullptr;
  };
  return {.x = rows.template as<const T>(kX),
          .residual = rows.template as<const T>(kResidual),
          .y = rows.template as<T>(kY),
          .sum = rows.template as<T>(kSum),
          .x_stride = rows.stride(kX),
          .residual_stride = rows.stride(kResidual),
          .y_stride = rows.stride(kY),
          .sum_stride = rows.stride(kSum),
          .count = rows.rows,
          .vectors = rows.columns / row::kWidest<T>,
          .mean = statistic(kMean),
          .rstd = statistic(kRstd),
          .weight = call.weight.data,
          .bias = call.bias.data,
          .f32_parameters = call.parameter_dtype == DType::kF32,
          .eps = call.eps,
          .inverse_columns = 1.0F / static_cast<float>(rows.columns)};
}

// f.operator()<T, W>() with the types of a call's rows and parameters.
template <class Call, class F>
void with_types(const Call& call, const F& f) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    if (call.parameter_dtype == call.dtype) {
      f.template operator()<T, T>();
    } else if constexpr (!std::is_same_v<T, float>) {
      f.template operator()<T, float>();
    }
  });
}

// Statistics one after the other, or none.
inline bool statistics_supported(const RowLayout<kStatistics>& statistics, bool exist, Why& why) {
  const bool dense = statistics.outer == 0 || (statistics.outer == 1 && statistics.stride(0) == 1 &&
                                               statistics.stride(1) == 1);
  return why.unless(!exist || dense, "takes statistics that lie one after the other");
}
// Parameters in vectors, or none.
inline bool columns_supported(const Columns& columns, std::string_view name, Why& why) {
  return why.unless(columns.stride == 1 && reinterpret_cast<uintptr_t>(columns.data) % 16 == 0,
                    "takes a ", name,
                    " whose elements lie side by side from a multiple of 16 "
                    "bytes on");
}
inline bool vectors_supported(const auto& rows, DType dtype, Why& why) {
  const int width = static_cast<int>(16 / size_of(dtype));
  return rows_supported(rows, width, why) &&
         why.unless(rows.columns > 0 && rows_aligned(rows, width),
                    "takes rows of whole vectors of ", width,
                    " elements that start at a multiple of 16 bytes");
}
template <bool kCentred>
bool aligned_rows(const ForwardCall<kCentred>& call, Why& why) {
  return vectors_supported(call.rows, call.dtype, why) &&
         statistics_supported(call.statistics, call.wants_statistics, why) &&
         columns_supported(call.weight, "weight", why) && columns_supported(call.bias, "bias", why);
}

#if WS_DEVICE_CODE

struct Plus {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

// ---- Parameters -------------------------------------------------------------------------------

// A thread's weight and bias for kVectors vectors of a row. kEarly: those of x's dtype are fetched
// when this is made, while x is on its way; else, as those of f32, which would take twice the
// registers, when they are used.
template <class T, int kVectors, bool kHasBias, bool kEarly = (kVectors <= 4)>
class Parameters {
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kHeld = kEarly ? kVectors : 1;
  using Packed = row::Packed<T, kWidth>;

 public:
  // Vector v is at at(v), where holds(v).
  template <class At, class Holds>
  __device__ __forceinline__ Parameters(const Rows<T>& rows, const At& at, const Holds& holds)
      : rows_(rows) {
    if constexpr (kEarly) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        weight_[v] = Packed::filled(1.0F);
        if (is_packed(rows.weight) && holds(v)) weight_[v] = fetch(rows.weight, at(v));
      }
    }
    if constexpr (kEarly && kHasBias) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        bias_[v] = Packed::filled(0.0F);
        if (is_packed(rows.bias) && holds(v)) bias_[v] = fetch(rows.bias, at(v));
      }
    }
  }

  // Vector v, which is at `at`, of x scaled and shifted: z * weight + bias.
  __device__ __forceinline__ Vec<T, kWidth> apply(int v, int64_t at,
                                                  const Vec<float, kWidth>& z) const {
    Vec<float, kWidth> out;
    if constexpr (!std::is_same_v<T, float>) {
      if (rows_.f32_parameters) {
        Vec<float, kWidth> weight;
        Vec<float, kWidth> bias;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) weight[i] = 1.0F, bias[i] = 0.0F;
        if (rows_.weight != nullptr) weight = late(rows_.weight, at);
        if (kHasBias && rows_.bias != nullptr) bias = late(rows_.bias, at);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) out[i] = thread::fma(z[i], weight[i], bias[i]);
        return thread::convert<T>(out);
      }
    }
    Packed weight = Packed::filled(1.0F);
    Packed bias = Packed::filled(0.0F);
    if constexpr (kEarly) {
      weight = weight_[v];
      if constexpr (kHasBias) bias = bias_[v];
    } else {
      if (rows_.weight != nullptr) weight = fetch(rows_.weight, at);
      if (kHasBias && rows_.bias != nullptr) bias = fetch(rows_.bias, at);
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      out[i] = kHasBias ? thread::fma(z[i], weight[i], bias[i]) : z[i] * weight[i];
    }
    return thread::convert<T>(out);
  }

 private:
  __device__ __forceinline__ bool is_packed(const void* data) const {
    return data != nullptr && (std::is_same_v<T, float> || !rows_.f32_parameters);
  }
  __device__ __forceinline__ static Packed fetch(const void* data, int64_t at) {
    return Packed::template load<Cache::kReadOnly>(static_cast<const T*>(data) + at * kWidth);
  }
  __device__ __forceinline__ static Vec<float, kWidth> late(const void* data, int64_t at) {
    return thread::load<kWidth, Cache::kReadOnly>(static_cast<const float*>(data) + at * kWidth);
  }

  const Rows<T>& rows_;
  Packed weight_[kHeld];
  Packed bias_[kHasBias ? kHeld : 1];
};

// ---- Elements of a thread ---------------------------------------------------------------------

// A thread's vectors of x, or of x + residual as T rounds it. What it does not hold is 0.
template <class T, bool kResidual, int kVectors>
class Input {
  static constexpr int kWidth = row::kWidest<T>;

 public:
  using Packed = row::Packed<T, kWidth>;

  // All loads are issued before anything waits for one.
  template <class At, class Holds>
  __device__ __forceinline__ Input(const Rows<T>& rows, int64_t r, const At& at,
                                   const Holds& holds) {
    load(x, rows.x + r * rows.x_stride, at, holds);
    if constexpr (kResidual) load(residual_, rows.residual + r * rows.residual_stride, at, holds);
  }

  // Once they are wanted: adds, and stores the sum where it is an output.
  template <class At, class Holds>
  __device__ __forceinline__ void add(const Rows<T>& rows, int64_t r, const At& at,
                                      const Holds& holds) {
    if constexpr (kResidual) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        Vec<float, kWidth> sum;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) sum[i] = x[v][i] + residual_[v][i];
        const Vec<T, kWidth> rounded = thread::convert<T>(sum);
        x[v] = std::bit_cast<Packed>(rounded);
        if (rows.sum != nullptr && holds(v)) {
          thread::store(rows.sum + r * rows.sum_stride + at(v) * kWidth, rounded);
        }
      }
    }
  }

  Packed x[kVectors];

 private:
  template <class At, class Holds>
  __device__ __forceinline__ static void load(Packed (&to)[kVectors], const T* row, const At& at,
                                              const Holds& holds) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      to[v] = Packed::filled(0.0F);
      if (holds(v)) to[v] = Packed::load(row + at(v) * kWidth);
    }
  }

  Packed residual_[kResidual ? kVectors : 1];
};

// How totals of several warps are one.
template <bool kCentred>
struct Totals;
template <>
struct Totals<true> {
  using Total = thread::Moments;
  using Merge = warp::MergeMoments;
  using MergeAll = warp::MergeMomentsOf;  // of a whole row: its elements are known
  __device__ __forceinline__ static Total none() { return Total::none(); }
};
template <>
struct Totals<false> {
  using Total = float;
  using Merge = Plus;
  struct MergeAll : Plus {
    __device__ __forceinline__ explicit MergeAll(float /*columns*/) {}
  };
  __device__ __forceinline__ static Total none() { return 0.0F; }
};

// A thread's total while it takes its vectors of a row: of layer_norm distances from its first
// element, so that one pass is enough and nothing cancels; of rms_norm squares.
template <bool kCentred>
class Running {
 public:
  template <class Packed>
  __device__ __forceinline__ void add(const Packed& x, bool is_first) {
    constexpr int kWidth = Packed::kWords * Packed::kPerWord;
    if (kCentred && is_first) pivot_ = x[0];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float away = kCentred ? x[i] - pivot_ : x[i];
      if constexpr (kCentred) sum_ += away;
      squares_ = thread::fma(away, away, squares_);
    }
    if constexpr (kCentred) count_ += kWidth;
  }
  // Of kLanes lanes, which hold `count` elements of the row together.
  template <int kLanes>
  __device__ __forceinline__ typename Totals<kCentred>::Total of_lanes(float count) const {
    if constexpr (kCentred) {
      const auto mine = thread::from_pivot(count_, pivot_, sum_, squares_);
      return warp::merge_lanes<kLanes>(mine, count);
    } else {
      return warp::all_reduce<kLanes>(squares_, Plus{});
    }
  }

 private:
  float pivot_ = 0;
  float sum_ = 0;
  float squares_ = 0;
  float count_ = 0;
};

// The total of kLanes lanes' kVectors vectors, given to each of them: vector(v) where holds(v),
// `count` elements together, see warp_count().
template <bool kCentred, int kLanes, int kVectors, class Vector, class Holds>
__device__ __forceinline__ auto total_of(const Vector& vector, const Holds& holds, float count) {
  Running<kCentred> mine;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (holds(v)) mine.add(vector(v), v == 0);
  }
  return mine.template of_lanes<kLanes>(count);
}

// The same of lanes that hold a whole row. Two sums one after the other, which take fewer
// instructions than one pass: of a short row each thread has little else to do.
template <bool kCentred, int kLanes, class T, class Packed, int kVectors, class Holds>
__device__ __forceinline__ auto total_of_row(const Rows<T>& rows, const Packed (&x)[kVectors],
                                             const Holds& holds) {
  constexpr int kWidth = row::kWidest<T>;
  float sum = 0;
  if constexpr (kCentred) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {  // what a lane does not hold is 0
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum += x[v][i];
    }
    sum = warp::all_reduce<kLanes>(sum, Plus{});
  }
  const float mean = sum * rows.inverse_columns;
  float squares = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (kCentred && !holds(v)) continue;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float away = kCentred ? x[v][i] - mean : x[v][i];
      squares = thread::fma(away, away, squares);
    }
  }
  squares = warp::all_reduce<kLanes>(squares, Plus{});
  if constexpr (kCentred) {
    return thread::Moments{0.0F, mean, squares, 0.0F};
  } else {
    return squares;
  }
}

// What a row's outputs are made with.
template <bool kCentred>
struct Normal {
  float mean = 0;
  float rstd;

  template <class T>
  __device__ __forceinline__ Normal(const Rows<T>& rows,
                                    const typename Totals<kCentred>::Total& t) {
    float squares = 0;
    if constexpr (kCentred) {
      mean = t.mean;
      squares = t.squares;
    } else {
      squares = t;
    }
    rstd = thread::rsqrt(thread::fma(squares, rows.inverse_columns, rows.eps));
  }
  __device__ __forceinline__ float operator()(float x) const {
    return kCentred ? (x - mean) * rstd : x * rstd;
  }
  // By one thread of a row.
  template <class T>
  __device__ __forceinline__ void store_statistics(const Rows<T>& rows, int64_t row) const {
    if (kCentred && rows.mean != nullptr) thread::store(rows.mean + row, mean);
    if (rows.rstd != nullptr) thread::store(rows.rstd + row, rstd);
  }
};

// A thread's vectors of y.
template <class T, class Packed, int kVectors, class Normal, class Parameters, class At,
          class Holds>
__device__ __forceinline__ void store_row(const Rows<T>& rows, int64_t r,
                                          const Packed (&x)[kVectors], const Normal& normal,
                                          const Parameters& parameters, const At& at,
                                          const Holds& holds) {
  constexpr int kWidth = row::kWidest<T>;
  T* y = rows.y + r * rows.y_stride;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (!holds(v)) continue;
    Vec<float, kWidth> z;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) z[i] = normal(x[v][i]);
    thread::store(y + at(v) * kWidth, parameters.apply(v, at(v), z));
  }
}

// Elements that a warp holds of `vectors` which `threads` threads share, kVectors each.
template <int kVectors, int kWidth>
__device__ __forceinline__ float warp_count(int vectors, int threads) {
  int held = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int left = vectors - (warp_index() * kWarpSize + v * threads);
    held += left < 0 ? 0 : (left < kWarpSize ? left : kWarpSize);
  }
  return static_cast<float>(held * kWidth);
}

#endif

}  // namespace ws::norm
