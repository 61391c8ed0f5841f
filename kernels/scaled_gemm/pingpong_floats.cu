#include "kernels/scaled_gemm/06_pingpong.cuh"

namespace ws::scaled_gemm {

void run_pingpong_of_floats(const Call& call, Stream stream) {
  const int policy = gemm::plan_whole_tiles<PingpongTiles>(in_halves(call)).policy;
  PingpongTiles::with(policy, [&]<class Policy>() {
    with_pair(call, [&]<class A, class B>() {
      launch_wgmma<PingpongKernel<A, B, Policy, ScaledOutput>>(call, ScaledOutput(call), stream);
    });
  });
}

}  // namespace ws::scaled_gemm
