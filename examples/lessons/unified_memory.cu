// Four ways for a kernel to reach what the host has written, and what each costs the first time and
// once the data is there.
//
//   nvcc -O3 -o unified_memory unified_memory.cu && ./unified_memory 26
//   warpsmith run unified_memory.cu           # in the emulator, where times mean nothing
//
// The argument: the logarithm of the number of floats.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                           \
  do {                                                                        \
    const cudaError_t status = (call);                                        \
    if (status != cudaSuccess) {                                              \
      fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                     \
    }                                                                         \
  } while (0)

const int kThreads = 256;
const int kMostBlocks = 2048;

__global__ void add_one(float* x, size_t n) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) x[i] += 1;
}

void launch(float* x, size_t n) {
  const size_t blocks = std::min<size_t>((n + kThreads - 1) / kThreads, kMostBlocks);
  add_one<<<blocks, kThreads>>>(x, n);
  CHECK(cudaGetLastError());
}

// Milliseconds between two moments of the default stream.
class Timer {
 public:
  Timer() {
    CHECK(cudaEventCreate(&start_));
    CHECK(cudaEventCreate(&stop_));
  }
  ~Timer() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  void start() { CHECK(cudaEventRecord(start_)); }
  float stop() {
    float ms = 0;
    CHECK(cudaEventRecord(stop_));
    CHECK(cudaEventSynchronize(stop_));
    CHECK(cudaEventElapsedTime(&ms, start_, stop_));
    return ms;
  }

 private:
  cudaEvent_t start_, stop_;
};

void fill(float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 1000);
}

// Both launches have added 1.
void report(const char* name, float first, float again, const float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (x[i] != static_cast<float>(i % 1000) + 2) {
      fprintf(stderr, "%s: x[%zu] is %g\n", name, i, x[i]);
      exit(EXIT_FAILURE);
    }
  }
  printf("%-28s %9.3f %9.3f\n", name, first, again);
}

// Memory of the host, memory of the device, copies.
void copies(size_t n) {
  float* host = static_cast<float*>(malloc(n * sizeof(float)));
  float* device;
  CHECK(cudaMalloc(&device, n * sizeof(float)));
  fill(host, n);
  Timer timer;
  timer.start();
  CHECK(cudaMemcpy(device, host, n * sizeof(float), cudaMemcpyHostToDevice));
  launch(device, n);
  const float first = timer.stop();
  timer.start();
  launch(device, n);
  const float again = timer.stop();
  CHECK(cudaMemcpy(host, device, n * sizeof(float), cudaMemcpyDeviceToHost));
  report("cudaMalloc and copies", first, again, host, n);
  CHECK(cudaFree(device));
  free(host);
}

void prefetch(float* x, size_t n) {
#if CUDART_VERSION >= 13000
  CHECK(
      cudaMemPrefetchAsync(x, n * sizeof(float), cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0));
#else
  CHECK(cudaMemPrefetchAsync(x, n * sizeof(float), 0));
#endif
}

// One address for both sides. Pages move when somebody touches them, or when they are told to.
void managed(size_t n, bool is_prefetched) {
  float* x;
  CHECK(cudaMallocManaged(&x, n * sizeof(float)));
  fill(x, n);
  Timer timer;
  timer.start();
  if (is_prefetched) prefetch(x, n);
  launch(x, n);
  const float first = timer.stop();
  timer.start();
  launch(x, n);
  const float again = timer.stop();
  report(is_prefetched ? "managed, prefetched" : "managed, on first touch", first, again, x, n);
  CHECK(cudaFree(x));
}

// The host's own memory, which the kernel reaches through the bus, each time.
void mapped(size_t n) {
  float *host, *device;
  CHECK(cudaHostAlloc(&host, n * sizeof(float), cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&device, host, 0));
  fill(host, n);
  Timer timer;
  timer.start();
  launch(device, n);
  const float first = timer.stop();
  timer.start();
  launch(device, n);
  const float again = timer.stop();
  report("pinned and mapped", first, again, host, n);
  CHECK(cudaFreeHost(host));
}

int main(int argc, char** argv) {
  const int logarithm = argc > 1 ? atoi(argv[1]) : 14;
  if (logarithm < 0 || logarithm > 32) {
    fprintf(stderr, "the number of floats is 2 to the power of 0 to 32, not %s\n", argv[1]);
    return EXIT_FAILURE;
  }
  const size_t n = size_t{1} << logarithm;
  add_one<<<1, 1>>>(nullptr, 0);  // the first launch of a program loads it
  CHECK(cudaDeviceSynchronize());
  printf("%.3f MB\n%-28s %9s %9s  ms\n", n * sizeof(float) / 1e6, "", "first", "again");
  copies(n);
  managed(n, false);
  managed(n, true);
  mapped(n);
  return 0;
}
