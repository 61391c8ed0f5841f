// largest[row] = the largest element of a row of x, a warp a row.
#include <cmath>

__global__ void row_max_kernel(int columns, const float* x, float* largest) {
  const float* row = x + blockIdx.x * columns;
  const int lane = threadIdx.x;
  float most = -INFINITY;
  for (int i = lane; i < columns; i += 32) most = fmaxf(most, row[i]);
  for (int distance = 16; distance > 0; distance /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
  }
  if (lane == 0) largest[blockIdx.x] = most;
}

void row_max(int rows, int columns, const float* x, float* largest) {
  row_max_kernel<<<rows, 32>>>(columns, x, largest);
}
