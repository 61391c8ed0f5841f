// Idea: any dtype and strides: sums of f32 in the workspace, which a second launch gives out.
// From backward_atomic: walks of several dimensions; 16-bit gradients are rounded once; counts of
// indices, where the gradient is divided by them.
// Traffic: dy once, and an atomic for each element; 8 bytes for an element of the table both ways.
// Limits: none. Equal indices queue, in an order that is nobody's.
#pragma once

#include "kernels/embedding/04_any_layout.cuh"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
template <class T>
struct BackwardAddKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Indices index;
    RowLayout<kOperands> rows;
    int64_t ignored;
    float* sums;       // of each element of the table
    uint32_t* counts;  // of each row; null: nobody asks
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t columns = a.rows.columns;
    const int64_t step = grid_blocks() * kThreads;
    for (int64_t e = block_index() * kThreads + thread_index(); e < a.rows.rows * columns;
         e += step) {
      const int64_t i = e / columns;
      const int64_t c = e - i * columns;
      const int64_t index = a.index.at_offset(a.rows.offset(kIndex, i));
      if (!a.index.is_right(index, i) || index == a.ignored) continue;
      const T* dy = static_cast<const T*>(a.rows.data[kRow]) + a.rows.offset(kRow, i);
      const float value = to_float(thread::load(dy + c * a.rows.inner[kRow]));
      ptx::red_global_add(a.sums + index * columns + c, value);
      if (a.counts != nullptr && c == 0) ptx::red_global_add(a.counts + index, 1U);
    }
  }
};

// A block a row, which sets sums and count back to zero.
template <class T>
struct BackwardGiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    float* sums;
    uint32_t* counts;
    T* dweight;
    int64_t rows;
    int64_t columns;
    std::array<int64_t, 2> strides;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    for (int64_t row = block_index(); row < a.rows; row += grid_blocks()) {
      float scale = 1;
      if (a.counts != nullptr) {
        const uint32_t count = thread::load(a.counts + row);
        if (count > 0) scale = 1 / static_cast<float>(count);
        ptx::barrier_sync();  // all have read it
        if (thread_index() == 0) thread::store(a.counts + row, 0U);
      }
      for (int64_t c = thread_index(); c < a.columns; c += kThreads) {
        float* sum = a.sums + row * a.columns + c;
        thread::store(a.dweight + row * a.strides[0] + c * a.strides[1],
                      from_float<T>(scale * thread::load(sum)));
        thread::store(sum, 0.0F);
      }
    }
  }
};

struct BackwardAnyLayout {
  static int64_t sums(const EmbeddingBackward::Call& call) {
    return call.table_rows * call.rows.columns;
  }
  static Workspace workspace(const EmbeddingBackward::Call& call) {
    const int64_t words = sums(call) + (call.by_count ? call.table_rows : 0);
    const size_t bytes = static_cast<size_t>(words) * sizeof(float);
    return {.bytes = bytes, .zeroed = bytes};
  }
  static void run(const EmbeddingBackward::Call& call, const Context& context) {
    auto* totals = static_cast<float*>(context.workspace);
    uint32_t* counts = call.by_count ? reinterpret_cast<uint32_t*>(totals + sums(call)) : nullptr;
    const int64_t columns = call.rows.columns;
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Add = BackwardAddKernel<T>;
      using Give = BackwardGiveKernel<T>;
      if (call.rows.rows > 0) {
        launch<Add>({.blocks = walking_blocks(call.rows.rows * columns, Add::kThreads),
                     .threads = Add::kThreads},
                    context.stream,
                    {indices_of(call, "embedding_backward/backward_any_layout"), call.rows,
                     call.ignored, totals, counts});
      }
      launch<Give>(
          {.blocks = std::min(call.table_rows, int64_t{1} << 20), .threads = Give::kThreads},
          context.stream,
          {totals, counts, static_cast<T*>(call.table), call.table_rows, columns, call.strides});
    });
  }
};

inline constexpr Rung kBackwardAnyLayout = rung_of<BackwardAnyLayout, EmbeddingBackward>(
    {.name = "backward_any_layout",
     .from = "backward_atomic",
     .idea = "any dtype and strides by way of f32 sums in the workspace",
     .deterministic = false});
#endif

}  // namespace ws::embedding
