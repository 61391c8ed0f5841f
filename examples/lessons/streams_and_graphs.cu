// What can go on at the same time, and what a launch costs: copies both ways and kernels in one
// stream and in three; small kernels launched one by one and as a graph.
//
//   nvcc -O3 -o streams_and_graphs streams_and_graphs.cu && ./streams_and_graphs 26
//   warpsmith run streams_and_graphs.cu       # in the emulator, where times mean nothing
//
// The argument: the logarithm of the number of floats that the streams carry.
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

const int kStreams = 3;
const int kChunks = 12;
const int kSmallKernels = 200;
const int kSmall = 1024;  // elements of a small kernel
const int kThreads = 256;
const int kMostBlocks = 2048;

__global__ void add_one(float* x, size_t n) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) x[i] += 1;
}

void launch(float* x, size_t n, cudaStream_t stream) {
  const size_t blocks = std::min<size_t>((n + kThreads - 1) / kThreads, kMostBlocks);
  add_one<<<blocks, kThreads, 0, stream>>>(x, n);
  CHECK(cudaGetLastError());
}

// Milliseconds that `work` takes on the device, from the default stream, for which all others wait.
template <class Work>
float time_of(Work work) {
  cudaEvent_t start, stop;
  float ms = 0;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  CHECK(cudaEventRecord(start));
  work();
  CHECK(cudaEventRecord(stop));
  CHECK(cudaEventSynchronize(stop));
  CHECK(cudaEventElapsedTime(&ms, start, stop));
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(stop));
  return ms;
}

void report(const char* name, float ms, const float* x, size_t n, float expected) {
  for (size_t i = 0; i < n; ++i) {
    if (x[i] != expected) {
      fprintf(stderr, "%s: x[%zu] is %g, not %g\n", name, i, x[i], expected);
      exit(EXIT_FAILURE);
    }
  }
  printf("%-36s %9.3f\n", name, ms);
}

// To the device, a kernel, and back.
void carry(float* host, float* device, size_t n, cudaStream_t stream) {
  CHECK(cudaMemcpyAsync(device, host, n * sizeof(float), cudaMemcpyHostToDevice, stream));
  launch(device, n, stream);
  CHECK(cudaMemcpyAsync(host, device, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
}

void streams(size_t n) {
  float *host, *device;
  CHECK(cudaMallocHost(&host, n * sizeof(float)));  // pinned: else a copy waits for the host
  CHECK(cudaMalloc(&device, n * sizeof(float)));
  cudaStream_t all[kStreams];
  for (cudaStream_t& stream : all) CHECK(cudaStreamCreate(&stream));
  for (size_t i = 0; i < n; ++i) host[i] = 0;

  const float one = time_of([&] { carry(host, device, n, all[0]); });
  report("copy, kernel, copy in one stream", one, host, n, 1);

  const size_t chunk = (n + kChunks - 1) / kChunks;
  const float three = time_of([&] {
    for (size_t c = 0; c * chunk < n; ++c) {
      const size_t first = c * chunk;
      const size_t count = first + chunk < n ? chunk : n - first;
      carry(host + first, device + first, count, all[c % kStreams]);
    }
  });
  report("the same in chunks on three streams", three, host, n, 2);

  for (cudaStream_t stream : all) CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(device));
  CHECK(cudaFreeHost(host));
}

void graphs() {
  float host[kSmall];
  float* device;
  cudaStream_t stream;
  CHECK(cudaMalloc(&device, sizeof(host)));
  CHECK(cudaMemset(device, 0, sizeof(host)));
  CHECK(cudaStreamCreate(&stream));
  const auto launch_all = [&] {
    for (int k = 0; k < kSmallKernels; ++k) launch(device, kSmall, stream);
  };

  const float one_by_one = time_of(launch_all);
  CHECK(cudaMemcpy(host, device, sizeof(host), cudaMemcpyDeviceToHost));
  report("200 kernels, one by one", one_by_one, host, kSmall, kSmallKernels);

  cudaGraph_t graph;
  cudaGraphExec_t run;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launch_all();  // records them
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&run, graph, 0));
  CHECK(cudaGraphUpload(run, stream));
  const float as_graph = time_of([&] { CHECK(cudaGraphLaunch(run, stream)); });
  CHECK(cudaMemcpy(host, device, sizeof(host), cudaMemcpyDeviceToHost));
  report("the same as a graph", as_graph, host, kSmall, 2 * kSmallKernels);

  CHECK(cudaGraphExecDestroy(run));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(device));
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
  printf("%.3f MB, %36s\n", n * sizeof(float) / 1e6, "ms");
  streams(n);
  graphs();
  return 0;
}
