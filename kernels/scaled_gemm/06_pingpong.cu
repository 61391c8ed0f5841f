#include "kernels/scaled_gemm/06_pingpong.cuh"

namespace ws::scaled_gemm {

void Pingpong::run(const Call& call, const Context& context) {
  if (call.dtype != DType::kI8) return run_pingpong_of_floats(call, context.stream);
  const int policy = gemm::plan_whole_tiles<PingpongTiles>(in_halves(call)).policy;
  PingpongTiles::with(policy, [&]<class Policy>() {
    using Kernel = PingpongKernel<int8_t, int8_t, Policy, IntegerOutput>;
    launch_wgmma<Kernel>(call, IntegerOutput::of<typename Kernel::Store>(call), context.stream);
  });
}

extern const Rung kPingpong;
constinit const Rung kPingpong = rung_of<Pingpong, IntMm, ScaledMm>({
    .name = "pingpong",
    .from = "wgmma",
    .idea = "a tile for each warpgroup: one multiplies while the other scales and stores",
    .arch = Arch::kSm90a,
});

}  // namespace ws::scaled_gemm
