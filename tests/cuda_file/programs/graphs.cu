// Streams that record: kernels, copies, memsets and host functions as a graph, on several streams.
#include <cstdio>

#define CHECK(call)                                                            \
  do {                                                                         \
    const cudaError_t got = (call);                                            \
    if (got != cudaSuccess) {                                                  \
      printf("%d: %s\n", __LINE__, cudaGetErrorName(got));                     \
      return __LINE__;                                                         \
    }                                                                          \
  } while (0)
// ... and that the last error is asked for.
#define REFUSED(call, error)                                                   \
  do {                                                                         \
    const cudaError_t got = (call);                                            \
    if (got != (error) || cudaGetLastError() != (error)) {                     \
      printf("%d: %s\n", __LINE__, cudaGetErrorName(got));                     \
      return __LINE__;                                                         \
    }                                                                          \
  } while (0)

struct Line {
  float a, b;
};
__global__ void add(float *x, Line line, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = line.a * x[i] + line.b;
}
template <class T>
__global__ void sum(const T *x, const T *y, T *z, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) z[i] = x[i] + y[i];
}
__device__ float scale;
void count(void *calls) { ++*static_cast<int *>(calls); }

const int n = 300;

// z = (2 x + 1) + 7 on two streams; x and y are fetched again in each launch.
int capture(cudaStream_t one, cudaStream_t two, float *host, float *x, float *y, float *z,
            int *calls, cudaGraph_t *graph) {
  cudaEvent_t fork, join;
  CHECK(cudaEventCreate(&fork));
  CHECK(cudaEventCreate(&join));
  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemcpyAsync(x, host, n * sizeof(float), cudaMemcpyHostToDevice, one));
  CHECK(cudaEventRecord(fork, one));
  CHECK(cudaStreamWaitEvent(two, fork, 0));
  add<<<(n + 63) / 64, 64, 0, one>>>(x, Line{2, 1}, n);
  CHECK(cudaMemsetAsync(y, 0, n * sizeof(float), two));
  add<<<(n + 63) / 64, 64, 0, two>>>(y, Line{1, 7}, n);
  CHECK(cudaEventRecord(join, two));
  cudaStreamCaptureStatus status;
  CHECK(cudaStreamIsCapturing(two, &status));
  if (status != cudaStreamCaptureStatusActive) return __LINE__;
  CHECK(cudaStreamWaitEvent(one, join, 0));
  sum<<<1, 64, 0, one>>>(x, y, z, n);
  CHECK(cudaMemcpyAsync(host, z, n * sizeof(float), cudaMemcpyDeviceToHost, one));
  CHECK(cudaLaunchHostFunc(one, count, calls));
  CHECK(cudaStreamEndCapture(one, graph));
  REFUSED(cudaEventSynchronize(join), cudaErrorCapturedEvent);
  CHECK(cudaStreamSynchronize(one));
  CHECK(cudaEventDestroy(fork));
  CHECK(cudaEventDestroy(join));
  return 0;
}

