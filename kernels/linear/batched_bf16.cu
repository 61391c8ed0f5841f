#include "kernels/linear/13_batched_pingpong.cuh"
#include "kernels/linear/14_batched_realigned.cuh"

namespace ws::linear {

template void run_batched_pingpong<bf16, bf16, bf16>(const BatchedCall&, int, int, Stream);
template void run_batched_pingpong<bf16, bf16, float>(const BatchedCall&, int, int, Stream);
template void run_batched_pingpong<bf16, float, float>(const BatchedCall&, int, int, Stream);
template void run_batched_realigned<bf16>(const BatchedCall&, int, Stream);

}  // namespace ws::linear
