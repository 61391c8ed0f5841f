// Idea: mean and variance in one pass, each moved along as a number comes in (Welford); rms_norm
// moves the mean of the squares the same way.
// From warp_per_row: the row is read twice instead of three times, and no sum grows: what is kept
// is of the order of the numbers themselves, however long the row is.
// Traffic: two reads, one write. The price is a division for each element.
// Limits: a dense matrix with its parameters.
#pragma once

#include "kernels/norm/plain.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/moments.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::norm {

template <class T, bool kCentred>
struct WelfordKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Arguments = Plain<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows) return;
    const T* x = a.x + row * a.columns;
    T* y = a.y + row * a.columns;

    float count = 0;
    float mean = 0;     // of rms_norm: of the squares
    float squares = 0;  // sum((x - mean)^2)
    for (int64_t i = lane_index(); i < a.columns; i += kWarpSize) {
      const float v = to_float(thread::load(x + i));
      count += 1;
      if constexpr (kCentred) {
        const float before = v - mean;
        mean += before / count;
        squares += before * (v - mean);
      } else {  // an infinite mean has to stay what it is
        mean = mean * (1 - 1 / count) + v * v / count;
      }
    }
    float shift = 0;
    float variance = 0;
    if constexpr (kCentred) {  // two sets of numbers are one by Chan's formula, thread/moments.hpp
      const auto all =
          warp::all_reduce(thread::Moments{count, mean, squares, 0}, warp::MergeMoments{});
      shift = all.mean;
      variance = all.squares / all.count;
    } else {  // shares of the mean: two infinite ones have no difference
      variance = warp::all_reduce(mean * (count / static_cast<float>(a.columns)),
                                  [](float x, float y) { return x + y; });
    }
    const float rstd = thread::rsqrt(variance + a.eps);

    for (int64_t i = lane_index(); i < a.columns; i += kWarpSize) {
      const float z = (to_float(thread::load(x + i)) - shift) * rstd;
      const float bias = kCentred ? to_float(thread::load(a.bias + i)) : 0.0F;
      thread::store(y + i, from_float<T>(z * to_float(thread::load(a.weight + i)) + bias));
    }
  }
};

struct Welford {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return is_plain(call, why);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = WelfordKernel<T, Call::kCentred>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream, plain_of<T>(call));
    });
  }
};

inline constexpr Seed kWelfordSeeds[] = {
    {.name = "layer_norm_forward_welford", .operation = "layer_norm"},
    {.name = "rms_norm_forward_welford", .operation = "rms_norm"},
};
inline constexpr Rung kWelford = rung_of<Welford, LayerNorm, RmsNorm>({
    .name = "welford",
    .from = "warp_per_row",
    .idea = "mean and variance in one pass: two reads",
    .seeds = kWelfordSeeds,
});

}  // namespace ws::norm
