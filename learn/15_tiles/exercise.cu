// y[i] = the mean of x[i - 3] to x[i + 3]; what lies outside counts as 0.

__global__ void smooth_kernel(int n, const float* x, float* y) {
  __shared__ float tile[3 + 128 + 3];
  const int t = threadIdx.x;
  for (int start = blockIdx.x * 128; start < n; start += gridDim.x * 128) {
    for (int k = t; k < 3 + 128 + 3; k += 128) {
      const int i = start - 3 + k;
      tile[k] = i >= 0 && i < n ? x[i] : 0.0f;
    }
    __syncthreads();

    float sum = 0;
    for (int k = 0; k < 7; ++k) sum += tile[t + k];
    if (start + t < n) y[start + t] = sum / 7;
  }
}

void smooth(int n, const float* x, float* y) { smooth_kernel<<<2, 128>>>(n, x, y); }
