// Idea: a thread an element of y, which looks through all indices for its row.
// Traffic: the indices once for each element of y, from L1; a read of x and of every source, a
// write of y. Sources add up in their order.
// Limits: contiguous tensors; a few thousand indices.
#pragma once

#include "kernels/embedding/indices.hpp"
#include "kernels/index_add/operations.hpp"
#include "warpsmith/launch.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    embedding::Indices index;
    const T* x;
    const T* source;
    T* y;
    int64_t outer;
    int64_t rows;
    int64_t count;
    int64_t inner;
    float alpha;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t e = block_index() * kThreads + thread_index();
    if (e >= a.outer * a.rows * a.inner) return;
    const int64_t column = e % a.inner;
    const int64_t row = e / a.inner % a.rows;
    const T* source = a.source + e / a.inner / a.rows * a.count * a.inner + column;
    float sum = 0;
    for (int64_t i = 0; i < a.count; ++i) {
      const int64_t index = a.index[i];
      if (e == 0) a.index.is_right(index, i);
      if (index == row) sum += to_float(thread::load(source + i * a.inner));
    }
    thread::store(a.y + e, from_float<T>(to_float(thread::load(a.x + e)) + a.alpha * sum));
  }
};

struct Naive {
  static bool supports(const IndexAdd::Call& call, Why& why) {
    const embedding::AddSorted& lines = call.lines;
    const auto is_dense = [&](embedding::Target k, int64_t rows) {
      return lines.inner_strides[k] == 1 && (rows <= 1 || lines.row_strides[k] == lines.inner) &&
             (lines.outer <= 1 || lines.outer_strides[k] == rows * lines.inner);
    };
    return why.unless(call.has_lines && is_dense(embedding::kX, lines.rows) &&
                          is_dense(embedding::kY, lines.rows) &&
                          is_dense(embedding::kSource, lines.count),
                      "takes contiguous tensors") &&
           why.unless(call.index_stride == 1 || lines.count <= 1, "takes contiguous indices");
  }
  static void run(const IndexAdd::Call& call, const Context& context) {
    const embedding::AddSorted& lines = call.lines;
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      const int64_t elements = lines.outer * lines.rows * lines.inner;
      launch<Kernel>(
          {.blocks = divide_up(elements, int64_t{Kernel::kThreads}), .threads = Kernel::kThreads},
          context.stream,
          {{call.index, call.wide_index, 1, "index_add/naive", call.rows},
           static_cast<const T*>(call.x),
           static_cast<const T*>(call.each),
           static_cast<T*>(call.table),
           lines.outer,
           lines.rows,
           lines.count,
           lines.inner,
           call.alpha});
    });
  }
};

inline constexpr Rung kNaive = rung_of<Naive, IndexAdd>(
    {.name = "naive", .idea = "a thread an element of y looks through all indices"});
#endif

}  // namespace ws::index_add
