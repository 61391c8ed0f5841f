// Idea: channels that lie side by side are copied, or added up, 16 bytes a thread: a pixel's source
// is found once for four or eight of them.
// From any_layout: whole accesses, and three prepared divisions instead of three of 64 bits.
// Traffic: each element once; a pixel that is copied is read again by each copy, from the L2.
// Limits: channels inside, in whole vectors, all of it aligned to 16 bytes.
#pragma once

#include "kernels/upsample/06_any_layout.cuh"

namespace ws::upsample {

template <class T, bool kIsForward>
struct ChannelsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWidth = 16 / sizeof(T);
  struct Arguments {
    Call call;
    int64_t threads;
    thread::Divider vectors;  // of a pixel
    thread::Divider columns;  // of the result
    thread::Divider rows;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.threads) return;
    auto rest = static_cast<uint32_t>(i);
    const auto take = [&](const thread::Divider& extent) {
      const uint32_t whole = extent.quotient(rest);
      const uint32_t found = rest - whole * extent.divisor();
      rest = whole;
      return static_cast<int64_t>(found);
    };
    const Call& call = a.call;
    const int64_t channel = take(a.vectors) * kWidth;
    const int64_t column = take(a.columns);
    const int64_t row = take(a.rows);
    T* to = static_cast<T*>(call.out) + offset(call.out_strides, rest, channel, row, column);
    const T* from = static_cast<const T*>(call.in) + offset(call.in_strides, rest, channel, 0, 0);
    const auto at = [&](int64_t k, int64_t l) {
      return from + k * call.in_strides.row + l * call.in_strides.column;
    };
    if constexpr (kIsForward) {
      const T* x = at(call.rows.source(row), call.columns.source(column));
      thread::store(to, thread::load<kWidth>(x));
    } else {
      const int64_t first = call.columns.first_of(column);
      const int64_t last = call.columns.end_of(column);
      const int64_t last_row = call.rows.end_of(row);
      Vec<float, kWidth> sums{};
      for (int64_t k = call.rows.first_of(row); k < last_row; ++k) {
        for (int64_t l = first; l < last; ++l) {
          const Vec<float, kWidth> grad = thread::convert<float>(thread::load<kWidth>(at(k, l)));
#pragma unroll
          for (int c = 0; c < kWidth; ++c) sums[c] += grad[c];
        }
      }
      thread::store(to, thread::convert<T>(sums));
    }
  }
};

struct Channels {
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
           is_counted(threads_of(call), why);
  }
  template <class OperationCall>
  static void run(const OperationCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      constexpr bool kIsForward = OperationCall::kIsForward;
      using Kernel = ChannelsKernel<T, kIsForward>;
      const int64_t threads = threads_of(call);
      launch<Kernel>({.blocks = divide_up(threads, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream,
                     {call, threads, thread::Divider(call.channels / Kernel::kWidth),
                      thread::Divider(kIsForward ? call.columns.to : call.columns.from),
                      thread::Divider(kIsForward ? call.rows.to : call.rows.from)});
    });
  }

 private:
  template <class OperationCall>
  static int64_t threads_of(const OperationCall& call) {
    const int64_t pixels = OperationCall::kIsForward ? call.rows.to * call.columns.to
                                                     : call.rows.from * call.columns.from;
    return call.images * pixels * (call.channels / width_of(call));
  }
};

inline constexpr Rung kChannels = rung_of<Channels, UpsampleNearest2d, UpsampleNearest2dBackward>({
    .name = "channels",
    .from = "any_layout",
    .idea = "channels that lie side by side, 16 bytes a thread",
});

}  // namespace ws::upsample
