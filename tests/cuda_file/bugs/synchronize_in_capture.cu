// expect: launch at 8: the capture has failed by cudaStreamSynchronize
__global__ void k(float* a) { a[threadIdx.x] = 1; }
int main() { float* a; cudaStream_t s; cudaGraph_t g;
  cudaMalloc(&a, 128); cudaStreamCreate(&s);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  k<<<1, 32, 0, s>>>(a);
  cudaStreamSynchronize(s);
  cudaStreamEndCapture(s, &g); }
