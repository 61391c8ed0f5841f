#include "kernels/scaled_gemm/03_wgmma.cuh"

namespace ws::scaled_gemm {

void Wgmma::run(const Call& call, const Context& context) {
  if (call.dtype == DType::kI8) {
    using Store = tile::WarpStore<int32_t, 1, 32>;
    const auto output = IntegerOutput::of<Store>(call);
    if (prefers_wide(call)) {
      launch_wgmma<WgmmaKernel<int8_t, int8_t, Wide, IntegerOutput>>(call, output, context.stream);
    } else {
      launch_wgmma<WgmmaKernel<int8_t, int8_t, Small, IntegerOutput>>(call, output, context.stream);
    }
    return;
  }
  with_pair(call, [&]<class A, class B>() {
    const ScaledOutput output(call);
    launch_wgmma<WgmmaKernel<A, B, Wide, ScaledOutput>>(call, output, context.stream);
  });
}

extern const Rung kWgmma;
constinit const Rung kWgmma = rung_of<Wgmma, IntMm, ScaledMm>({
    .name = "wgmma",
    .from = "any_layout",
    .idea = "8-bit wgmma under warp specialisation: twice the products of 16 bits a second",
    .arch = Arch::kSm90a,
});

}  // namespace ws::scaled_gemm
