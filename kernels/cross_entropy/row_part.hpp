// A block's part of a row that a cluster shares: what it adds up to, and its gradient.
#pragma once

#include "kernels/cross_entropy/rows.hpp"
#include "warpsmith/cluster/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::cross_entropy {

// Thread i of kThreads has vectors i, i + kThreads, ... of the part, which begins with vector
// number `first` of the row. held(v) gives its v-th: from registers, or from shared memory once
// more.
template <class T, int kThreads, int kVectors, class Held>
class RowPart {
  static constexpr int kWidth = kWidest<T>;
  static constexpr int kTile = 4;
  static_assert(kVectors % kTile == 0);

 public:
  __device__ __forceinline__ RowPart(int64_t first, int vectors, const Held& held)
      : first_(first), vectors_(vectors), held_(held) {}

  // Of the threads of a warp.
  __device__ __forceinline__ Total of_warp() const {
    Running running;
#pragma unroll
    for (int t = 0; t < kVectors; t += kTile) {
      if (holds(t + kTile - 1)) {
        row::Packed<T, kWidth> vectors[kTile];
#pragma unroll
        for (int v = 0; v < kTile; ++v) vectors[v] = held_(t + v);
        running.add(floats_of<T>(vectors));
      } else {
#pragma unroll
        for (int v = 0; v < kTile - 1; ++v) {
          if (!holds(t + v)) continue;
          const row::Packed<T, kWidth> one[1] = {held_(t + v)};
          running.add(floats_of<T>(one));
        }
      }
    }
    return warp::all_reduce(running.total(), Merge{});
  }

  // Whether a column of the row is in the part and this thread's; its place in the part.
  __device__ __forceinline__ bool has(int64_t column) const {
    const int64_t place = place_of(column);
    return place >= 0 && place < int64_t{vectors_} * kWidth &&
           static_cast<int>(place / kWidth % kThreads) == thread_index();
  }
  __device__ __forceinline__ int64_t place_of(int64_t column) const {
    return column - first_ * kWidth;
  }

  // To the row at `row`, which it came from.
  __device__ __forceinline__ void store_gradient(T* row, const Gradient& gradient) const {
    T* to = row + (first_ + thread_index()) * kWidth;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!holds(v)) continue;
      const row::Packed<T, kWidth> x = held_(v);
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = gradient(x[i]);
      thread::store(to + v * kThreads * kWidth, thread::convert<T>(out));
    }
  }
  __device__ __forceinline__ void store_zeros(T* row) const {
    T* to = row + (first_ + thread_index()) * kWidth;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (holds(v)) thread::store(to + v * kThreads * kWidth, Vec<T, kWidth>{});
    }
  }

 private:
  __device__ __forceinline__ bool holds(int v) const {
    return thread_index() + v * kThreads < vectors_;
  }

  int64_t first_;
  int vectors_;
  const Held& held_;
};
template <class T, int kThreads, int kVectors, class Held>
__device__ __forceinline__ auto row_part(int64_t first, int vectors, const Held& held) {
  return RowPart<T, kThreads, kVectors, Held>(first, vectors, held);
}

// What belongs to a row beside its logits, fetched while they are added up.
struct Beside {
  Target target;
  bool has_target = false;  // this thread writes the target's column
  float logit = 0;          // of the target, where it does
  float weight = 0;
  float dloss = 0;

  // target_logit() is asked where the thread has it.
  template <class T, class Part, class Logit>
  __device__ __forceinline__ Beside(const Rows<T>& rows, int64_t row, const Part& part,
                                    const Logit& target_logit)
      : target(rows.target(row, cluster_rank() == 0 && thread_index() == 0)),
        dloss(rows.dloss_of(row)) {
    if (!target.counts()) return;
    weight = rows.formula.weight_of(target.index);
    has_target = part.has(target.index);
    if (has_target) logit = target_logit(target.index);
  }
};

// What a cluster's blocks do with a row once they hold its parts; all threads that do take part.
template <class Part, class AllReduce, class T>
__device__ __forceinline__ void finish_row(const Rows<T>& rows, int64_t row, const Part& part,
                                           AllReduce& all_reduce, const Beside& beside) {
  const Total total = all_reduce.of_warps(part.of_warp(), Total{}, Merge{});
  T* to = rows.gradient + row * rows.gradient_stride;
  const Target& target = beside.target;
  if (target.counts()) {
    const Gradient gradient =
        rows.formula.gradient(total.lse(), beside.dloss, beside.weight, rows.formula.columns);
    part.store_gradient(to, gradient);
    if (beside.has_target) {
      thread::store(to + target.index, from_float<T>(gradient.of_target(beside.logit)));
      rows.store_loss(row, total, beside.logit, beside.weight);
    }
  } else if (target.is_ignored) {
    if (thread_index() == 0 && cluster_rank() == 0) rows.store_numbers(row, 0, 0);
    part.store_zeros(to);
  }
}

}  // namespace ws::cross_entropy
#endif
