// output: PASS
// Random numbers made by each thread, 64-bit atomics, votes.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#define CUDA_CHECK(expr)                                                              \
  do {                                                                                \
    cudaError_t err = (expr);                                                         \
    if (err != cudaSuccess) {                                                         \
      std::fprintf(stderr, "%s at %s:%d\n", cudaGetErrorString(err), __FILE__, __LINE__); \
      std::exit(EXIT_FAILURE);                                                        \
    }                                                                                 \
  } while (0)

__device__ __forceinline__ unsigned next(unsigned long long& state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return static_cast<unsigned>(state >> 33);
}

__global__ void count_hits(unsigned long long* hits, int tries) {
  unsigned long long state = blockIdx.x * blockDim.x + threadIdx.x + 1;
  for (int i = 0; i < 8; ++i) next(state);
  unsigned found = 0;
  for (int i = 0; i < tries; ++i) {
    const float x = next(state) * (1.0f / 2147483648.0f), y = next(state) * (1.0f / 2147483648.0f);
    const unsigned inside = __ballot_sync(0xffffffff, x * x + y * y < 1.0f);
    if (threadIdx.x % warpSize == 0) found += __popc(inside);
  }
  if (found != 0) atomicAdd(hits, static_cast<unsigned long long>(found));
}

int main() {
  unsigned long long* hits;
  CUDA_CHECK(cudaMallocManaged(&hits, sizeof(*hits)));
  *hits = 0;
  count_hits<<<4, 128>>>(hits, 64);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  const double pi = 4.0 * static_cast<double>(*hits) / (4 * 128 * 64);
  std::printf("%s\n", std::fabs(pi - 3.14159) < 0.05 ? "PASS" : "FAIL");
  CUDA_CHECK(cudaFree(hits));
  return std::fabs(pi - 3.14159) < 0.05 ? 0 : 1;
}
