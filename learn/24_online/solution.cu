// y = softmax of each row of x, a warp a row.
#include <cmath>

__global__ void softmax_kernel(int columns, const float* x, float* y) {
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  const int lane = threadIdx.x;

  float most = -INFINITY;
  float sum = 0;
  for (int i = lane; i < columns; i += 32) {
    const float value = x[i];
    const float larger = fmaxf(most, value);
    sum = sum * expf(most - larger) + expf(value - larger);
    most = larger;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other_most = __shfl_xor_sync(0xffffffff, most, distance);
    const float other_sum = __shfl_xor_sync(0xffffffff, sum, distance);
    const float larger = fmaxf(most, other_most);
    if (larger == -INFINITY) continue;  // neither lane has an element
    sum = sum * expf(most - larger) + other_sum * expf(other_most - larger);
    most = larger;
  }

  for (int i = lane; i < columns; i += 32) y[i] = expf(x[i] - most) / sum;
}

void softmax(int rows, int columns, const float* x, float* y) {
  softmax_kernel<<<rows, 32>>>(columns, x, y);
}
