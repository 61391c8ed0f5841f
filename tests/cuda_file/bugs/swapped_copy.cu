// expect: launch at 6: cudaErrorInvalidValue
int main() {
  float h[8] = {}, *d;
  cudaMalloc(&d, sizeof h);
  // Target and source the wrong way round, and nobody looks.
  cudaMemcpy(h, d, sizeof h, cudaMemcpyHostToDevice);
  return 0;
}
