// Idea: a thread for each element of the result, over any strides.
// From nothing.
// Traffic: every input read once an output element.
#pragma once

#include "tests/trial/operations.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/thread/divide.hpp"

#if WS_DEVICE_CODE
namespace ws::trial {

// Place in memory of a tensor's i-th element.
__device__ __forceinline__ int64_t place_of(const Tensor& tensor, int64_t i) {
  int64_t place = 0;
  for (int d = tensor.rank - 1; d >= 0; --d) {
    const auto at = static_cast<size_t>(d);
    place += i % tensor.shape[at] * tensor.strides[at];
    i /= tensor.shape[at];
  }
  return place;
}

template <class T>
__device__ __forceinline__ T& at(const Tensor& tensor, int64_t i) {
  return static_cast<T*>(tensor.data)[place_of(tensor, i)];
}

// work(i) for each i below count.
template <class Work>
struct Each {
  static constexpr int kThreads = 64;
  struct Arguments {
    Work work;
    int64_t count;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * block_threads() + thread_index();
    if (i < a.count) a.work(i);
  }

  static void run(const Work& work, int64_t count, const Context& context) {
    if (count == 0) return;
    launch<Each>({.blocks = divide_up(count, int64_t{kThreads}), .threads = kThreads},
                 context.stream, {work, count});
  }
};

template <class T>
struct FindMax {
  RowMax::Call call;
  __device__ void operator()(int64_t row) const {
    const int64_t columns = call.x.shape[static_cast<size_t>(call.x.rank - 1)];
    int64_t best = 0;
    for (int64_t c = 1; c < columns; ++c) {
      if (to_float(at<T>(call.x, row * columns + c)) >
          to_float(at<T>(call.x, row * columns + best))) {
        best = c;
      }
    }
    at<T>(call.value, row) = at<T>(call.x, row * columns + best);
    at<int64_t>(call.place, row) = best;
  }
};

template <class T>
struct WeighRow {
  Weigh::Call call;
  __device__ void operator()(int64_t row) const {
    const int64_t columns = call.x.shape[static_cast<size_t>(call.x.rank - 1)];
    float sum = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const float weight = call.weight.rank >= 0 ? to_float(at<T>(call.weight, c)) : 1.0F;
      const float y = to_float(at<T>(call.x, row * columns + c)) * weight;
      at<T>(call.y, row * columns + c) = from_float<T>(y);
      sum += y;
    }
    if (call.total.rank >= 0) at<float>(call.total, row) = sum;
  }
};

template <class T>
struct ScaleOne {
  ScaleInPlace::Call call;
  __device__ void operator()(int64_t i) const {
    T& x = at<T>(call.x, i);
    x = from_float<T>(to_float(x) * call.factor);
  }
};

template <class T>
struct SumOne {
  Total::Call call;
  __device__ void operator()(int64_t i) const {
    int64_t count = 1;
    for (int d = 0; d < call.reduced.rank; ++d) count *= call.reduced.shape[static_cast<size_t>(d)];
    const T* const x = static_cast<const T*>(call.kept.data) + place_of(call.kept, i);
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += to_float(x[place_of(call.reduced, k)]);
    at<float>(call.y, i) = sum;
  }
};

struct ShiftOne {
  Shift::Call call;
  __device__ void operator()(int64_t i) const {
    at<int64_t>(call.y, i) = at<int64_t>(call.x, i) + call.by;
  }
};

template <class T>
struct ClipOne {
  Clip::Call call;
  __device__ void operator()(int64_t i) const {
    const float x = to_float(at<T>(call.x, i));
    at<T>(call.y, i) = from_float<T>(x < call.low ? call.low : (x > call.high ? call.high : x));
  }
};

template <class T>
struct TakeOne {
  Take::Call call;
  IndexCheck check;
  __device__ void operator()(int64_t i) const {
    const int64_t index = at<int64_t>(call.index, i);
    if (check(index, i)) at<T>(call.y, i) = at<T>(call.x, index);
  }
};

struct Plain {
  template <template <class> class Work, class Call, class... More>
  static void each(DType dtype, int64_t count, const Context& context, const Call& call,
                   const More&... more) {
    with_type<kFloats>(dtype,
                       [&]<class T>() { Each<Work<T>>::run({call, more...}, count, context); });
  }

  static void run(const RowMax::Call& call, const Context& context) {
    each<FindMax>(call.x.dtype, call.value.elements(), context, call);
  }
  static void run(const Weigh::Call& call, const Context& context) {
    const int64_t columns = call.x.extent(call.x.rank - 1);
    each<WeighRow>(call.x.dtype, columns == 0 ? 0 : call.x.elements() / columns, context, call);
  }
  static void run(const ScaleInPlace::Call& call, const Context& context) {
    each<ScaleOne>(call.x.dtype, call.x.elements(), context, call);
  }
  static void run(const Total::Call& call, const Context& context) {
    each<SumOne>(call.kept.dtype, call.y.elements(), context, call);
  }
  static void run(const Shift::Call& call, const Context& context) {
    Each<ShiftOne>::run({call}, call.y.elements(), context);
  }
  static void run(const Clip::Call& call, const Context& context) {
    each<ClipOne>(call.x.dtype, call.y.elements(), context, call);
  }
  static void run(const Take::Call& call, const Context& context) {
    each<TakeOne>(call.x.dtype, call.y.elements(), context, call,
                  IndexCheck("take/plain", "index", call.x.extent(0)));
  }
};

inline constexpr Rung kPlain =
    rung_of<Plain, RowMax, Weigh, ScaleInPlace, Total, Shift, Clip, Take>(
        {.name = "plain", .idea = "a thread for each element of the result"});

}  // namespace ws::trial
#endif
