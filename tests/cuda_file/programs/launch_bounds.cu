// Launch bounds in all the ways to write them: before and behind the type, a template's argument,
// on the declaration alone; a larger block is refused, and the kernel's attributes know.
#include <cstdio>

#define THREADS 256
constexpr int kThreads = 128;

__global__ void __launch_bounds__(THREADS, 2) behind(int* x) { x[threadIdx.x] = 1; }
__launch_bounds__(kThreads) __global__ void before(int* __restrict__ x) { x[threadIdx.x] += 1; }
template <int T = kThreads, class V = int>
__global__ __launch_bounds__(T) void of_template(V* x) {
  x[threadIdx.x] += T;
}
extern "C" __global__ void __launch_bounds__(64, 1, 1) clusters_too(int* x) {
  x[threadIdx.x] += 1;
}
inline __global__ __launch_bounds__(kThreads * 2, (kThreads > 64 ? 4 : 2)) void declared(
    int* x, int add = 2);
__global__ void declared(int* x, int add) { x[threadIdx.x] += add; }
__global__ void __maxnreg__(64) free_of_it(int* x) { x[threadIdx.x] += 1; }

#define KERNEL __global__ void
KERNEL by_macro(int* x) { x[threadIdx.x] += 1; }

bool refused() { return cudaGetLastError() == cudaErrorInvalidValue; }

int main() {
  int* x;
  cudaMallocManaged(&x, 1024 * sizeof(int));
  behind<<<1, 256>>>(x);
  before<<<1, 128>>>(x);
  of_template<><<<1, 128>>>(x);
  of_template<64><<<1, 64>>>(x);
  clusters_too<<<1, 64>>>(x);
  declared<<<1, 256>>>(x);
  free_of_it<<<1, 32>>>(x);
  by_macro<<<1, 32>>>(x);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  printf("%d %d\n", x[0], x[255]);
  if (x[0] != 1 + 1 + 128 + 64 + 1 + 2 + 1 + 1 || x[255] != 3) return 2;

  behind<<<1, 257>>>(x);
  if (!refused()) return 3;
  before<<<1, 256>>>(x);
  if (!refused()) return 4;
  of_template<32><<<1, 64>>>(x);
  if (!refused()) return 5;
  declared<<<1, 512>>>(x);
  if (!refused()) return 6;
  auto pointer = clusters_too;
  pointer<<<1, 128>>>(x);
  if (!refused()) return 7;
  if (cudaDeviceSynchronize() != cudaSuccess) return 8;

  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, before);
  int grid = 0;
  int block = 0;
  cudaOccupancyMaxPotentialBlockSize(&grid, &block, of_template<96>);
  printf("at most %d and %d threads\n", attributes.maxThreadsPerBlock, block);
  return attributes.maxThreadsPerBlock == 128 && block == 96 ? 0 : 9;
}
