#ifndef COMMON_H
#define COMMON_H
#include <cuda_runtime.h>
__device__ inline int global_index() { return blockIdx.x * blockDim.x + threadIdx.x; }
inline void check(cudaError_t e) { if (e != cudaSuccess) exit(1); }
#endif
