// What stands outside of functions: a __shared__ flag, as in the guide's sum by the last block, and
// constants of a type without a name; a kernel that takes managed memory by reference.
#include <cstdio>

__device__ unsigned int count = 0;
__shared__ bool isLastBlockDone;
__shared__ float partial[64];
__constant__ struct {
  int n;
  float factors[2];
} settings;

__global__ void sum(const float* in, volatile float* result) {
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < settings.n; i += blockDim.x * gridDim.x)
    v += in[i];
  partial[threadIdx.x] = v * settings.factors[1];
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (int i = 0; i < 64; ++i) all += partial[i];
    result[blockIdx.x] = all;
    __threadfence();
    isLastBlockDone = atomicInc(&count, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (isLastBlockDone && threadIdx.x == 0) {
    float all = 0;
    for (int i = 0; i < gridDim.x; ++i) all += result[i];
    result[0] = all;
    count = 0;
  }
}

// A parameter and a variable of that name are no shared memory.
__global__ void others(float* partial, int n) {
  const bool isLastBlockDone = threadIdx.x == n - 1;
  if (isLastBlockDone) partial[n] = n;
}

struct Element {
  int value;
  char name[8];
};
__global__ void by_reference(Element& element, int add) {
  if (threadIdx.x == 0) element.value += add;
  if (threadIdx.x < 5) element.name[threadIdx.x] -= 32;
}

int main() {
  struct {
    int n;
    float factors[2];
  } host = {1000, {1, 2}};
  cudaMemcpyToSymbol(settings, &host, sizeof(host));
  float* in;
  float* out;
  cudaMallocManaged(&in, 1000 * sizeof(float));
  cudaMallocManaged(&out, 64 * sizeof(float));
  for (int i = 0; i < 1000; ++i) in[i] = 1;
  sum<<<8, 64>>>(in, out);
  others<<<1, 32>>>(out, 16);
  cudaDeviceSynchronize();
  printf("%g %g\n", out[0], out[16]);
  if (out[0] != 2000 || out[16] != 16) return 1;

  Element* element;
  cudaMallocManaged(&element, sizeof(Element));
  *element = {10, "hello"};
  by_reference<<<1, 32>>>(*element, 3);
  cudaDeviceSynchronize();
  printf("%s %d\n", element->name, element->value);
  return element->value == 13 && element->name[0] == 'H' && element->name[4] == 'O' ? 0 : 2;
}
