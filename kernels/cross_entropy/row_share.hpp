// RowShare: a thread's part of a row in its registers, from its logits to its gradient.
#pragma once

#include <type_traits>

#include "kernels/cross_entropy/rows.hpp"
#include "warpsmith/cluster/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::cross_entropy {

// kKeepsExponentials: in f32, in place of the logits, so that the gradient takes none of its own;
// else logits stay as they came, in half the registers where they have 16 bits.
template <class T, class Share, bool kKeepsExponentials>
class RowShare {
 public:
  // All loads are issued before anything waits for one.
  __device__ __forceinline__ RowShare(const Share& share, const T* row) : share_(share) {
    held_.load(share, row, -thread::kInfinity);
  }
  // From where they have been staged: the thread's vectors and edges by number.
  template <class Vector, class Edge>
  __device__ __forceinline__ RowShare(const Share& share, const Vector& vector, const Edge& edge)
      : share_(share) {
    held_.load(share, -thread::kInfinity, vector, edge);
  }

  // Of kTogether neighbouring lanes, given to each: the maximum first, so that an exponential is
  // taken once.
  template <int kTogether>
  __device__ __forceinline__ Total total(const Formula& formula) {
    const auto larger = [](float l, float r) { return fmaxf(l, r); };
    const auto plus = [](float l, float r) { return l + r; };
    Total total;
    total.max = warp::all_reduce<kTogether>(held_.largest(), larger);
    const thread::ShiftedExp exp(thread::finite_or_zero(total.max));
    if (formula.smooths()) {
      held_.stay_packed();
      const auto x = held_.values();
#pragma unroll
      for (int i = 0; i < Share::kElements; ++i) total.plain += holds(i) ? x[i] : 0.0F;
      total.plain = warp::all_reduce<kTogether>(total.plain, plus);
    }
    held_.stay_packed();
    const auto x = held_.values();
#pragma unroll
    for (int first = 0; first < Share::kElements; first += Share::kWidth) {
      float sum = 0;  // sums of few wait less for one another
#pragma unroll
      for (int i = first; i < first + Share::kWidth && i < Share::kElements; ++i) {
        const float e = exp(x[i]);  // of padding 0
        sum += e;
        if constexpr (kKeepsExponentials) exponentials_[i] = e;
      }
      total.sum += sum;
    }
    total.sum = warp::all_reduce<kTogether>(total.sum, plus) * exp.factor();
    max_ = total.max;
    factor_ = exp.factor();
    return total;
  }

  // To the row at `to`, of which the thread has the same part, after total().
  __device__ __forceinline__ void store_gradient(T* to, const Factors& factors,
                                                 const Total& total) const {
    static_assert(kKeepsExponentials);
    const float scale = factors.exponentials * factor_ * thread::fast_exp(max_ - total.max) *
                        thread::reciprocal(total.sum);
    row::store(share_, to,
               [&](int i) { return thread::fma(exponentials_[i], scale, -factors.every); });
  }
  // ... of logits.
  __device__ __forceinline__ void store_gradient(T* to, const Gradient& gradient) const {
    const auto x = held_.values();
    row::store(share_, to, [&](int i) { return gradient(x[i]); });
  }
  __device__ __forceinline__ void store_zeros(T* to) const {
    row::store(share_, to, [](int) { return 0.0F; });
  }

 private:
  __device__ __forceinline__ bool holds(int i) const {
    const int edge = i - Share::kVectors * Share::kWidth;
    return edge < 0 ? share_.holds(i / Share::kWidth) : share_.holds_edge(edge);
  }

  Share share_;
  row::Held<T, Share> held_;
  thread::Tile<float, kKeepsExponentials ? Share::kElements : 1> exponentials_;
  float max_ = 0;  // of `exponentials_`, see ShiftedExp
  float factor_ = 1;
};

