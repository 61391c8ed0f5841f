// Idea: one thread, one element: load, compute, store.
// What a first kernel looks like, made right for every layout: the thread's number becomes an index
// for each loop of the layout, and each operand adds up its own strides (0 where it is broadcast).
// Traffic: every byte once, but a warp's f32 access is 128 bytes and its f16 access 64, so an SM
// runs out of requests in flight before it fills the memory.
// Limits: none; over 2^31 elements it takes several launches, so that an index fits 32 bits.
#pragma once

#include "kernels/elementwise/dispatch.hpp"
#include "kernels/elementwise/layout.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::elementwise {

template <class T, class Op>
struct Scalar {
  static constexpr int kThreads = 256;

  struct Arguments {
    Operands<T, Op::kInputs> operands;
    Op op;
    uint32_t elements;
    int rank;
    thread::Divider extents[kMaxRank];           // innermost first
    int64_t strides[Op::kInputs + 1][kMaxRank];  // innermost first
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const auto i = static_cast<uint32_t>(block_index() * kThreads + thread_index());
    if (i >= a.elements) return;

    int64_t offsets[Op::kInputs + 1] = {};
    uint32_t rest = i;
#pragma unroll
    for (int loop = 0; loop < kMaxRank; ++loop) {
      if (loop == a.rank) break;
      const uint32_t outer = a.extents[loop].quotient(rest);
      const uint32_t index = rest - outer * a.extents[loop].divisor();
#pragma unroll
      for (int k = 0; k <= Op::kInputs; ++k) offsets[k] += index * a.strides[k][loop];
      rest = outer;
    }

    T x[Op::kInputs];
#pragma unroll
    for (int k = 0; k < Op::kInputs; ++k) x[k] = thread::load(a.operands.inputs[k] + offsets[k]);
    thread::store(a.operands.output + offsets[Op::kInputs], apply(a.op, x));
  }
};

// Launches a loop nest of up to `limit` elements; halves the outermost loop of a larger one.
template <class T, class Op>
void launch_scalar(const Op& op, Operands<T, Op::kInputs> operands, Layout layout, Stream stream,
                   int64_t limit = (int64_t{1} << 31) - 1) {
  using Kernel = Scalar<T, Op>;
  if (layout.elements > limit) {
    const auto split = std::find_if(layout.extents.begin(), layout.extents.end(),
                                    [](int64_t extent) { return extent > 1; });
    const auto loop = static_cast<size_t>(split - layout.extents.begin());
    const int64_t inner = layout.elements / layout.extents[loop];
    const int64_t first = layout.extents[loop] / 2;
    const int64_t second = layout.extents[loop] - first;
    layout.extents[loop] = first;
    layout.elements = first * inner;
    launch_scalar(op, operands, layout, stream, limit);
    for (size_t k = 0; k < Op::kInputs; ++k) operands.inputs[k] += first * layout.strides[k][loop];
    operands.output += first * layout.strides[Op::kInputs][loop];
    layout.extents[loop] = second;
    layout.elements = second * inner;
    return launch_scalar(op, operands, layout, stream, limit);
  }
  typename Kernel::Arguments arguments{};
  arguments.operands = operands;
  arguments.op = op;
  arguments.elements = static_cast<uint32_t>(layout.elements);
  arguments.rank = layout.rank;
  for (int loop = 0; loop < layout.rank; ++loop) {
    const auto from = static_cast<size_t>(layout.rank - 1 - loop);
    arguments.extents[loop] = thread::Divider(layout.extents[from]);
    for (size_t k = 0; k <= Op::kInputs; ++k) {
      arguments.strides[k][loop] = layout.strides[k][from];
    }
  }
  const int64_t blocks = (layout.elements + Kernel::kThreads - 1) / Kernel::kThreads;
  launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads}, stream, arguments);
}

inline void run_scalar(const Problem& problem, const Context& context) {
  dispatch(problem, [&]<class Op, class T>(const Op& op, T) {
    launch_scalar<T, Op>(op, Operands<T, Op::kInputs>(problem), layout_of(problem), context.stream);
  });
}

}  // namespace ws::elementwise
