// y = softmax of each row of x, a warp a row.
#include <cmath>

template <class Combine>
__device__ float warp_reduce(float value, Combine combine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
  return value;  // in all lanes
}

__global__ void softmax_kernel(int columns, const float* x, float* y) {
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  const int lane = threadIdx.x;

  float most = -INFINITY;
  for (int i = lane; i < columns; i += 32) most = fmaxf(most, x[i]);
  most = warp_reduce(most, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0;
  for (int i = lane; i < columns; i += 32) sum += expf(x[i] - most);
  sum = warp_reduce(sum, [](float a, float b) { return a + b; });

  for (int i = lane; i < columns; i += 32) y[i] = expf(x[i] - most) / sum;
}

void softmax(int rows, int columns, const float* x, float* y) {
  softmax_kernel<<<rows, 32>>>(columns, x, y);
}