// Whether a column of the row is one of the thread's, where its part begins `first` elements after
// the vectors do. It reads the target's logit before it writes it itself, so that nobody has to
// wait.
template <class Share>
__device__ __forceinline__ bool has_column(const Share& share, int column, int first = 0) {
  const int inner = column - share.cut.head;
  const auto body = static_cast<int>(share.cut.body);
  if (Share::kFit == Fit::kAnywhere && (inner < 0 || inner >= body)) {
    const int edge = inner < 0 ? column : column - body;
    return edge < share.cut.edges && edge % Share::kLanes == share.lane;
  }
  const int place = inner - first;
  if (place < 0) return false;
  const auto vector = static_cast<int>(static_cast<uint32_t>(place) / Share::kWidth);
  return vector < share.vectors && vector % Share::kLanes == share.lane;
}

// What belongs to a row beside its logits.
struct Numbers {
  int64_t target;
  float dloss;

  template <class T>
  __device__ __forceinline__ static Numbers load(const Rows<T>& rows, int64_t row) {
    return {rows.targets.load(row * rows.strides[kTarget]), rows.dloss_of(row)};
  }
};

// What a thread makes of them, once it is known to whom the target's column belongs.
template <class T>
class Beside {
 public:
  // Before the row may be written. `leads`: by one thread of the row; has(column): whether this
  // thread has that column, whose logit logit(column) gives.
  template <class Has, class Logit>
  __device__ __forceinline__ Beside(const Rows<T>& rows, int64_t row, const Numbers& numbers,
                                    bool leads, const Has& has, const Logit& logit)
      : target_(rows.targets.judged(numbers.target, row, leads)),
        dloss_(numbers.dloss),
        leads_(leads) {
    if (!target_.counts()) return;
    weight_ = rows.formula.weight_of(target_.index);
    has_target_ = has(static_cast<int>(target_.index));
    if (has_target_) logit_ = logit(static_cast<int>(target_.index));
  }

  __device__ __forceinline__ void store_loss(const Rows<T>& rows, int64_t row,
                                             const Total& total) const {
    if (has_target_) rows.store_loss(row, total, logit_, weight_);
    if (leads_ && target_.is_ignored) rows.store_numbers(row, 0, 0);
  }
  // `first`: of the thread's part, in elements after the row's vectors begin. `of`: the row's Total
  // or its lse.
  template <class Part, class Of>
  __device__ __forceinline__ void store_gradient(const Rows<T>& rows, int64_t row, const Of& of,
                                                 const Part& part, int64_t first = 0) const {
    T* to = rows.gradient + row * rows.gradient_stride;
    const auto lse = [&] {
      if constexpr (std::is_same_v<Of, Total>) {
        return of.lse();
      } else {
        return of;
      }
    };
    if (target_.counts()) {
      const Factors factors = rows.formula.factors(dloss_, weight_, rows.formula.columns, lse);
      if constexpr (std::is_same_v<Of, Total>) {
        part.store_gradient(to + first, factors, of);
      } else {
        part.store_gradient(to + first, Gradient(factors, of));
      }
      if (has_target_) thread::store(to + target_.index, from_float<T>(of_target(factors, of)));
    } else if (target_.is_ignored) {
      part.store_zeros(to + first);
    }
  }

 private:
  // The target's element, made as its row's others are: by the lse, which is rounded as the logits
  // are large, or without it.
  __device__ __forceinline__ float of_target(const Factors& factors, float lse) const {
    return Gradient(factors, lse).of_target(logit_);
  }
  __device__ __forceinline__ float of_target(const Factors& factors, const Total& total) const {
    const thread::ShiftedExp exp(total.max);
    const float share = exp(logit_) * exp.factor() * thread::reciprocal(total.sum);
    return thread::fma(factors.exponentials, share, -factors.every - factors.target);
  }

  Target target_;
  float dloss_;
  bool leads_;
  bool has_target_ = false;  // this thread writes the target's column
  float logit_ = 0;          // of the target, where it does
  float weight_ = 0;
};

}  // namespace ws::cross_entropy
#endif
