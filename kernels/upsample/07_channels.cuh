// Idea: channels that lie side by side are copied, or added up, 16 bytes a thread; what a pixel is
// made of is found once, by one thread of the block.
// From any_layout: whole accesses. Ranges of copies cost hundreds of instructions, more than the
// time of 16 bytes of each copy; they stay in shared memory for all channels of their pixel.
// Traffic: each element once, two or four accesses in flight a thread; a pixel that is copied is
// read again by each copy, from the L2.
// Limits: channels inside, in whole vectors, all of it aligned to 16 bytes.
// Long: copies and their sum share the table of pixels.
#pragma once

#include <algorithm>

#include "kernels/upsample/06_any_layout.cuh"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::upsample {

// Where a pixel of the result lies, and the first that it is made of, which follow in rows and
// columns: what it copies, or its copies.
template <bool kIsForward>
struct Copies {
  static constexpr int kEach = kIsForward ? 2 : 1;  // pixels of a thread at once
  static constexpr int kFlight = 4;                 // gradients of a pixel at once

  int64_t to;
  int64_t from;
  int64_t rows;
  int64_t columns;

  static __device__ __forceinline__ Copies find(const Call& call, int64_t image, int row,
                                                int column) {
    const int64_t to = offset(call.out_strides, image, 0, row, column);
    const auto from = [&](int64_t k, int64_t l) { return offset(call.in_strides, image, 0, k, l); };
    if constexpr (kIsForward) {
      return {to, from(call.rows.source(row), call.columns.source(column)), 1, 1};
    } else {
      const int64_t k = call.rows.first_of(row);
      const int64_t l = call.columns.first_of(column);
      return {to, from(k, l), call.rows.end_of(row) - k, call.columns.end_of(column) - l};
    }
  }
  template <int kWidth, class T>
  __device__ __forceinline__ Vec<T, kWidth> load(const Call& call, const T* x) const {
    return kIsForward ? thread::load<kWidth>(x) : sum<kWidth>(call.in_strides, x);
  }

 private:
  // In order of rows; several gradients are asked for before the first is needed.
  template <int kWidth, class T>
  __device__ __forceinline__ Vec<T, kWidth> sum(const Strides& s, const T* x) const {
    Vec<float, kWidth> sums{};
    const int64_t back = s.row - columns * s.column;
    int64_t column = 0;
    for (int64_t left = rows * columns; left > 0; left -= kFlight) {
      Vec<T, kWidth> grad[kFlight];
#pragma unroll
      for (int k = 0; k < kFlight; ++k) {
        if (k < left) grad[k] = thread::load<kWidth>(x);
        const bool at_end = ++column == columns;
        if (at_end) column = 0;
        x += s.column + (at_end ? back : 0);
      }
#pragma unroll
      for (int k = 0; k < kFlight; ++k) {
        if (k >= left) break;
        const Vec<float, kWidth> added = thread::convert<float>(grad[k]);
#pragma unroll
        for (int c = 0; c < kWidth; ++c) sums[c] += added[c];
      }
    }
    return thread::convert<T>(sums);
  }
};

template <class T, class Pixel>
struct ChannelsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int kEach = Pixel::kEach;
  struct Arguments {
    Call call;
    int64_t pixels;
    int64_t pixels_a_block;   // up to kThreads
    thread::Divider vectors;  // of a pixel
    thread::Divider columns;  // of the result
    thread::Divider rows;
  };
  struct SharedStorage {
    SharedArray<Pixel, kThreads> pixels;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t first = block_index() * a.pixels_a_block;
    const auto count = static_cast<int>(std::min(a.pixels_a_block, a.pixels - first));
    if (thread_index() < count) {
      shared.pixels[thread_index()] = find(a, static_cast<uint32_t>(first + thread_index()));
    }
    ptx::barrier_sync();

    const uint32_t vectors = count * a.vectors.divisor();
    for (uint32_t at = thread_index(); at < vectors; at += kEach * kThreads) {
      Vec<T, kWidth> values[kEach];
      T* to[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const uint32_t i = at + e * kThreads;
        if (i >= vectors) break;
        const uint32_t number = a.vectors.quotient(i);
        const int64_t channel = int64_t{i - number * a.vectors.divisor()} * kWidth;
        const Pixel pixel = shared.pixels[number];
        to[e] = static_cast<T*>(a.call.out) + pixel.to + channel;
        const T* from = static_cast<const T*>(a.call.in) + pixel.from + channel;
        values[e] = pixel.template load<kWidth>(a.call, from);
      }
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        if (at + e * kThreads < vectors) thread::store(to[e], values[e]);
      }
    }
  }

 private:
  static __device__ __forceinline__ Pixel find(const Arguments& a, uint32_t i) {
    const auto take = [&](const thread::Divider& extent) {
      const uint32_t whole = extent.quotient(i);
      const uint32_t found = i - whole * extent.divisor();
      i = whole;
      return static_cast<int>(found);
    };
    const int column = take(a.columns);
    const int row = take(a.rows);
    return Pixel::find(a.call, i, row, column);
  }
};

template <template <bool kIsForward> class Pixel>
struct ChannelsOf {
  template <class OperationCall>
  static bool supports(const OperationCall& call, Why& why) {
    const int64_t width = width_of(call);
    const auto is_whole = [&](const void* data, const Strides& s) {
      return is_aligned(data) && (s.image | s.row | s.column) % width == 0;
    };
    return has_channels_inside(call, why) &&
           why.unless(call.channels % width == 0 && is_whole(call.in, call.in_strides) &&
                          is_whole(call.out, call.out_strides),
                      "takes pixels of whole vectors of ", width,
                      " channels, aligned to 16 bytes") &&
           is_counted(pixels_of(call), why) && is_counted(call.channels / width, why);
  }
  template <class OperationCall>
  static void run(const OperationCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      constexpr bool kIsForward = OperationCall::kIsForward;
      using Kernel = ChannelsKernel<T, Pixel<kIsForward>>;
      constexpr int64_t kVectors = 4 * Kernel::kThreads;  // of a block, where pixels are small
      const int64_t pixels = pixels_of(call);
      const int64_t vectors = call.channels / Kernel::kWidth;
      const int64_t of_block = std::clamp<int64_t>(kVectors / vectors, 1, Kernel::kThreads);
      launch<Kernel>({.blocks = divide_up(pixels, of_block), .threads = Kernel::kThreads},
                     context.stream,
                     {call, pixels, of_block, thread::Divider(vectors),
                      thread::Divider(kIsForward ? call.columns.to : call.columns.from),
                      thread::Divider(kIsForward ? call.rows.to : call.rows.from)});
    });
  }

 private:
  template <class OperationCall>
  static int64_t pixels_of(const OperationCall& call) {
    return call.images * (OperationCall::kIsForward ? call.rows.to * call.columns.to
                                                    : call.rows.from * call.columns.from);
  }
};

inline constexpr Rung kChannels =
    rung_of<ChannelsOf<Copies>, UpsampleNearest2d, UpsampleNearest2dBackward>({
        .name = "channels",
        .from = "any_layout",
        .idea = "channels that lie side by side, 16 bytes a thread",
    });

}  // namespace ws::upsample
