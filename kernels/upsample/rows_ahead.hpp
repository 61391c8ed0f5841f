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
// for all of them.
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
  static constexpr int64_t kBytes = 4096;
};

// Rows of the result of a block: blocks for twice what runs at once, so that the last ones are few;
// equal parts of `height`, of at most `most` rows, and 8 so that what a block finds once serves
// some.
inline int64_t rows_a_block(int64_t height, int64_t groups, int64_t most) {
  constexpr int64_t kAtOnce = 5;
  const int64_t blocks = 2 * kAtOnce * device_facts().multiprocessors;
  const int64_t wanted = std::min(std::clamp<int64_t>(groups * height / blocks, 8, most), height);
  return divide_up(height, divide_up(height, wanted));
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
