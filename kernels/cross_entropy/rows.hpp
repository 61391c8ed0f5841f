// The rows of a call as kernels see them: targets, what a row's loss and gradient are made of.
#pragma once

#include "kernels/cross_entropy/operations.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/held.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/shifted_exp.hpp"
#include "warpsmith/warp/max_sum.hpp"

namespace ws::cross_entropy {

using row::Fit;
using row::kWidest;

// In accesses of 16 bytes.
inline int widest(const Call& call) { return static_cast<int>(16 / size_of(call.dtype)); }

// ---- Which rungs take a call --------------------------------------------------------------------

// A number a row at one stride, each of those that there are.
inline bool numbers_supported(const Call& call, Why& why) {
  return why.unless(call.numbers.outer <= 1, "takes numbers of rows at one stride");
}
// As textbook rungs have it: rows one after the other, and nothing but targets.
inline bool is_dense_and_plain(const Call& call, Why& why) {
  const auto& rows = call.rows;
  for (size_t k = 0; static_cast<int>(k) < rows.operands; ++k) {
    const bool follow = rows.rows <= 1 || (rows.outer == 1 && rows.strides[k][0] == rows.columns);
    if (!why.unless(follow && rows.inner[k] == 1, "takes contiguous rows")) return false;
  }
  return numbers_supported(call, why) &&
         why.unless(call.is_plain(), "has no weights, label_smoothing or z_loss");
}
// Rows in accesses of 16 bytes.
inline bool vectors_supported(const Call& call, Why& why) {
  return rows_supported(call.rows, widest(call), why) && numbers_supported(call, why) &&
         why.unless(!call.weighs_all_classes(), "takes label_smoothing without weights");
}
// The same of rows that are whole vectors.
inline bool aligned_vectors_supported(const Call& call, Why& why) {
  return vectors_supported(call, why) &&
         why.unless(call.rows.columns > 0 && rows_aligned(call.rows, widest(call)),
                    "takes rows of whole vectors of ", widest(call),
                    " elements that start at a multiple of 16 bytes");
}

#if WS_DEVICE_CODE

// ---- Targets ------------------------------------------------------------------------------------

struct Target {
  int64_t index;
  bool is_ignored;
  bool is_right;  // a class, or ignored

  __device__ __forceinline__ bool counts() const { return is_right && !is_ignored; }
};

class Targets {
 public:
  Targets() = default;
  // `rung` is of static storage.
  Targets(const Call& call, const char* rung)
      : data_(call.numbers.data[kTarget]),
        is_wide_(call.wide_targets),
        ignored_(call.ignore_index),
        classes_(call.rows.columns),
        check_(rung, "target", call.rows.columns) {}

  // The one `offset` elements from the first. Who reports says so of each wrong one; the others
  // only leave its row alone.
  __device__ __forceinline__ Target at(int64_t offset, int64_t row, bool reports) const {
    return judged(load(offset), row, reports);
  }
  // In two parts, so that other work covers the way from memory.
  __device__ __forceinline__ int64_t load(int64_t offset) const {
    return is_wide_ ? thread::load(static_cast<const int64_t*>(data_) + offset)
                    : thread::load(static_cast<const int32_t*>(data_) + offset);
  }
  __device__ __forceinline__ Target judged(int64_t index, int64_t row, bool reports) const {
    if (index == ignored_) return {index, true, true};
    if (reports) return {index, false, check_(index, row)};
    return {index, false, index >= 0 && index < classes_};
  }

 private:
  const void* data_ = nullptr;
  bool is_wide_ = true;
  int64_t ignored_ = -100;
  int64_t classes_ = 0;
  IndexCheck check_;
};

// ---- Loss and gradient --------------------------------------------------------------------------

// What a row's logits add up to; of no logits at first.
struct alignas(16) Total {
  float max = -thread::kInfinity;
  float sum = 0;    // of exp(x - max)
  float plain = 0;  // of x, of weight * x where all classes have a weight
  float weights = 0;

  // The maximum's own exponential may be a bit less than 1, and no loss is less than 0.
  __device__ __forceinline__ float lse() const {
    return max + thread::log(sum < 1.0F ? 1.0F : sum);
  }
};
// `logits`: whether those themselves are added up, which only a smoothed loss needs.
struct Merge {
  bool logits = true;

