// Idea: read sine and cosine instead of computing them: what a sequence needs of them fits in the
// L2, and every layer of a model asks for the same.
// From naive: two loads stand for 60 instructions. What the tables hold is as right as whoever made
// them, at any position.
// Traffic: each element once; a head of 16 bits reads as many bytes of tables in f32, from the L2.
// Limits: contiguous tensors and tables [T, D / 2] of f32, whole heads.
#pragma once

#include "kernels/rope/rotation.hpp"

namespace ws::rope {

#if WS_DEVICE_CODE
template <class T>
struct TablesKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const T* x;
    const float* cos;
    const float* sin;
    T* y;
    int64_t rows;
    int64_t pairs;
    int64_t positions;
    int64_t rows_a_position;
    bool interleaved;
    bool inverse;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.rows * a.pairs) return;
    const int64_t row = i / a.pairs;
    const int64_t pair = i - row * a.pairs;
    const int64_t position = row / a.rows_a_position % a.positions;
    const int64_t first = row * 2 * a.pairs + (a.interleaved ? 2 * pair : pair);
    const int64_t second = first + (a.interleaved ? 1 : a.pairs);

    const float cos = thread::load(a.cos + position * a.pairs + pair);
    const float sine = thread::load(a.sin + position * a.pairs + pair);
    const float sin = a.inverse ? -sine : sine;
    const float x1 = to_float(thread::load(a.x + first));
    const float x2 = to_float(thread::load(a.x + second));
    thread::store(a.y + first, from_float<T>(x1 * cos - x2 * sin));
    thread::store(a.y + second, from_float<T>(x2 * cos + x1 * sin));
  }
};

struct FromTables {
  static bool supports(const Call& call, Why& why) {
    const auto is_plain = [&](const Table& table) {
      const Strides& s = table.strides;
      return s.batch == 0 && s.head == 0 && (call.pairs == 1 || s.column == 1) &&
             (call.table_rows <= 1 || s.position == call.pairs);
    };
    return is_dense_and_plain(call, why) && why.unless(call.has_tables, "takes tables") &&
           why.unless(call.table_dtype == DType::kF32 && is_plain(call.cos) && is_plain(call.sin),
                      "takes contiguous tables of f32 with a row a position");
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = TablesKernel<T>;
      const Turned& x = call.tensors[0];
      const int64_t rows = call.batches * call.positions * call.heads();
      launch<Kernel>(
          {.blocks = divide_up(rows * call.pairs, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {static_cast<const T*>(x.x), static_cast<const float*>(call.cos.data),
           static_cast<const float*>(call.sin.data), static_cast<T*>(x.y), rows, call.pairs,
           call.positions, rows_a_position(call), call.interleaved, call.inverse});
    });
  }
};

inline constexpr Rung kTablesRung = rung_of<FromTables, Rope>({
    .name = "tables",
    .from = "naive",
    .idea = "sine and cosine are read from tables, not computed",
});
#endif

}  // namespace ws::rope
