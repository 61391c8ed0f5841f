// C whose rows start anywhere, from rows at multiples of 128 bytes: the copy engine stores those.
#pragma once

#include <bit>

#include "kernels/gemm/run_lanes.hpp"
#include "kernels/scaled_gemm/policies.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/realign.hpp"

namespace ws::scaled_gemm {

// A row of C is cut where its own addresses are multiples of 16; such a piece lies across two of
// the row that it comes from, which are shifted together. T: so many bytes as an element has.
template <class T>
struct RowsOutKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  static constexpr int kUnroll = 4;
  using Lanes = gemm::RunLanes<kThreads, kWidth * kUnroll, 8>;

  struct Arguments {
    const T* from;
    T* to;
    int64_t rows;
    int64_t columns;
    int64_t from_leading;
    int64_t to_leading;
    Lanes lanes;
  };
  struct SharedStorage {};

  // A row has a piece more than it fills, of which its first and last have parts.
  static Lanes lanes_of(int64_t rows, int64_t columns) { return {rows, columns + kWidth - 1}; }

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    using Words = Vec<uint32_t, 4>;
    const auto [matrix, row, first] = g.lanes.at(block_index(), thread_index(), kWidth);
    if (row >= g.rows) return;
    const T* const from = g.from + row * g.from_leading;
    T* const to = g.to + row * g.to_leading;
    const auto beyond = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) % 16);
    const auto before = static_cast<int64_t>(beyond / sizeof(T));
    Vec<T, kWidth> low[kUnroll]{};
    Vec<T, kWidth> high[kUnroll]{};
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * g.lanes.step(kWidth);
      if (at < g.columns) high[i] = thread::load<kWidth>(from + at);
      if (beyond != 0 && at >= kWidth && at - kWidth < g.columns) {
        low[i] = thread::load<kWidth>(from + at - kWidth);
      }
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t column = first + i * g.lanes.step(kWidth) - before;
      const auto later = std::bit_cast<Words>(high[i]);
      const Words moved = thread::realign<sizeof(T)>(
          beyond == 0 ? later : std::bit_cast<Words>(low[i]), later, (16 - beyond) % 16);
      const auto piece = std::bit_cast<Vec<T, kWidth>>(moved);
      if (column >= 0 && column + kWidth <= g.columns) {
        thread::store(to + column, piece);
        continue;
      }
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        if (column + e >= 0 && column + e < g.columns) thread::store(to + column + e, piece[e]);
      }
    }
  }
};

// `from`, of rows `leading` apart, to c.
inline void copy_rows_out(const Call& call, const void* from, int64_t leading, Stream stream) {
  const auto start = [&]<class T>() {
    using Kernel = RowsOutKernel<T>;
    const auto lanes = Kernel::lanes_of(call.m, call.n);
    launch<Kernel>({.blocks = lanes.blocks(1), .threads = Kernel::kThreads}, stream,
                   {static_cast<const T*>(from), call.c.as<T>(), call.m, call.n, leading,
                    call.c.leading, lanes});
  };
  size_of(call.c_dtype) == 2 ? start.template operator()<uint16_t>()
                             : start.template operator()<uint32_t>();
}

}  // namespace ws::scaled_gemm
