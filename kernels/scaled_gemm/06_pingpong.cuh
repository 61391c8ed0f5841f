// Idea: a warpgroup has a tile to itself, as in gemm's pingpong: while one scales and stores its
//   tile, the other multiplies the next.
// From wgmma: with half as much of K to hide it, the end of a tile weighs twice: 32 slices of 128
//   bytes are 4096 of K. Small tiles too, of one warpgroup's 64 x 64.
// Traffic: 128 x 128 reads 24 KB from L2 for 512 cycles of products (cluster of two), where wgmma's
//   128 x 256 reads 32 for 1024.
// Limits: as wgmma.
#pragma once

#include "kernels/gemm/45_pingpong.cuh"
#include "kernels/scaled_gemm/03_wgmma.cuh"

namespace ws::scaled_gemm {

template <class A, class B, class Policy, class Output>
using PingpongKernel = gemm::PingpongKernel<A, Contiguous::kColumns, Contiguous::kRows, Policy,
                                            Output, gemm::WholeTiles, B>;

struct Pingpong {
  static bool supports(const Call& call, Why& why) { return Wgmma::supports(call, why); }

  // In units of their own: `realigned` calls it too.
  static void run(const Call& call, const Context& context);
};
// Many kernels: pingpong_floats.cu has them.
void run_pingpong_of_floats(const Call& call, Stream stream);

}  // namespace ws::scaled_gemm
