// expect: race at 2: nothing orders the two
__global__ void k(int* a) { __shared__ int s[32]; s[threadIdx.x / 2] = threadIdx.x; a[threadIdx.x] = s[0]; }
int main() { int* a; cudaStream_t s; cudaGraph_t g; cudaGraphExec_t e;
  cudaMalloc(&a, 128); cudaStreamCreate(&s);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  k<<<1, 32, 0, s>>>(a);
  cudaStreamEndCapture(s, &g);
  cudaGraphInstantiate(&e, g, 0);
  cudaGraphLaunch(e, s); }
