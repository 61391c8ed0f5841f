// Rows of vectors of 16 bytes, taken in the order of addresses: what compact_rows launches.
#pragma once

#include "kernels/elementwise/dispatch.hpp"
#include "kernels/elementwise/front.hpp"
#include "kernels/fused/functors.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/row/packed.hpp"
#include "warpsmith/thread/divide.hpp"

#if WS_DEVICE_CODE
namespace ws::fused {

using elementwise::kOutputs;
using elementwise::PointersOf;

template <class T, class Functor, class Policy>
struct CompactRowsKernel {
  static constexpr int kThreads = Policy::kThreads;
  // As many threads as any SM since sm_80 holds, but where slopes or a bias take more registers
  // than that leaves them; still 40 KiB are in flight, or 48.
  static constexpr int kResident = kOutputs<Functor> == 2                 ? 1024
                                   : Functor::kStreams < Functor::kInputs ? 1280
                                                                          : 1536;
  static constexpr int kMinBlocks = kResident / kThreads;
  static constexpr int kLoads = Policy::kLoads;
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int kInputs = Functor::kInputs;
  static constexpr int kOperands = kInputs + kOutputs<Functor>;
  static constexpr int kTile = kThreads * kLoads;  // vectors of a block
  using Packed = row::Packed<T, kWidth>;           // two that share a register come apart cheaply

  struct Arguments {
    PointersOf<T, Functor> at;
    Functor f;
    uint32_t vectors;            // of all rows, below 2^31
    thread::Divider row;         // vectors of a row
    int64_t strides[kOperands];  // from row to row, in elements; 0 of a bias
    int tail;                    // elements after the last vector: of one row
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const auto tile = static_cast<uint32_t>(block_index()) * kTile;
    if (tile + kTile <= a.vectors) {
      walk(a, tile, [](uint32_t) { return true; });
      return;
    }
    walk(a, tile, [&](uint32_t vector) { return vector < a.vectors; });
    if (thread_index() >= a.tail) return;  // of the last block, the only one that comes here
    const int64_t i = static_cast<int64_t>(a.vectors) * kWidth + thread_index();
    T x[kInputs];
    T y[kOutputs<Functor>];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) x[k] = thread::load(a.at.inputs[k] + i);
    elementwise::apply(a.f, x, y);
#pragma unroll
    for (int k = 0; k < kOutputs<Functor>; ++k) thread::store(a.at.outputs[k] + i, y[k]);
  }

 private:
  template <class Inside>
  static __device__ __forceinline__ void walk(const Arguments& a, uint32_t tile,
                                              const Inside& inside) {
    const uint32_t first = tile + static_cast<uint32_t>(thread_index());
    Packed x[kLoads][kInputs];
    uint32_t row[kLoads];
    uint32_t column[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const uint32_t vector = first + static_cast<uint32_t>(j * kThreads);
      row[j] = a.row.quotient(vector);
      column[j] = (vector - row[j] * a.row.divisor()) * kWidth;
      if (!inside(vector)) continue;
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        x[j][k] = Packed::load(a.at.inputs[k] + (row[j] * a.strides[k] + column[j]));
      }
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (!inside(first + static_cast<uint32_t>(j * kThreads))) continue;
      Vec<T, kWidth> y[kOutputs<Functor>];
      elementwise::apply(a.f, x[j], y);
#pragma unroll
      for (int k = 0; k < kOutputs<Functor>; ++k) {
        const int64_t at = row[j] * a.strides[kInputs + k] + column[j];
        thread::store(a.at.outputs[k] + at, y[k]);
      }
    }
  }
};

