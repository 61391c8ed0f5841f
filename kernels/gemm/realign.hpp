// Operands whose rows do not start at multiples of 16 bytes, copied once into rows that do.
#pragma once

#include <bit>

#include "kernels/gemm/batched.hpp"
#include "kernels/gemm/plan.hpp"
#include "kernels/gemm/run_lanes.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/realign.hpp"

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

// Of runs that start anywhere: a vector of a copy lies across two pieces of 16 bytes, which are
// shifted together. A group of lanes takes a run, as many as it has work for.
template <class T>
struct RealignKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  static constexpr int kUnroll = 4;
  using Lanes = RunLanes<kThreads, kWidth * kUnroll, 8>;

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
    const T* const from = operand.from + matrix * operand.from_batch + run * operand.from_leading;
    T* const to = operand.to + matrix * operand.to_batch + run * operand.to_leading;
    // How far into its first piece each of a lane's vectors begins.
    const auto bytes = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from + first) % 16);
    const auto before = static_cast<int64_t>(bytes / sizeof(T));
    // Whether both pieces lie in the run: what is beside it is not ours.
    const auto is_whole = [&](int64_t at) {
      return at >= before && at - before + (bytes == 0 ? 1 : 2) * kWidth <= operand.length;
    };
    Vec<T, kWidth> low[kUnroll]{};
    Vec<T, kWidth> high[kUnroll]{};
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * lanes.step(kWidth);
      if (is_whole(at)) {
        low[i] = thread::load<kWidth>(from + at - before);
        if (bytes != 0) high[i] = thread::load<kWidth>(from + at - before + kWidth);
      } else {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          if (at + e < operand.length) low[i][e] = thread::load(from + at + e);
        }
      }
    }
    // Rows of copies have room for whole vectors.
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      using Words = Vec<uint32_t, 4>;
      const int64_t at = first + i * lanes.step(kWidth);
      const uint32_t shift = is_whole(at) ? bytes : 0;
      const Words moved = thread::realign<sizeof(T)>(std::bit_cast<Words>(low[i]),
                                                     std::bit_cast<Words>(high[i]), shift);
      if (at < operand.length) thread::store(to + at, std::bit_cast<Vec<T, kWidth>>(moved));
    }
  }
};

// Elements from a matrix of copies to the next.
inline int64_t realigned_batch(const Matrix& matrix) {
  constexpr int64_t kRow = 128;  // 256 bytes
  return round_up(matrix.runs * realigned_leading(matrix), kRow);
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
// What they take in a batch, in us; kNever of more memory than anybody gets unasked.
template <class C>
double copies_time(const C& call) {
  constexpr double kLaunch = 3;
  constexpr double kCopies = 2.5e6;  // bytes a us, of runs of 64 elements and more
  const auto bytes = static_cast<double>(realigned_bytes(call));
  return bytes > kMostWorkspace ? kNever : kLaunch + 2 * bytes / kCopies;
}

// Copies of `call` what needs it into `place`, makes the copies its operands and says whether there
// are any.
template <class T, class C>
bool realign(C& call, void* place, Stream stream) {
  using Kernel = RealignKernel<T>;
  auto* next = static_cast<T*>(place);
  typename Kernel::Arguments copies;
  int64_t blocks = 0;
  int count = 0;
  for (Matrix* const matrix : {&call.a, &call.b}) {
    if (!needs_realigning(*matrix, call.dtype)) continue;
    typename Kernel::Lanes& lanes = copies.lanes[count];
    Realignment<T>& operand = copies.operands[count++];
    operand = {.from = matrix->template as<const T>(),
               .to = next,
               .runs = matrix->runs,
               .length = matrix->length,
               .from_leading = matrix->leading,
               .to_leading = realigned_leading(*matrix),
               .matrices = matrices_of_operand(call, *matrix),
               .from_batch = matrix->batch,
               .to_batch = realigned_batch(*matrix)};
    lanes = typename Kernel::Lanes(operand.runs, operand.length);
    blocks += lanes.blocks(operand.matrices);
    next += operand.matrices * operand.to_batch;
    matrix->data = operand.to;
    matrix->leading = operand.to_leading;
    if (matrix->batch != 0) matrix->batch = operand.to_batch;
    if (count == 1) copies.first_blocks = blocks;
  }
  if (count == 0) return false;
  launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads}, stream, copies);
  return true;
}

}  // namespace ws::gemm
