#include "kernels.cuh"
#include "../parts/common.h"
void launch_fill(float *x, float v, int n) { fill<<<(n + 31) / 32, 32>>>(x, v, n); }
