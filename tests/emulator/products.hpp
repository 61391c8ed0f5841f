// Small products for tests of wgmma: D [64, 16] of A [64, 16] and B [16, 16], small integers.
#pragma once

#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::emulator {

// Elements of step `step` of K.
inline float a_value(int m, int k, int step = 0) {
  return static_cast<float>((m + 2 * k + step) % 5 - 2);
}
inline float b_value(int k, int n, int step = 0) {
  return static_cast<float>((3 * k + n + 2 * step) % 7 - 3);
}
// What D holds after `steps` steps.
inline float product_value(int m, int n, int steps = 1) {
  float sum = 0;
  for (int step = 0; step < steps; ++step) {
    for (int k = 0; k < 16; ++k) sum += a_value(m, k, step) * b_value(k, n, step);
  }
  return sum;
}

// An operand [kExtent, 16] as wgmma reads it from shared memory: K-major, not swizzled, so that
// each 8 rows of 8 elements are 128 bytes in a row, and 16 rows of A belong to one warp.
template <int kExtent>
struct Operand {
  static constexpr int kElements = kExtent * 16;

  static constexpr int index(int mn, int k) { return k / 8 * kExtent * 8 + mn * 8 + k % 8; }
  uint64_t descriptor() {
    return ptx::wgmma_descriptor(elements.pointer(), kExtent * 16, 128, ptx::Swizzle::kNone);
  }

  SharedArray<half, kElements, 128> elements;
};
using OperandA = Operand<64>;
using OperandB = Operand<16>;

// The rows [first, first + rows) of A, of one step, by threads of which this one is `me` of `all`.
inline void fill_a(OperandA& a, int step, int me, int all, int first = 0, int rows = 64) {
  for (int i = me; i < rows * 16; i += all) {
    const int m = first + i % rows;
    const int k = i / rows;
    a.elements[OperandA::index(m, k)] = half(a_value(m, k, step));
  }
}
inline void fill_b(OperandB& b, int step, int me, int all) {
  for (int i = me; i < OperandB::kElements; i += all) {
    const int n = i % 16;
    const int k = i / 16;
    b.elements[OperandB::index(n, k)] = half(b_value(k, n, step));
  }
}

// Both operands of one product.
struct Operands {
  // By all 128 threads of the block; then products may read them.
  void fill() {
    fill_a(a, 0, thread_index(), 128);
    fill_b(b, 0, thread_index(), 128);
    ptx::fence_proxy_async();
    ptx::barrier_sync();
  }

  OperandA a;
  OperandB b;
};

// The same as images in global memory, one for each step, for bulk copies.
inline std::vector<half> image_a(int steps) {
  std::vector<half> image(static_cast<size_t>(steps * OperandA::kElements));
  for (int i = 0; i < steps * 1024; ++i) {
    const int step = i / 1024;
    const int m = i % 64;
    const int k = i / 64 % 16;
    image[static_cast<size_t>(step * 1024 + OperandA::index(m, k))] = half(a_value(m, k, step));
  }
  return image;
}
inline std::vector<half> image_b(int steps) {
  std::vector<half> image(static_cast<size_t>(steps * OperandB::kElements));
  for (int i = 0; i < steps * 256; ++i) {
    const int step = i / 256;
    const int n = i % 16;
    const int k = i / 16 % 16;
    image[static_cast<size_t>(step * 256 + OperandB::index(n, k))] = half(b_value(k, n, step));
  }
  return image;
}

// The fragment of A that this thread of the warpgroup brings in registers.
inline void fragment_a(uint32_t (&a)[4], int step) {
  const int row = thread_index() % 128 / 32 * 16 + lane_index() / 4;
  const int pair = 2 * (lane_index() % 4);
  for (int i = 0; i < 4; ++i) {
    const int m = row + i % 2 * 8;
    const int k = pair + i / 2 * 8;
    a[i] = half(a_value(m, k, step)).bits |
           static_cast<uint32_t>(half(a_value(m, k + 1, step)).bits) << 16;
  }
}

// Row and column of accumulator i of this thread.
inline int row_of(int i) {
  return thread_index() % 128 / 32 * 16 + lane_index() / 4 + i % 4 / 2 * 8;
}
inline int column_of(int i) { return i / 4 * 8 + 2 * (lane_index() % 4) + i % 2; }

// D [64, 16] to global memory.
inline void store_d(float* out, const float (&d)[8]) {
  for (int i = 0; i < 8; ++i) thread::store(out + row_of(i) * 16 + column_of(i), d[i]);
}

// Whether out is D after `steps` steps, times `factor`.
inline testing::AssertionResult is_product(test::Buffer<float>& out, int steps = 1,
                                           float factor = 1) {
  return equal(out, [=](int i) { return factor * product_value(i / 16 % 64, i % 16, steps); });
}

}  // namespace ws::emulator
