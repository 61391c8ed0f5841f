// What rungs share that go down whole rows through shared memory: rows follow each other in global
// memory, so a few of them are one piece, which comes by itself while those before are used.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/upsample/images.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/forget.hpp"

namespace ws::upsample {

// ---- Elements of 16 bits by words ---------------------------------------------------------------

template <class T>
__device__ __forceinline__ SharedSpan<uint32_t> words_of(SharedSpan<T> elements) {
  return {reinterpret_cast<uint32_t*>(elements.pointer()), elements.size() / 2};
}
// What permute_bytes takes two of the four elements of two words by, numbered from 0 on.
__device__ __forceinline__ uint32_t halves(int first, int second) {
  return (0x10 + 0x22 * first) | (0x10 + 0x22 * second) << 8;
}
template <class T>
__device__ __forceinline__ Vec<float, 2> floats_of(uint32_t word) {
  Vec<T, 2> pair;
  std::memcpy(&pair, &word, sizeof(word));
  return thread::convert<float>(pair);
}

// ---- Rows ---------------------------------------------------------------------------------------

// Planes that a block takes at once: where a row or column lies, and what it weighs, is found once
// for all of them. Sums of four planes of 16 bits take 64 registers, which leaves four blocks an
// SM; f32 has half the instructions for a byte, and two.
template <class T>
inline constexpr int kPlanesAtOnce = 8 / static_cast<int>(sizeof(T));

// Two stages of so many rows each, of each plane.
struct RowStages {
  int columns;  // of a row, whole vectors of 16 bytes
  int rows;     // of a stage

  RowStages(int64_t columns, size_t element)
      : columns(static_cast<int>(columns)),
        rows(static_cast<int>(
            std::max<int64_t>(kBytes / (columns * static_cast<int64_t>(element)), 1))) {}

  __host__ __device__ int of_stage() const { return rows * columns; }
  __host__ __device__ int of_plane() const { return 2 * of_stage(); }

 private:
  // Four planes and four blocks have 64 KiB of an SM on their way, which hides the memory's
  // latency; as many again would halve the blocks.
  static constexpr int64_t kBytes = 4096;
};

// The result's rows by blocks, each of which takes some of them in kPlanesAtOnce planes.
template <class T>
class RowParts {
 public:
  static constexpr int kPlanes = kPlanesAtOnce<T>;
  struct Part {
    int plane;   // the first
    int planes;  // kPlanes, or fewer in the last
    int first;   // row
    int rows;
  };

  // Blocks for twice what runs at once, so that the last ones are few; equal parts of `height`, of
  // at most `most` rows, and 8 so that what a block finds once serves some.
  RowParts(int64_t planes, int64_t height, int64_t most)
      : planes_(static_cast<int>(planes)), height_(static_cast<int>(height)) {
    constexpr int64_t kAtOnce = 5;  // of an SM: four to six by registers and shared memory
    const int64_t wanted_blocks = 2 * kAtOnce * device_facts().multiprocessors;
    const int64_t wanted = std::clamp<int64_t>(groups() * height / wanted_blocks, 8, most);
    const int64_t blocks = divide_up(height, wanted);
    rows_ = static_cast<int>(divide_up(height, blocks));
    blocks_ = thread::Divider(divide_up(height, int64_t{rows_}));
  }
  int64_t blocks() const { return groups() * blocks_.divisor(); }
  __device__ __forceinline__ Part part() const {
    const auto block = static_cast<uint32_t>(block_index());
    const auto group = static_cast<int>(blocks_.quotient(block));
    const int first = static_cast<int>(block - group * blocks_.divisor()) * rows_;
    return {.plane = group * kPlanes,
            .planes = std::min(int{kPlanes}, planes_ - group * kPlanes),
            .first = first,
            .rows = std::min(rows_, height_ - first)};
  }

 private:
  int64_t groups() const { return divide_up(int64_t{planes_}, int64_t{kPlanes}); }

  int planes_;
  int height_;
  int rows_;                // of a block; the last of its planes may have fewer
  thread::Divider blocks_;  // of the same planes
};

// Threads for `columns` of the result by pairs, and room for stages. Its arguments have `parts` and
// `stage`.
template <class Kernel>
void launch_ahead(int64_t columns, const Context& context, const typename Kernel::Arguments& a) {
  launch<Kernel>({.blocks = a.parts.blocks(),
                  .threads = static_cast<int>(round_up(columns / 2, int64_t{kWarpSize})),
                  .dynamic_shared = size_t{Kernel::kPlanes} * a.stage.of_plane() * sizeof(*a.out)},
                 context.stream, a);
}

// use(row, at) for each row from `top` to before `bottom`, all threads of the block at once; `at`
// is where the row begins in `stages`, that of the next plane of_plane() elements behind it. Of
// fewer planes than kPlanesAtOnce the last one comes again.
template <class T, class Use>
__device__ __forceinline__ void for_rows_ahead(const T* data, int64_t of_plane, int planes, int top,
                                               int bottom, const RowStages& stage,
                                               SharedSpan<T> stages, Use&& use) {
  constexpr int kWidth = 16 / sizeof(T);
  const auto ask = [&](int first, int to) {
    const T* from = data + int64_t{first} * stage.columns;
    const int count = std::min(stage.rows, bottom - first) * stage.columns;
    for (int i = thread_index() * kWidth; i < count; i += block_threads() * kWidth) {
      const T* plane = from + i;
#pragma unroll
      for (int p = 0; p < kPlanesAtOnce<T>; ++p) {
        ptx::cp_async<16>(stages.pointer(to + i + p * stage.of_plane()), plane);
        if (p + 1 < planes) plane += of_plane;
      }
    }
    ptx::cp_async_commit_group();
  };
  int here = 0;
  ask(top, here);
  for (int first = top; first < bottom; first += stage.rows, here = stage.of_stage() - here) {
    // What lies here has come to all threads, and none is still at the other stage.
    ptx::cp_async_wait_group<0>();
    ptx::barrier_sync();
    if (first + stage.rows < bottom) ask(first + stage.rows, stage.of_stage() - here);
    const int end = std::min(first + stage.rows, bottom);
    int at = here;
    for (int row = first; row < end; ++row, at += stage.columns) use(row, at);
  }
}

}  // namespace ws::upsample
