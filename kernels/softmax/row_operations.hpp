// What kernels do with a row: each operation as a class, for kernels written once for all of them.
//
// A row operation makes one Total of a row's elements, then each output from its element and the
// Total. An Element is one float of each of kInputs inputs; an operation that is kMasked makes it
// of those floats and the element's mask, in prepare(). Beyond a row (`inside` is false) inputs are
// kPadding and the mask is false. kMaskInTotal: whether the mask changes the Total; gradients have
// it in their y.
#pragma once

#include <type_traits>

#include "kernels/softmax/operations.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/thread/shifted_exp.hpp"
#include "warpsmith/warp/max_sum.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

using thread::fast_exp;
using thread::kInfinity;
using thread::MaxSum;
using thread::Tile;

template <int kInputs>
using Values = Tile<float, kInputs>;

// y = exp(x - max) / sum, or its logarithm; input: x.
template <bool kLogarithm>
struct Forward {
  static constexpr int kInputs = 1;
  static constexpr bool kMasked = false;
  static constexpr bool kMaskInTotal = false;
  static constexpr float kPadding = -kInfinity;  // an input that changes no total
  using Element = Values<1>;
  using Total = MaxSum;
  using Exp = std::conditional_t<kLogarithm, thread::DifferenceExp, thread::ShiftedExp>;

  __device__ __forceinline__ static Total none() { return MaxSum::none(); }
  __device__ __forceinline__ static Total merge(const Total& a, const Total& b) {
    return thread::merge(a, b);
  }
  using Merge = warp::MergeMaxSum;
  __device__ __forceinline__ static Total add(const Total& total, const Element& x) {
    return thread::add(total, x[0]);
  }

  // The Total of the elements of kLanes neighbouring lanes, given to each of them; softmax leaves
  // exp(x - their maximum), but for its Exp's factor, in place of x, so that end() needs no
  // second exponential.
  template <int kLanes = 1, int N>
  __device__ __forceinline__ static Total begin(Tile<Element, N>& tile) {
    const auto larger = [](float a, float b) { return fmaxf(a, b); };
    const float max = warp::all_reduce<kLanes>(
        fold(tile, -kInfinity, [&](float m, const Element& x) { return larger(m, x[0]); }), larger);
    const Exp exp(thread::finite_or_zero(max));
    float sum = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float e = exp(tile[i][0]);
      sum += e;
      if constexpr (!kLogarithm) tile[i][0] = e;
    }
    sum = warp::all_reduce<kLanes>(sum, [](float a, float b) { return a + b; });
    return {max, sum * exp.factor()};
  }

  // The output for an element of a row with this Total.
  class Exponential {
   public:
    __device__ __forceinline__ explicit Exponential(const Total& total)
        : exp_(total.max), scale_(exp_.factor() / total.sum) {}
    __device__ __forceinline__ float operator()(const Element& x) const {
      return exp_(x[0]) * scale_;
    }

   private:
    Exp exp_;
    float scale_;
  };
  class Logarithm {
   public:
    __device__ __forceinline__ explicit Logarithm(const Total& total)
        : max_(total.max), scale_(logf(total.sum)) {}
    __device__ __forceinline__ float operator()(const Element& x) const {
      return (x[0] - max_) - scale_;
    }

   private:
    float max_;
    float scale_;
  };
  using Finish = std::conditional_t<kLogarithm, Logarithm, Exponential>;

  // The same for what `begin` left; `mine` is the Total that it returned.
  class ScaleByTotal {
   public:
    __device__ __forceinline__ ScaleByTotal(const Total& mine, const Total& total)
        : factor_(Exp(thread::finite_or_zero(mine.max)).factor() * fast_exp(mine.max - total.max) *
                  (1.0F / total.sum)) {}
    __device__ __forceinline__ float operator()(const Element& left) const {
      return left[0] * factor_;
    }

   private:
    float factor_;
  };
  __device__ __forceinline__ static auto end(const Total& mine, const Total& total) {
    if constexpr (kLogarithm) {
      return Finish(total);
    } else {
      return ScaleByTotal(mine, total);
    }
  }
};

// dx = (g - sum(g y)) y, of log_softmax dx = g - exp(y) sum(g); inputs: g, the gradient of the
// output, and y, the output.
template <bool kLogarithm>
struct Backward {
  static constexpr int kInputs = 2;
  static constexpr bool kMasked = false;
  static constexpr bool kMaskInTotal = false;
  static constexpr float kPadding = 0;
  using Element = Values<2>;
  using Total = float;

  __device__ __forceinline__ static Total none() { return 0; }
  __device__ __forceinline__ static Total merge(Total a, Total b) { return a + b; }
  struct Merge {
    __device__ __forceinline__ Total operator()(Total a, Total b) const { return a + b; }
  };
  template <int N>
  __device__ __forceinline__ static Total add(Total total, const Values<N>& v) {
    return kLogarithm ? total + v[0] : fmaf(v[0], v[1], total);
  }
  template <int kLanes = 1, int M, int N>
  __device__ __forceinline__ static Total begin(Tile<Values<M>, N>& tile) {
    return warp::all_reduce<kLanes>(fold(tile, none(), add<M>), merge);
  }

  class Finish {
   public:
    __device__ __forceinline__ explicit Finish(Total total) : total_(total) {}
    __device__ __forceinline__ float operator()(const Element& v) const {
      return kLogarithm ? v[0] - fast_exp(v[1]) * total_ : (v[0] - total_) * v[1];
    }

   private:
    float total_;
  };
  __device__ __forceinline__ static Finish end(Total /*mine*/, Total total) {
    return Finish(total);
  }
};

// y = softmax(mask ? scale x : fill); input: x.
struct ScaleMaskForward : Forward<false> {
  static constexpr bool kMasked = true;
  static constexpr bool kMaskInTotal = true;

  float scale;
  float fill;

  __device__ __forceinline__ Element prepare(const Values<1>& x, bool keep,
                                             bool inside = true) const {
    return {{keep ? x[0] * scale : (inside ? fill : kPadding)}};
  }
};

// dx = mask ? scale (g - sum(g y)) y : 0; inputs: g and y.
struct ScaleMaskBackward : Backward<false> {
  static constexpr bool kMasked = true;
  using Element = Values<3>;  // scale g, y, 1 or 0 as the mask

  float scale;

  __device__ __forceinline__ Element prepare(const Values<2>& v, bool keep,
                                             bool /*inside*/ = true) const {
    return {{v[0] * scale, v[1], keep ? 1.0F : 0.0F}};
  }

  class Finish {
   public:
    __device__ __forceinline__ explicit Finish(Total total) : total_(total) {}
    __device__ __forceinline__ float operator()(const Element& v) const {
      return v[2] != 0 ? (v[0] - total_) * v[1] : 0.0F;
    }

   private:
    float total_;
  };
  __device__ __forceinline__ static Finish end(Total /*mine*/, Total total) {
    return Finish(total);
  }
};

}  // namespace ws::softmax
#endif
