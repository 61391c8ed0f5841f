// Idea: every layout. An element's number becomes an index for each loop of the layout, and each
//   tensor adds up its own strides (0 where it is broadcast).
// From scalar: the loops are ordered by the output's strides and merged where all tensors permit
//   (layout.hpp); the host prepares the divisions, which would cost twenty instructions each.
// Traffic: every byte once where the inner loops of all tensors agree; up to a sector of 32 bytes
//   an element where they do not.
// Limits: none. Over 2^31 elements take several launches, so that an index fits 32 bits.
#pragma once

#include "kernels/elementwise/dispatch.hpp"
#include "kernels/elementwise/strided_walk.hpp"
#include "warpsmith/launch.hpp"

namespace ws::elementwise {

template <class T, class Functor>
struct StridedKernel {
  static constexpr int kThreads = 256;
  static constexpr int kInputs = Functor::kInputs;
  static constexpr int kOperands = kInputs + kOutputs<Functor>;

  struct Arguments {
    PointersOf<T, Functor> at;
    Functor f;
    uint32_t elements;
    StridedWalk<kOperands> walk;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const auto i = static_cast<uint32_t>(block_index() * kThreads + thread_index());
    if (i >= a.elements) return;

    int64_t offsets[kOperands] = {};
    a.walk.add(i, offsets);

    T x[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) x[k] = thread::load(a.at.inputs[k] + offsets[k]);
    if constexpr (kOutputs<Functor> == 1) {
      thread::store(a.at.outputs[0] + offsets[kInputs], apply(a.f, x));
    } else {
      T y[kOutputs<Functor>];
      apply(a.f, x, y);
#pragma unroll
      for (int k = 0; k < kOutputs<Functor>; ++k) {
        thread::store(a.at.outputs[k] + offsets[kInputs + k], y[k]);
      }
    }
  }
};

// Launches a loop nest of up to `limit` elements; halves the outermost loop of a larger one.
template <class T, class Functor>
void launch_strided(const Functor& f, PointersOf<T, Functor> pointers, Layout layout, Stream stream,
                    int64_t limit = (int64_t{1} << 31) - 1) {
  using Kernel = StridedKernel<T, Functor>;
  if (layout.elements > limit) {
    const auto split = std::find_if(layout.extents.begin(), layout.extents.end(),
                                    [](int64_t extent) { return extent > 1; });
    const auto loop = static_cast<size_t>(split - layout.extents.begin());
    const int64_t inner = layout.elements / layout.extents[loop];
    const int64_t first = layout.extents[loop] / 2;
    const int64_t second = layout.extents[loop] - first;
    layout.extents[loop] = first;
    layout.elements = first * inner;
    launch_strided(f, pointers, layout, stream, limit);
    for (size_t k = 0; k < Kernel::kInputs; ++k) {
      pointers.inputs[k] += first * layout.strides[k][loop];
    }
    for (size_t k = 0; k < kOutputs<Functor>; ++k) {
      pointers.outputs[k] += first * layout.strides[Kernel::kInputs + k][loop];
    }
    layout.extents[loop] = second;
    layout.elements = second * inner;
    return launch_strided(f, pointers, layout, stream, limit);
  }
  typename Kernel::Arguments arguments{};
  arguments.at = pointers;
  arguments.f = f;
  arguments.elements = static_cast<uint32_t>(layout.elements);
  arguments.walk = StridedWalk<Kernel::kOperands>(layout);
  const int64_t blocks = divide_up(layout.elements, Kernel::kThreads);
  launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads}, stream, arguments);
}

struct Strided {
  template <class Call>
  static void run(const Call& call, const Context& context) {
    dispatch(call, [&]<class T, class Functor>(const Functor& f) {
      launch_strided<T>(f, PointersOf<T, Functor>(call), call.layout, context.stream);
    });
  }
};

}  // namespace ws::elementwise