// Launches at most kMostVectors at once: whole rows, or pieces of the only one.
template <class Kernel, class T, class Functor>
void launch_rows(const elementwise::Layout& layout, PointersOf<T, Functor> at, const Functor& f,
                 Stream stream, int64_t most_vectors = (int64_t{1} << 31) - Kernel::kTile) {
  constexpr int kWidth = Kernel::kWidth;
  const bool one_row = layout.rank < 2;
  int64_t rows = one_row ? 1 : layout.extents[0];
  int64_t columns = one_row ? layout.elements : layout.extents[1];
  typename Kernel::Arguments arguments{};
  arguments.f = f;
  for (size_t k = 0; k < Kernel::kOperands; ++k) {
    arguments.strides[k] = one_row ? 0 : layout.strides[k][0];
  }
  while (rows > 0 && columns > 0) {
    const int64_t of_row = columns / kWidth;
    const int64_t piece = one_row ? std::min(of_row, most_vectors) : of_row;
    const int64_t now = one_row ? 1 : std::min(rows, std::max<int64_t>(most_vectors / of_row, 1));
    const bool last = now == rows && piece == of_row;
    arguments.at = at;
    arguments.vectors = static_cast<uint32_t>(now * piece);
    arguments.row = thread::Divider(std::max<int64_t>(piece, 1));
    arguments.tail = last ? static_cast<int>(columns % kWidth) : 0;
    const bool has_rest = arguments.vectors % Kernel::kTile != 0 || arguments.tail != 0;
    launch<Kernel>({.blocks = arguments.vectors / Kernel::kTile + (has_rest ? 1 : 0),
                    .threads = Kernel::kThreads},
                   stream, arguments);
    if (last) return;
    const auto advance = [&](size_t k) {
      return one_row ? piece * kWidth : now * layout.strides[k][0];
    };
    for (size_t k = 0; k < Kernel::kInputs; ++k) at.inputs[k] += advance(k);
    for (size_t k = 0; k < kOutputs<Functor>; ++k) at.outputs[k] += advance(Kernel::kInputs + k);
    if (one_row) {
      columns -= piece * kWidth;
    } else {
      rows -= now;
    }
  }
}

struct CompactRows {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const elementwise::Layout& layout = call.layout;
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    if (!why.unless(layout.rank <= 2, "takes rows at one stride, got ", layout)) return false;
    const auto inner = static_cast<size_t>(layout.rank == 2 ? 1 : 0);
    for (size_t k = 0; k < static_cast<size_t>(layout.operands); ++k) {
      const auto past = reinterpret_cast<uintptr_t>(call.data[k]) % 16;
      if (!why.unless(past == 0, "needs pointers aligned to 16 bytes; '",
                      Call::Operation::kParameters[k].name, "' is ", past, " past") ||
          !why.unless(layout.rank == 0 || layout.strides[k][inner] == 1,
                      "takes elements side by side, got ", layout) ||
          !why.unless(layout.rank < 2 || layout.strides[k][0] % width == 0, "takes rows that are ",
                      width, " elements apart or a multiple of that, got ", layout)) {
        return false;
      }
    }
    return layout.rank < 2 ||
           (why.unless(layout.extents[1] % width == 0, "takes rows of whole vectors of ", width,
                       " elements, got ", layout) &&
            why.unless(layout.extents[1] / width < (int64_t{1} << 30),
                       "takes rows of up to 2^30 vectors, got ", layout));
  }

  // H200 policies of elementwise/compact_front: two loads a thread, from one tensor or from two.
  // The gradient of a bias_gelu of 16 bits takes twice two (2026-11-30: 100.8 % of copy, not 96.4).
  template <class T, class Functor>
  using PolicyFor = std::conditional_t<Functor::kStreams == 1 ||
                                           (sizeof(T) == 2 && Functor::kStreams < Functor::kInputs),
                                       elementwise::OneInput, elementwise::TwoInputs>;

  template <class Call>
  static void run(const Call& call, const Context& context) {
    elementwise::dispatch(call, [&]<class T, class Functor>(const Functor& f) {
      using Kernel = CompactRowsKernel<T, Functor, PolicyFor<T, Functor>>;
      launch_rows<Kernel>(call.layout, PointersOf<T, Functor>(call), f, context.stream);
    });
  }
};

}  // namespace ws::fused
#endif
