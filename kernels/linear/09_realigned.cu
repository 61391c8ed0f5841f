#include "kernels/linear/09_realigned.cuh"

namespace ws::linear {

template void run_realigned_from<half>(const Call&, const Context&);

extern const Rung kRealigned;
constinit const Rung kRealigned = rung_of<Realigned, kHalves, Addmm, GemmAccumulate>({
    .name = "realigned",
    .from = "wgmma",
    .idea = "unaligned rows are copied once into aligned ones: any size on the tensor cores",
    .arch = Arch::kSm90a,
});

}  // namespace ws::linear
