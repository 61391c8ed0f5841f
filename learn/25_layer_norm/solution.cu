// y = (x - mean) / sqrt(variance + 1e-5) of each row, a warp a row.
#include <cmath>

__global__ void layer_norm_kernel(int columns, const float* x, float* y) {
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;

  float count = 0;
  float mean = 0;
  float deviations = 0;  // squared, summed
  for (int i = threadIdx.x; i < columns; i += 32) {
    const float value = x[i];
    count += 1;
    const float difference = value - mean;
    mean += difference / count;
    deviations += difference * (value - mean);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other_count = __shfl_xor_sync(0xffffffff, count, distance);
    const float other_mean = __shfl_xor_sync(0xffffffff, mean, distance);
    const float other_deviations = __shfl_xor_sync(0xffffffff, deviations, distance);
    const float both = count + other_count;
    if (both == 0) continue;
    const float difference = other_mean - mean;
    mean += difference * other_count / both;
    deviations += other_deviations + difference * difference * count * other_count / both;
    count = both;
  }
  // The two lanes of a pair round differently; all follow lane 0.
  mean = __shfl_sync(0xffffffff, mean, 0);
  const float scale = rsqrtf(__shfl_sync(0xffffffff, deviations, 0) / columns + 1e-5f);

  for (int i = threadIdx.x; i < columns; i += 32) y[i] = (x[i] - mean) * scale;
}

void layer_norm(int rows, int columns, const float* x, float* y) {
  layer_norm_kernel<<<rows, 32>>>(columns, x, y);
}
