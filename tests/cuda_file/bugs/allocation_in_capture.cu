// expect: not supported at 4: cudaMallocAsync of a stream that is being captured
int main() { float* a; cudaStream_t s;
  cudaStreamCreate(&s); cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  cudaMallocAsync(&a, 4, s); }
