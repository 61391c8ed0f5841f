#include "kernels/linear/19_split_k.cuh"

namespace ws::linear {

template void run_split_k<bf16>(const Call&, Stream);

}  // namespace ws::linear
