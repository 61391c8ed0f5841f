// Operands whose rows do not start at multiples of 16 bytes, copied once into rows that do.
#pragma once

#include <algorithm>

#include "kernels/gemm/batched.hpp"
#include "kernels/gemm/plan.hpp"
#include "kernels/gemm/run_lanes.hpp"
#include "warpsmith/launch.hpp"

namespace ws::gemm {

// What is copied: `runs` runs of `length` elements of each of `matrices`.
template <class T>
struct Realignment {
  const T* from = nullptr;
  T* to = nullptr;
  int64_t runs = 0;
  int64_t length = 0;
  int64_t from_leading = 0;
  int64_t to_leading = 0;
  int64_t matrices = 1;
  int64_t from_batch = 0;
  int64_t to_batch = 0;
};

// Copies of kBytes, to which both sides are aligned, by groups of lanes: as many of them as a run
// has work for.
template <class T, int kBytes>
struct RealignKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = kBytes / static_cast<int>(sizeof(T));
  static constexpr int kUnroll = 8;
  using Lanes = RunLanes<kThreads, kWidth * kUnroll, 64 / kBytes>;

  struct Arguments {
    Realignment<T> operands[2];
    int64_t first_blocks = 0;  // of the first operand; the others are the second's
    Lanes lanes[2]{};
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const bool second = block_index() >= g.first_blocks;
    const Realignment<T>& operand = g.operands[second];
    const int64_t block = block_index() - (second ? g.first_blocks : 0);
    const Lanes& lanes = g.lanes[second];
    const auto [matrix, run, first] = lanes.at(block, thread_index(), kWidth);
    if (run >= operand.runs) return;
    const int step = lanes.step(kWidth);
    const T* const from = operand.from + matrix * operand.from_batch + run * operand.from_leading;
    T* const to = operand.to + matrix * operand.to_batch + run * operand.to_leading;
    Vec<T, kWidth> held[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * step;
      if (at + kWidth <= operand.length) held[i] = thread::load<kWidth>(from + at);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * step;
      if (at + kWidth <= operand.length) {
        thread::store(to + at, held[i]);
      } else {
        for (int64_t j = at; j < operand.length; ++j) thread::store(to + j, thread::load(from + j));
      }
    }
  }
};

// Elements from a matrix of copies to the next.
inline int64_t realigned_batch(const Matrix& matrix) {
  constexpr int64_t kRow = 128;  // 256 bytes
  return round_up(matrix.runs * realigned_leading(matrix), kRow);
}
// How many there are of an operand.
inline int64_t matrices_of_operand(const Call& /*call*/, const Matrix& /*matrix*/) { return 1; }
inline int64_t matrices_of_operand(const BatchedCall& call, const Matrix& matrix) {
  return matrix_batch(call, matrix).count;
}

// Of the copies that realign() makes.
template <class C>
size_t realigned_bytes(const C& call) {
  int64_t elements = 0;
  for (const Matrix* const matrix : {&call.a, &call.b}) {
    if (!needs_realigning(*matrix, call.dtype)) continue;
    elements += matrices_of_operand(call, *matrix) * realigned_batch(*matrix);
  }
  return static_cast<size_t>(elements) * 2;
}

template <class Kernel, class T>
void launch_realign(const Realignment<T> (&operands)[2], Stream stream) {
  typename Kernel::Arguments arguments{.operands = {operands[0], operands[1]}};
  int64_t blocks[2]{};
  for (int i = 0; i < 2; ++i) {
    arguments.lanes[i] = typename Kernel::Lanes(operands[i].runs, operands[i].length);
    blocks[i] = arguments.lanes[i].blocks(operands[i].matrices);
  }
  arguments.first_blocks = blocks[0];
  launch<Kernel>({.blocks = blocks[0] + blocks[1], .threads = Kernel::kThreads}, stream, arguments);
}

// Copies of `call` what needs it into `place`, makes the copies its operands and says whether there
// are any.
template <class T, class C>
bool realign(C& call, void* place, Stream stream) {
  auto* next = static_cast<T*>(place);
  Realignment<T> operands[2];
  int count = 0;
  int bytes = 16;
  for (Matrix* const matrix : {&call.a, &call.b}) {
    if (!needs_realigning(*matrix, call.dtype)) continue;
    bytes = std::min(bytes, alignment_of(*matrix, call.dtype));
    Realignment<T>& operand = operands[count++];
    operand = {.from = matrix->template as<const T>(),
               .to = next,
               .runs = matrix->runs,
               .length = matrix->length,
               .from_leading = matrix->leading,
               .to_leading = realigned_leading(*matrix),
               .matrices = matrices_of_operand(call, *matrix),
               .from_batch = matrix->batch,
               .to_batch = realigned_batch(*matrix)};
    next += operand.matrices * operand.to_batch;
    matrix->data = operand.to;
    matrix->leading = operand.to_leading;
    if (matrix->batch != 0) matrix->batch = operand.to_batch;
  }
  if (count == 0) return false;
  switch (bytes) {
    case 2: launch_realign<RealignKernel<T, 2>>(operands, stream); break;
    case 4: launch_realign<RealignKernel<T, 4>>(operands, stream); break;
    default:  // 8, and 16 where rows overlap
      launch_realign<RealignKernel<T, 8>>(operands, stream);
  }
  return true;
}

}  // namespace ws::gemm