  template <int kLanes>
  __device__ __forceinline__ Total over_lanes(const Total& mine) const {
    const auto plus = [](float l, float r) { return l + r; };
    const thread::MaxSum both =
        warp::MergeMaxSum{}.template over_lanes<kLanes>({mine.max, mine.sum});
    Total total{both.max, both.sum};
    if (logits) {
      total.plain = warp::all_reduce<kLanes>(mine.plain, plus);
      total.weights = warp::all_reduce<kLanes>(mine.weights, plus);
    }
    return total;
  }
};

// What a gradient is made of: exponentials * exp(x - lse) - every * w[c], less `target` in the
// target's column. Who writes that column's element writes it once more: to ask of each whether it
// is the one would be two instructions an element.
struct Factors {
  float exponentials = 0;
  float every = 0;
  float target = 0;
};
class Gradient {
 public:
  Gradient() = default;
  __device__ __forceinline__ Gradient(const Factors& factors, float lse)
      : exp_(lse), scale_(factors.exponentials * exp_.factor()), factors_(factors) {}

  __device__ __forceinline__ float operator()(float x) const {
    return thread::fma(scale_, exp_(x), -factors_.every);
  }
  __device__ __forceinline__ float of_target(float x) const {
    return thread::fma(scale_, exp_(x), -factors_.every - factors_.target);
  }

 private:
  thread::ShiftedExp exp_{0};
  float scale_ = 0;
  Factors factors_;
};

struct Formula {
  float of_target;  // 1 - label_smoothing
  float of_each;    // label_smoothing / V
  float z_loss;
  float columns;
  float scale;
  const float* weight;
  int64_t weight_stride;

  Formula() = default;
  explicit Formula(const Call& call)
      : of_target(1 - call.label_smoothing),
        of_each(call.label_smoothing / static_cast<float>(call.rows.columns)),
        z_loss(call.z_loss),
        columns(static_cast<float>(call.rows.columns)),
        scale(call.scale),
        weight(call.weight),
        weight_stride(call.weight_stride) {
    if (call.label_smoothing == 0) of_each = 0;  // also of no columns
  }

  __device__ __forceinline__ float weight_of(int64_t c) const {
    return weight == nullptr ? 1.0F : thread::load(weight + c * weight_stride);
  }
  // `all`: of all weights.
  __device__ __forceinline__ float loss(float lse, float of_target_logit, float target_weight,
                                        float plain, float all) const {
    float loss = of_target * target_weight * (lse - of_target_logit);
    if (of_each != 0) loss = thread::fma(of_each, thread::fma(all, lse, -plain), loss);
    if (z_loss != 0) loss = thread::fma(z_loss * lse, lse, loss);
    return loss;
  }
  // Of a row whose logarithm lse() gives, where it is asked for.
  template <class Lse>
  __device__ __forceinline__ Factors factors(float dloss, float target_weight, float all,
                                             const Lse& lse) const {
    const float g = dloss * scale;
    const float target = of_target * target_weight;
    float exponentials = thread::fma(of_each, all, target);
    if (z_loss != 0) exponentials = thread::fma(2 * z_loss, lse(), exponentials);
    return {g * exponentials, g * of_each, g * target};
  }
  __device__ __forceinline__ Gradient gradient(float lse, float dloss, float target_weight,
                                               float all) const {
    return {factors(dloss, target_weight, all, [&] { return lse; }), lse};
  }
  __device__ __forceinline__ bool smooths() const { return of_each != 0; }
};

// ---- Rows at one stride -------------------------------------------------------------------------

// A call whose rows, and numbers of rows, lie at one stride each.
template <class T>
struct Rows {
  const T* logits;
  T* gradient;
  int64_t stride;
  int64_t gradient_stride;
  int64_t count;
  int64_t columns;
  Targets targets;
  Formula formula;
  float* loss;
  float* lse;
  const float* dloss;  // null: 1
  int64_t strides[kNumbers];

