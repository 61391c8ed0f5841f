// expect: not supported at 3: say __shfl_down_sync(mask, ...)
__global__ void k(float* x) {
  x[threadIdx.x] += __shfl_down(x[threadIdx.x], 1);
}
int main() { return 0; }
