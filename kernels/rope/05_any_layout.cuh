// Idea: whatever a call may be: any strides, positions that are told, heads of which a part turns,
// tables of heads and of sequences, queries and keys; and angles that are right at any position.
// From tables: the place of a pair in each tensor follows from batch, position and head. Without
// tables an angle is an integer, of which the position's multiple loses whole turns exactly.
// Traffic: each element once where neighbours lie side by side; 16 or 32 bits an access.
// Limits: none.
#pragma once

#include <algorithm>

#include "kernels/rope/rotation.hpp"

namespace ws::rope {

#if WS_DEVICE_CODE
// The one of two tensors that a head is of.
__device__ __forceinline__ Turned tensor_of(const Call& call, int64_t& head) {
  if (head < call.tensors[0].heads) return call.tensors[0];
  head -= call.tensors[0].heads;
  return call.tensors[1];
}
__device__ __forceinline__ int64_t offset(const Strides& strides, int64_t batch, int64_t position,
                                          int64_t head) {
  return batch * strides.batch + position * strides.position + head * strides.head;
}

template <class T, class Source>
struct AnyLayoutKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Call call;
    Source source;
    Positions positions;
  };
  struct SharedStorage {};

  // A thread a pair, or an element that is copied.
  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Call& call = a.call;
    const int64_t of_head = call.columns - call.pairs;
    const int64_t heads = call.heads();
    const int64_t i = block_index() * kThreads + thread_index();
    int64_t row = i / of_head;
    if (row >= call.batches * call.positions * heads) return;
    const int64_t place = i - row * of_head;
    const int64_t all = row / heads;
    int64_t head = row - all * heads;
    const int64_t batch = all / call.positions;
    const int64_t token = all - batch * call.positions;

    int64_t position = 0;
    if (!a.positions.find(batch, token, place == 0 && head == 0, position)) return;
    const Turned tensor = tensor_of(call, head);
    const T* x = static_cast<const T*>(tensor.x) + offset(tensor.from, batch, token, head);
    T* y = static_cast<T*>(tensor.y) + offset(tensor.to, batch, token, head);
    if (place >= call.pairs) {
      const int64_t column = place + call.pairs;
      thread::store(y + column * tensor.to.column, thread::load(x + column * tensor.from.column));
      return;
    }
    const int64_t first = call.interleaved ? 2 * place : place;
    const int64_t second = first + (call.interleaved ? 1 : call.pairs);
    thread::SinCos by = a.source.at(batch, position, head, place);
    if (call.inverse) by.sin = -by.sin;
    float x1 = to_float(thread::load(x + first * tensor.from.column));
    float x2 = to_float(thread::load(x + second * tensor.from.column));
    turn(x1, x2, by);
    thread::store(y + first * tensor.to.column, from_float<T>(x1));
    thread::store(y + second * tensor.to.column, from_float<T>(x2));
  }
};

struct AnyLayout {
  template <class OperationCall>
  static void run(const OperationCall& call, const Context& context) {
    constexpr const char* kName =
        std::is_same_v<OperationCall, RopeCall> ? "rope/any_layout" : "rope_qk/any_layout";
    with_source(call, [&]<class T, class Source>() {
      using Kernel = AnyLayoutKernel<T, Source>;
      const int64_t rows = call.batches * call.positions * call.heads();
      launch<Kernel>({.blocks = divide_up(rows * (call.columns - call.pairs), Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, {call, Source(call), Positions(call, kName)});
    });
  }
};

inline constexpr Rung kAnyLayout = rung_of<AnyLayout, Rope, RopeQk>({
    .name = "any_layout",
    .from = "tables",
    .idea = "any strides, positions, part of a head, queries and keys; angles exact",
});
#endif

}  // namespace ws::rope
