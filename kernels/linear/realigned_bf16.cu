#include "kernels/linear/09_realigned.cuh"

namespace ws::linear {

template void run_realigned_from<bf16>(const Call&, const Context&);

}  // namespace ws::linear