// What is not allowed while a stream records has CUDA's errors, and spoils the graph.
int refusals(cudaStream_t one, cudaStream_t two, float *x) {
  cudaGraph_t graph;
  cudaEvent_t event;
  float *other, number;
  cudaStreamCaptureStatus status;
  CHECK(cudaEventCreate(&event));
  REFUSED(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  REFUSED(cudaStreamEndCapture(one, &graph), cudaErrorIllegalState);

  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  REFUSED(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  REFUSED(cudaStreamSynchronize(one), cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamIsCapturing(one, &status));
  if (status != cudaStreamCaptureStatusInvalidated) return __LINE__;
  REFUSED(cudaMemsetAsync(x, 0, 4, one), cudaErrorStreamCaptureInvalidated);
  REFUSED(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);
  if (graph != nullptr) return __LINE__;

  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  REFUSED(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  REFUSED(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);

  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  REFUSED(cudaMalloc(&other, 4), cudaErrorStreamCaptureUnsupported);
  REFUSED(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);

  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  REFUSED(cudaMemcpy(&number, x, 4, cudaMemcpyDeviceToHost), cudaErrorStreamCaptureImplicit);
  REFUSED(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);

  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  add<<<1, 32>>>(x, Line{1, 0}, 32);
  if (cudaGetLastError() != cudaErrorStreamCaptureImplicit) return __LINE__;
  REFUSED(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);

  CHECK(cudaEventRecord(event, two));
  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  REFUSED(cudaStreamWaitEvent(one, event, 0), cudaErrorStreamCaptureIsolation);
  REFUSED(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);

  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(event, one));
  CHECK(cudaStreamWaitEvent(two, event, 0));
  CHECK(cudaMemsetAsync(x, 0, 4, two));
  REFUSED(cudaStreamEndCapture(two, &graph), cudaErrorStreamCaptureUnmatched);
  REFUSED(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);

  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(event, one));
  CHECK(cudaStreamWaitEvent(two, event, 0));
  CHECK(cudaMemsetAsync(x, 0, 4, two));
  REFUSED(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureUnjoined);

  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  CHECK(cudaStreamBeginCapture(two, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(event, one));
  REFUSED(cudaStreamWaitEvent(two, event, 0), cudaErrorStreamCaptureMerge);
  REFUSED(cudaStreamEndCapture(two, &graph), cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamEndCapture(one, &graph));
  CHECK(cudaGraphDestroy(graph));

  // A stream that does not wait for the default one lets it run; relaxed, it lets memory be made.
  cudaStream_t alone;
  CHECK(cudaStreamCreateWithFlags(&alone, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCapture(alone, cudaStreamCaptureModeRelaxed));
  CHECK(cudaMalloc(&other, 4));
  CHECK(cudaMemset(other, 0, 4));
  add<<<1, 32>>>(other, Line{1, 3}, 1);
  CHECK(cudaMemcpyToSymbolAsync(scale, other, 4, 0, cudaMemcpyDeviceToDevice, alone));
  CHECK(cudaStreamEndCapture(alone, &graph));
  CHECK(cudaMemcpy(&number, other, 4, cudaMemcpyDeviceToHost));
  if (number != 3) return __LINE__;
  cudaGraphExec_t run;
  CHECK(cudaGraphInstantiateWithFlags(&run, graph, 0));
  CHECK(cudaGraphLaunch(run, 0));
  CHECK(cudaMemcpyFromSymbol(&number, scale, 4));
  if (number != 3) return __LINE__;
  CHECK(cudaGraphExecDestroy(run));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(alone));
  CHECK(cudaFree(other));
  CHECK(cudaEventDestroy(event));
  return 0;
}

int main() {
  cudaStream_t one, two;
  CHECK(cudaStreamCreate(&one));
  CHECK(cudaStreamCreate(&two));
  float *host, *x, *y, *z;
  int calls = 0;
  CHECK(cudaMallocHost(&host, n * sizeof(float)));
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMalloc(&y, n * sizeof(float)));
  CHECK(cudaMalloc(&z, n * sizeof(float)));
  for (int i = 0; i < n; ++i) host[i] = i;

  cudaGraph_t graph;
  if (const int line = capture(one, two, host, x, y, z, &calls, &graph)) return line;
  if (calls != 0 || host[2] != 2) return __LINE__;  // nothing has run
  size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  if (nodes != 7) return __LINE__;
  cudaGraphExec_t run;
  char log[32];
  cudaGraphNode_t wrong;
  CHECK(cudaGraphInstantiate(&run, graph, &wrong, log, sizeof(log)));
  CHECK(cudaGraphExecDestroy(run));
  CHECK(cudaGraphInstantiate(&run, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  for (int time = 0; time < 2; ++time) CHECK(cudaGraphLaunch(run, two));
  CHECK(cudaStreamSynchronize(two));
  if (calls != 2) return __LINE__;
  for (int i = 0; i < n; ++i) {
    if (host[i] != 2 * (2 * i + 8) + 8) return __LINE__;
  }

  // A graph inside a graph.
  cudaGraphExec_t twice;
  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaGraphLaunch(run, one));
  CHECK(cudaGraphLaunch(run, one));
  CHECK(cudaStreamEndCapture(one, &graph));
  CHECK(cudaGraphInstantiate(&twice, graph, 0));
  CHECK(cudaGraphUpload(twice, one));
  CHECK(cudaGraphLaunch(twice, one));
  CHECK(cudaStreamSynchronize(one));
  if (calls != 4) return __LINE__;
  CHECK(cudaGraphExecDestroy(twice));
  CHECK(cudaGraphExecDestroy(run));
  CHECK(cudaGraphDestroy(graph));

  if (const int line = refusals(one, two, x)) return line;
  CHECK(cudaStreamDestroy(one));
  CHECK(cudaStreamDestroy(two));
  CHECK(cudaFree(x));
  CHECK(cudaFree(y));
  CHECK(cudaFree(z));
  CHECK(cudaFreeHost(host));
  return 0;
}
