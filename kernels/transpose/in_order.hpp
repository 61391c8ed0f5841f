// A walk over y's elements in their order: an index for each loop, and what lies there in x.
#pragma once

#include "kernels/transpose/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::transpose {

// Up to 2^31 - 1 elements, so many of them a thread, a block's width apart.
template <class T, int kEach>
struct InOrderKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const T* x;
    T* y;
    uint32_t elements;
    int rank;
    thread::Divider extents[kMaxRank];  // innermost first
    int64_t x_strides[kMaxRank];
    int64_t y_strides[kMaxRank];

    explicit Arguments(const Permutation& call)
        : x(static_cast<const T*>(call.x)),
          y(static_cast<T*>(call.y)),
          elements(static_cast<uint32_t>(call.elements())),
          rank(call.rank) {
      for (size_t i = 0; i < call.rank; ++i) {
        const Loop& loop = call.loops[call.rank - 1 - i];
        extents[i] = thread::Divider(loop.extent);
        x_strides[i] = loop.strides[kX];
        y_strides[i] = loop.strides[kY];
      }
    }
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto first = static_cast<uint32_t>(block_index() * (kThreads * kEach) + thread_index());
    T held[kEach];
    int64_t to[kEach];
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      uint32_t rest = first + static_cast<uint32_t>(n * kThreads);
      if (rest >= a.elements) break;
      int64_t from = 0;
      to[n] = 0;
#pragma unroll
      for (int loop = 0; loop < kMaxRank; ++loop) {
        if (loop == a.rank) break;
        const uint32_t outer = a.extents[loop].quotient(rest);
        const uint32_t index = rest - outer * a.extents[loop].divisor();
        from += index * a.x_strides[loop];
        to[n] += index * a.y_strides[loop];
        rest = outer;
      }
      held[n] = thread::load(a.x + from);
    }
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      if (first + static_cast<uint32_t>(n * kThreads) >= a.elements) break;
      thread::store(a.y + to[n], held[n]);
    }
  }
};

template <class T, int kEach>
void copy_in_order(const Permutation& call, Stream stream) {
  using Kernel = InOrderKernel<T, kEach>;
  launch<Kernel>(
      {.blocks = divide_up(call.elements(), Kernel::kThreads * kEach), .threads = Kernel::kThreads},
      stream, typename Kernel::Arguments(call));
}

inline constexpr int64_t kMostInOrder = (int64_t{1} << 31) - 1;

}  // namespace ws::transpose
#endif
