// Idea: twice the size asks nothing: a thread reads some pixels of a row once and writes each twice
// in a vector, into two rows.
// From naive: a pixel is read once, not by four threads; a vector of 8 bytes becomes two of 16, and
// one division tells where a thread is, since output rows 2 r and 2 r + 1 belong to row r.
// Traffic: each element once, in accesses of 8 and 16 bytes.
// Limits: twice the size, contiguous planes of columns in whole vectors, aligned to 16 bytes.
#pragma once

#include "kernels/upsample/images.hpp"

namespace ws::upsample {

// Rows and vectors of calls whose result, or gradient, has twice the size.
template <class OperationCall>
bool doubles_in_vectors(const OperationCall& call, Why& why) {
  const int64_t half = width_of(call) / 2;
  return is_dense(call, why) &&
         why.unless(call.rows.doubles() && call.columns.doubles(), "doubles, not ", call.rows.from,
                    " x ", call.columns.from, " to ", call.rows.to, " x ", call.columns.to) &&
         why.unless(call.columns.from % half == 0 && is_aligned(call.in) && is_aligned(call.out),
                    "takes columns in whole vectors, aligned to 16 bytes, not ",
                    call.columns.from) &&
         is_counted(call.planes() * call.rows.from * (call.columns.from / half), why);
}

template <class T>
struct TwiceKernel {
  static constexpr int kThreads = 128;
  static constexpr int kHalf = 8 / sizeof(T);  // pixels of a thread
  struct Arguments {
    const T* x;
    T* y;
    int64_t threads;
    thread::Divider vectors;  // of a row
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.threads) return;
    const int64_t row = a.vectors.quotient(static_cast<uint32_t>(i));
    const int64_t pitch = int64_t{2} * kHalf * a.vectors.divisor();
    const Vec<T, kHalf> x = thread::load<kHalf>(a.x + i * kHalf);
    Vec<T, 2 * kHalf> twice;
#pragma unroll
    for (int k = 0; k < 2 * kHalf; ++k) twice[k] = x[k / 2];
    T* y = a.y + row * pitch + i * 2 * kHalf;  // rows before this one are there twice
    thread::store(y, twice);
    thread::store(y + pitch, twice);
  }
};

struct Twice {
  static bool supports(const ForwardCall& call, Why& why) { return doubles_in_vectors(call, why); }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = TwiceKernel<T>;
      const int64_t vectors = call.columns.from / Kernel::kHalf;
      const int64_t threads = call.planes() * call.rows.from * vectors;
      launch<Kernel>({.blocks = divide_up(threads, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream,
                     {static_cast<const T*>(call.in), static_cast<T*>(call.out), threads,
                      thread::Divider(vectors)});
    });
  }
};

inline constexpr Seed kTwiceSeeds[] = {{"upsample_nearest2d_2x_forward_f32", {}, {DType::kF32}},
                                       {"upsample_nearest2d_2x_forward_f16", {}, {DType::kF16}}};
inline constexpr Rung kTwice = rung_of<Twice, UpsampleNearest2d>({
    .name = "twice",
    .from = "naive",
    .idea = "twice the size: pixels are read once and written four times, 16 bytes an access",
    .seeds = kTwiceSeeds,
});

}  // namespace ws::upsample
