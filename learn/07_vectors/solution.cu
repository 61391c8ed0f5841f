// y = a x for any n and any arrays of floats.
#include <cstdint>

__global__ void scale_kernel(int vectors, int n, float a, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < vectors) {
    float4 value = reinterpret_cast<const float4*>(x)[i];
    value.x *= a;
    value.y *= a;
    value.z *= a;
    value.w *= a;
    reinterpret_cast<float4*>(y)[i] = value;
  } else {  // what no vector holds, an element a thread
    const int k = 4 * vectors + (i - vectors);
    if (k < n) y[k] = a * x[k];
  }
}

void scale(int n, float a, const float* x, float* y) {
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const int vectors = aligned(x) && aligned(y) ? n / 4 : 0;
  const int threads = vectors + (n - 4 * vectors);
  scale_kernel<<<(threads + 127) / 128, 128>>>(vectors, n, a, x, y);
}
