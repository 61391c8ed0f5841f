#include "kernels/linear/05_wgmma.cuh"

namespace ws::linear {

template void run_wgmma<bf16>(const Call&, Stream);

}  // namespace ws::linear