  __device__ __forceinline__ Target target(int64_t row, bool reports) const {
    return targets.at(row * strides[kTarget], row, reports);
  }
  __device__ __forceinline__ float dloss_of(int64_t row) const {
    return dloss == nullptr ? 1.0F : thread::load(dloss + row * strides[kDloss]);
  }
  __device__ __forceinline__ void store_numbers(int64_t row, float its_loss, float its_lse) const {
    thread::store(loss + row * strides[kLoss], its_loss);
    thread::store(lse + row * strides[kLse], its_lse);
  }
  // Of a row that counts, where not all classes have a weight.
  __device__ __forceinline__ void store_loss(int64_t row, const Total& total, float target_logit,
                                             float target_weight) const {
    const float its_lse = total.lse();
    store_numbers(row,
                  formula.loss(its_lse, target_logit, target_weight, total.plain, formula.columns),
                  its_lse);
  }
};

template <class T>
Rows<T> rows_of(const Call& call, const char* rung) {
  Rows<T> rows{};
  rows.logits = call.rows.template as<const T>(kLogits);
  rows.gradient = call.rows.template as<T>(kGradient);
  rows.stride = call.rows.stride(kLogits);
  rows.gradient_stride = call.rows.stride(kGradient);
  rows.count = call.rows.rows;
  rows.columns = call.rows.columns;
  rows.targets = Targets(call, rung);
  rows.formula = Formula(call);
  rows.loss = call.numbers.template as<float>(kLoss);
  rows.lse = call.numbers.template as<float>(kLse);
  rows.dloss = call.numbers.template as<const float>(kDloss);
  for (int k = 0; k < kNumbers; ++k) rows.strides[k] = call.numbers.stride(k);
  return rows;
}

// A thread's part of a row while it goes through it: the maximum moves once for several elements.
// Logits themselves are added up where the loss is smoothed.
class Running {
 public:
  __device__ __forceinline__ explicit Running(const Formula& formula)
      : adds_logits_(formula.smooths()) {}

  template <class T, int kVectors>
  __device__ __forceinline__ void add(const row::Packed<T, kWidest<T>> (&vectors)[kVectors]) {
    constexpr int kWidth = kWidest<T>;
    add<kVectors * kWidth>(row::largest(vectors),
                           [&](int i) { return vectors[i / kWidth][i % kWidth]; });
  }
  __device__ __forceinline__ void add_one(float x) {
    add<1>(x, [&](int /*i*/) { return x; });
  }

  __device__ __forceinline__ Total total() const { return {total_.max, total_.sum, plain_, 0}; }

 private:
  template <int N, class At>
  __device__ __forceinline__ void add(float largest, const At& at) {
    total_ = thread::add<N>(total_, largest, at);
    if (adds_logits_) {
#pragma unroll
      for (int i = 0; i < N; ++i) plain_ += at(i);
    }
  }

  bool adds_logits_;
  thread::MaxSum total_ = thread::MaxSum::none();
  float plain_ = 0;
};

// Which of `threads` threads has a column, where each takes vectors i, i + threads, ... of a row
// and likewise the elements of its edges. It reads the target's logit before it writes it itself,
// so that nobody has to wait.
template <int kWidth, Fit kFit>
__device__ __forceinline__ int thread_of(const row::Cut<kWidth, kFit>& cut, int64_t column,
                                         int threads) {
  const int64_t inner = column - cut.head;
  int64_t at = inner / kWidth;
  if (inner < 0) at = column;
  if (inner >= cut.body) at = column - cut.body;
  return static_cast<int>(at % threads);
}

// By kThreads threads: a row, kTile vectors at a time of each, and its edges.
template <int kThreads, int kTile, class T>
__device__ __forceinline__ Total read_row(const T* x, int64_t columns, const Formula& formula) {
  constexpr int kWidth = kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  const row::Cut<kWidth> cut(x, columns);
  const T* body = x + cut.head;
  Running running(formula);
  if (thread_index() < cut.edges) {
    running.add_one(to_float(thread::load(x + cut.edge(thread_index()))));
  }
  int64_t v = thread_index();
  for (; v + (kTile - 1) * kThreads < cut.vectors; v += kTile * kThreads) {
    Packed vectors[kTile];
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
      vectors[i] = Packed::load(body + (v + i * kThreads) * kWidth);
    }
    running.add<T>(vectors);
  }
  // What is left is on its way together too.
  Packed rest[kTile - 1];
#pragma unroll
  for (int i = 0; i < kTile - 1; ++i) {
    if (v + i * kThreads < cut.vectors) {
      rest[i] = Packed::load(body + (v + i * kThreads) * kWidth);
    }
  }
#pragma unroll
  for (int i = 0; i < kTile - 1; ++i) {
    if (v + i * kThreads < cut.vectors) {
      const Packed one[1] = {rest[i]};
      running.add<T>(one);
    }
  }
  return running.total();
}

#endif

}  // namespace ws::cross_entropy
