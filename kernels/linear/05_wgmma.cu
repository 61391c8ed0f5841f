#include "kernels/linear/05_wgmma.cuh"

namespace ws::linear {

template void run_wgmma<half>(const Call&, Stream);

extern const Rung kWgmma;
constinit const Rung kWgmma = rung_of<Wgmma, kHalves, Addmm>({
    .name = "wgmma",
    .from = "mma_pipeline",
    .idea = "the epilogue between wgmma's registers and the copy engine; a bias waits in registers",
    .arch = Arch::kSm90a,
});

}  // namespace ws::linear
