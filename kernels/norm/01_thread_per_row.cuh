// Idea: a thread owns a row and follows the formula: mean, variance, then each output.
// Traffic: three reads, one write; neighbouring threads read addresses a row apart, so each 32-byte
// sector that is fetched gives one element at a time.
// Limits: layer_norm of a dense matrix, with weight and bias.
#pragma once

#include "kernels/norm/plain.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::norm {

template <class T>
struct ThreadPerRowKernel {
  static constexpr int kThreads = 128;
  using Arguments = Plain<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= a.rows) return;
    const T* x = a.x + row * a.columns;
    T* y = a.y + row * a.columns;

    float sum = 0;
    for (int64_t i = 0; i < a.columns; ++i) sum += to_float(thread::load(x + i));
    const float mean = sum / static_cast<float>(a.columns);

    float squares = 0;
    for (int64_t i = 0; i < a.columns; ++i) {
      const float centred = to_float(thread::load(x + i)) - mean;
      squares += centred * centred;
    }
    const float rstd = thread::rsqrt(squares / static_cast<float>(a.columns) + a.eps);

    for (int64_t i = 0; i < a.columns; ++i) {
      const float z = (to_float(thread::load(x + i)) - mean) * rstd;
      const float weight = to_float(thread::load(a.weight + i));
      const float bias = to_float(thread::load(a.bias + i));
      thread::store(y + i, from_float<T>(z * weight + bias));
    }
  }
};

struct ThreadPerRow {
  static bool supports(const LayerNorm::Call& call, Why& why) { return is_plain(call, why); }
  static void run(const LayerNorm::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = ThreadPerRowKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, plain_of<T>(call));
    });
  }
};

inline constexpr Rung kThreadPerRow = rung_of<ThreadPerRow, LayerNorm>({
    .name = "thread_per_row",
    .idea = "a thread a row, mean and variance and output as the formula says",
});

}  // namespace ws::norm
